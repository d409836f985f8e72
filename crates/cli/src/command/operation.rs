//! `trueup pause`, `resume`, `restart`, `scale`, `resize`, `hours` and `rollback`: operations on services.
//!
//! With several services each one is accepted or refused on its own.

mod hours;

use std::time::Duration;

use trueup_api::Client;
use trueup_api::client::{Accepted, ClientError, Terms};
use trueup_api::service::{AutoscaleBody, HoursBody, ResizeBody, RollbackBody, ScaleBody, Service};

use crate::confirm::Confirmation;
use crate::connect::context::{Connection, Context};
use crate::connect::targets::{Targets, listed};
use crate::dry_run::DryRun;
use crate::failure::{Exit, Failure, explain};
use crate::output::human::{count, duration};
use crate::wait::follow::{Ended, Goal, follow, timed_out};
use crate::wait::until::Until;

pub use hours::{HoursArgs, hours};

/// Arguments of every operation.
#[derive(Debug, clap::Args)]
pub struct Common {
    #[command(flatten)]
    targets: Targets,
    #[command(flatten)]
    dry: DryRun,
    #[command(flatten)]
    confirmation: Confirmation,
    /// Apply only if the service still has this generation; only for one service
    #[arg(long, value_name = "GENERATION")]
    if_match: Option<i64>,
    /// Wait until the operation has taken effect
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// Timeout for --wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    timeout: Duration,
    /// Idempotency key; a retry with it is applied once. Only for one service
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

/// Stop the pods of services and keep everything else
#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    #[command(flatten)]
    common: Common,
}

/// Resume paused services
#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    common: Common,
}

/// Replace every pod of services
#[derive(Debug, clap::Args)]
pub struct RestartArgs {
    #[command(flatten)]
    common: Common,
}

/// Set the number of a service's pods, or autoscale it
#[derive(Debug, clap::Args)]
pub struct ScaleArgs {
    #[command(flatten)]
    common: Common,
    /// Fixed number of pods
    #[arg(long, short, value_name = "NUMBER", required_unless_present = "max")]
    replicas: Option<u32>,
    /// Minimum number of pods when autoscaling
    #[arg(long, value_name = "NUMBER", requires = "max", default_value_t = 1)]
    min: u32,
    /// Maximum number of pods when autoscaling
    #[arg(long, value_name = "NUMBER", conflicts_with = "replicas")]
    max: Option<u32>,
    /// Target average CPU use of the pods when autoscaling, in percent
    #[arg(long, value_name = "PERCENT", requires = "max")]
    cpu: Option<u32>,
}

/// Change the size of a service's pods
#[derive(Debug, clap::Args)]
pub struct ResizeArgs {
    #[command(flatten)]
    common: Common,
    /// Plan; `trueup get plans` lists them
    #[arg(long, value_name = "NAME")]
    plan: String,
}

/// Roll back to an earlier generation
#[derive(Debug, clap::Args)]
pub struct RollbackArgs {
    #[command(flatten)]
    common: Common,
    /// Generation to restore; default: the last one with a different spec
    #[arg(long, value_name = "GENERATION")]
    to: Option<i64>,
}

/// An operation and its request body.
#[derive(Debug)]
enum Operation {
    Pause,
    Resume,
    Restart,
    Scale(ScaleBody),
    Autoscale(AutoscaleBody),
    Resize(ResizeBody),
    Hours(HoursBody),
    Rollback(RollbackBody),
}

impl Operation {
    const fn name(&self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Restart => "restart",
            Self::Scale(_) => "scale",
            Self::Autoscale(_) => "autoscale",
            Self::Resize(_) => "resize",
            Self::Hours(_) => "hours",
            Self::Rollback(_) => "rollback",
        }
    }

    /// The condition for `--wait`. A paused service is never healthy.
    const fn goal(&self) -> Until {
        match self {
            Self::Pause | Self::Hours(_) => Until::Settled,
            Self::Resume
            | Self::Restart
            | Self::Scale(_)
            | Self::Autoscale(_)
            | Self::Resize(_)
            | Self::Rollback(_) => Until::Healthy,
        }
    }

    async fn send(
        &self,
        client: &Client,
        service: &Service,
        terms: &Terms,
    ) -> Result<Accepted, ClientError> {
        let (project, id) = (&service.project, &service.id);
        match self {
            Self::Pause => client.service_pause(project, id, terms).await,
            Self::Resume => client.service_resume(project, id, terms).await,
            Self::Restart => client.service_restart(project, id, terms).await,
            Self::Scale(body) => client.service_scale(project, id, body, terms).await,
            Self::Autoscale(body) => client.service_autoscale(project, id, body, terms).await,
            Self::Resize(body) => client.service_resize(project, id, body, terms).await,
            Self::Hours(body) => client.service_hours(project, id, body, terms).await,
            Self::Rollback(body) => client.service_rollback(project, id, body, terms).await,
        }
    }
}

pub async fn pause(args: PauseArgs, context: &Context) -> anyhow::Result<Exit> {
    run(&args.common, &Operation::Pause, context).await
}

pub async fn resume(args: ResumeArgs, context: &Context) -> anyhow::Result<Exit> {
    run(&args.common, &Operation::Resume, context).await
}

pub async fn restart(args: RestartArgs, context: &Context) -> anyhow::Result<Exit> {
    run(&args.common, &Operation::Restart, context).await
}

pub async fn scale(args: ScaleArgs, context: &Context) -> anyhow::Result<Exit> {
    let operation = match (args.replicas, args.max) {
        (Some(replicas), _) => Operation::Scale(ScaleBody { replicas }),
        (None, max) => Operation::Autoscale(AutoscaleBody {
            min: args.min,
            max: max.unwrap_or(args.min),
            cpu_percent: args.cpu,
        }),
    };
    run(&args.common, &operation, context).await
}

pub async fn resize(args: ResizeArgs, context: &Context) -> anyhow::Result<Exit> {
    run(&args.common, &Operation::Resize(ResizeBody { plan: args.plan }), context).await
}

pub async fn rollback(args: RollbackArgs, context: &Context) -> anyhow::Result<Exit> {
    run(&args.common, &Operation::Rollback(RollbackBody { to: args.to }), context).await
}

async fn run(common: &Common, operation: &Operation, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let services = common.targets.resolve(context, &connection).await?;
    let is_one = services.len() == 1;
    if !is_one && (common.if_match.is_some() || common.idempotency_key.is_some()) {
        let message = "--if-match and --idempotency-key are for one service";
        return Err(Failure::new(Exit::Usage, message).hint("name one service").into());
    }
    if common.targets.all && !common.dry.is_dry() {
        let what = format!("{} {}", operation.name(), count(services.len(), "service"));
        let question = format!("{}?", listed(&what, &services));
        common.confirmation.require(&what, &question, context.terminal)?;
    }
    let mut changed = Vec::new();
    let mut failed = 0;
    for service in services {
        let name = format!("{}/{}", service.project, service.name);
        match send(common, operation, service, context, &connection).await {
            Ok(sent) => changed.extend(sent),
            Err(error) if is_one => return Err(error),
            Err(error) => {
                failed += 1;
                let (_, message, hint) = explain(&error);
                context.terminal.error(&format!("{name}: {message}"), hint.as_deref())?;
            }
        }
    }
    if common.wait {
        wait(common, operation, changed, context, &connection).await?;
    }
    Ok(if failed > 0 { Exit::Failed } else { Exit::Ok })
}

/// Requests the operation on one service; none if it was only previewed.
async fn send(
    common: &Common,
    operation: &Operation,
    service: Service,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Option<Service>> {
    let name = format!("{}/{}", service.project, service.name);
    let writing = common.dry.begin(&connection.client);
    let terms = Terms { if_generation: common.if_match, key: common.idempotency_key.clone() };
    let sending = operation.send(writing.client(), &service, &terms);
    let accepted = context.wait("sending the request", sending).await?;
    if writing.previewed(&format!("service/{name}"), context)? {
        return Ok(None);
    }
    let service = accepted.service;
    if !context.output.is_for_programs() {
        let outcome = if accepted.changed { "accepted" } else { "unchanged" };
        let (word, generation) = (operation.name(), service.generation);
        context
            .terminal
            .line(&format!("service/{} {word} {outcome}, generation {generation}", service.name))?;
    }
    if !common.wait {
        context.output.print_item(context.terminal, &service)?;
    }
    Ok(Some(service))
}

/// Waits until the operation has taken effect on each service.
async fn wait(
    common: &Common,
    operation: &Operation,
    services: Vec<Service>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<()> {
    let named = services.len() > 1;
    let goal = Goal {
        until: Some(operation.goal()),
        timeout: Some(common.timeout),
        named,
        streams: false,
    };
    for service in services {
        match follow(context, &connection.client, service, &goal).await? {
            Ended::Reached(service) => {
                context.output.print_item(context.terminal, &service)?;
            }
            Ended::TimedOut(service) => return Err(timed_out(&service, &goal).into()),
        }
    }
    Ok(())
}
