//! `trueup pause`, `resume`, `restart`, `scale`, `resize` and `rollback`: one thing done with one
//! service, previewed with `--dry-run` or watched with `--wait`.

use std::time::Duration;

use trueup_api::Client;
use trueup_api::client::{Accepted, ClientError, Terms};
use trueup_api::service::{AutoscaleBody, ResizeBody, RollbackBody, ScaleBody, Service};

use crate::connect::context::Context;
use crate::connect::target::resolve;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::duration;
use crate::wait::follow::{Ended, Goal, follow, too_late};
use crate::wait::until::Until;

/// What comes with every action.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// NAME, PROJECT/NAME or svc_…
    name: String,
    #[command(flatten)]
    dry: DryRun,
    /// Wait until it is true
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// How long to wait for that
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    timeout: Duration,
    /// A key that makes this request known again when it is sent twice
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

/// Stop a service's pods and keep everything else
#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    #[command(flatten)]
    common: Common,
}

/// Let a paused service run again
#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    common: Common,
}

/// Replace every pod of a service
#[derive(Debug, clap::Args)]
pub struct RestartArgs {
    #[command(flatten)]
    common: Common,
}

/// Change how many pods a service has, or let their number follow the load
#[derive(Debug, clap::Args)]
pub struct ScaleArgs {
    #[command(flatten)]
    common: Common,
    /// How many, always
    #[arg(long, short, value_name = "NUMBER", required_unless_present = "max")]
    replicas: Option<u32>,
    /// The fewest, where their number follows the load
    #[arg(long, value_name = "NUMBER", requires = "max", default_value_t = 1)]
    min: u32,
    /// The most, where their number follows the load
    #[arg(long, value_name = "NUMBER", conflicts_with = "replicas")]
    max: Option<u32>,
    /// How much of its CPU a pod shall use on average, in percent
    #[arg(long, value_name = "PERCENT", requires = "max")]
    cpu: Option<u32>,
}

/// Change the size of a service's pods
#[derive(Debug, clap::Args)]
pub struct ResizeArgs {
    #[command(flatten)]
    common: Common,
    /// Which plan; `trueup get plans` lists them
    #[arg(long, value_name = "NAME")]
    plan: String,
}

/// Promise again what a former generation promised
#[derive(Debug, clap::Args)]
pub struct RollbackArgs {
    #[command(flatten)]
    common: Common,
    /// Which generation; left out, the last that promised something else
    #[arg(long, value_name = "GENERATION")]
    to: Option<i64>,
}

/// What is to be done.
#[derive(Debug)]
enum Deed {
    Pause,
    Resume,
    Restart,
    Scale(ScaleBody),
    Autoscale(AutoscaleBody),
    Resize(ResizeBody),
    Rollback(RollbackBody),
}

impl Deed {
    const fn word(&self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Restart => "restart",
            Self::Scale(_) => "scale",
            Self::Autoscale(_) => "autoscale",
            Self::Resize(_) => "resize",
            Self::Rollback(_) => "rollback",
        }
    }

    /// What it is to wait for: a paused service is never healthy, it rests.
    const fn goal(&self) -> Until {
        match self {
            Self::Pause => Until::Settled,
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
            Self::Rollback(body) => client.service_rollback(project, id, body, terms).await,
        }
    }
}

pub async fn pause(args: PauseArgs, context: &Context) -> anyhow::Result<Exit> {
    run(&args.common, &Deed::Pause, context).await
}

pub async fn resume(args: ResumeArgs, context: &Context) -> anyhow::Result<Exit> {
    run(&args.common, &Deed::Resume, context).await
}

pub async fn restart(args: RestartArgs, context: &Context) -> anyhow::Result<Exit> {
    run(&args.common, &Deed::Restart, context).await
}

pub async fn scale(args: ScaleArgs, context: &Context) -> anyhow::Result<Exit> {
    let deed = match (args.replicas, args.max) {
        (Some(replicas), _) => Deed::Scale(ScaleBody { replicas }),
        (None, max) => Deed::Autoscale(AutoscaleBody {
            min: args.min,
            max: max.unwrap_or(args.min),
            cpu_percent: args.cpu,
        }),
    };
    run(&args.common, &deed, context).await
}

pub async fn resize(args: ResizeArgs, context: &Context) -> anyhow::Result<Exit> {
    run(&args.common, &Deed::Resize(ResizeBody { plan: args.plan }), context).await
}

pub async fn rollback(args: RollbackArgs, context: &Context) -> anyhow::Result<Exit> {
    run(&args.common, &Deed::Rollback(RollbackBody { to: args.to }), context).await
}

async fn run(common: &Common, deed: &Deed, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let reading = resolve(&common.name, context, &connection);
    let service = context.ask("reading the service", reading).await?;
    let name = format!("{}/{}", service.project, service.name);
    let writing = common.dry.begin(&connection.client);
    let terms = Terms { if_generation: None, key: common.idempotency_key.clone() };
    let sending = deed.send(writing.client(), &service, &terms);
    let accepted = context.ask("asking for it", sending).await?;
    if writing.previewed(&format!("service/{name}"), context)? {
        return Ok(Exit::Ok);
    }
    let service = accepted.service;
    if !context.output.is_for_programs() {
        let outcome = if accepted.changed { "accepted" } else { "unchanged" };
        let (word, generation) = (deed.word(), service.generation);
        context
            .terminal
            .line(&format!("service/{} {word} {outcome}, generation {generation}", service.name))?;
    }
    if !common.wait {
        context.output.print(context.terminal, &service)?;
        return Ok(Exit::Ok);
    }
    let goal = Goal { until: Some(deed.goal()), timeout: Some(common.timeout), named: false };
    match follow(context, &connection.client, service, &goal).await? {
        Ended::Reached(_) => Ok(Exit::Ok),
        Ended::TimedOut(service) => Err(too_late(&service, &goal).into()),
    }
}
