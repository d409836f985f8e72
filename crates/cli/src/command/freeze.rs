//! `trueup freeze`, `unfreeze` and `reconcile`: hold everything, let it go, look at it afresh.

use std::time::Duration;

use trueup_api::Client;
use trueup_api::event::EventFilter;
use trueup_api::freeze::{Freeze, FreezeBody};
use trueup_api::service::Service;

use crate::command::events::newest;
use crate::connect::context::Context;
use crate::connect::target::resolve;
use crate::dry_run::{DryRun, Writing};
use crate::failure::{Exit, Failure};
use crate::output::human::duration;
use crate::wait::follow::{Ended, Goal, follow, too_late};
use crate::wait::until::Until;

/// What a switch is for.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct What {
    /// A service: NAME, PROJECT/NAME or svc_…
    name: Option<String>,
    /// A cluster, by name or id; for operators
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    /// Every cluster; for operators
    #[arg(long)]
    platform: bool,
}

/// Stop every act on a service, a cluster or the platform; it is still observed
#[derive(Debug, clap::Args)]
pub struct FreezeArgs {
    #[command(flatten)]
    what: What,
    /// Why, for whoever wonders that nothing happens
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    dry: DryRun,
}

/// Let a service, a cluster or the platform be worked on again
#[derive(Debug, clap::Args)]
pub struct UnfreezeArgs {
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    dry: DryRun,
}

/// Look at a service afresh now, and put right what differs
#[derive(Debug, clap::Args)]
pub struct ReconcileArgs {
    /// NAME, PROJECT/NAME or svc_…
    name: String,
    /// Wait until it was looked at and is settled
    #[arg(long)]
    wait: bool,
    /// How long to wait for that
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    dry: DryRun,
}

pub async fn freeze(args: FreezeArgs, context: &Context) -> anyhow::Result<Exit> {
    turn(&args.what, Some(FreezeBody { reason: args.reason }), args.dry, context).await
}

pub async fn unfreeze(args: UnfreezeArgs, context: &Context) -> anyhow::Result<Exit> {
    turn(&args.what, None, args.dry, context).await
}

async fn turn(
    what: &What,
    body: Option<FreezeBody>,
    dry: DryRun,
    context: &Context,
) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let writing = dry.begin(&connection.client);
    let client = writing.client();
    if let Some(name) = &what.name {
        let service =
            context.ask("reading the service", resolve(name, context, &connection)).await?;
        let (project, id) = (&service.project, &service.id);
        let service = match &body {
            Some(body) => context.ask("freezing", client.service_freeze(project, id, body)).await?,
            None => context.ask("letting go", client.service_unfreeze(project, id)).await?,
        };
        let name = format!("service/{}", service.name);
        return tell(&name, &service, service.frozen.as_ref(), &writing, context);
    }
    if let Some(cluster) = &what.cluster {
        let cluster = match &body {
            Some(body) => context.ask("freezing", client.cluster_freeze(cluster, body)).await?,
            None => context.ask("letting go", client.cluster_unfreeze(cluster)).await?,
        };
        let name = format!("cluster/{}", cluster.name);
        return tell(&name, &cluster, cluster.frozen.as_ref(), &writing, context);
    }
    let platform = match &body {
        Some(body) => context.ask("freezing", client.platform_freeze(body)).await?,
        None => context.ask("letting go", client.platform_unfreeze()).await?,
    };
    tell("platform", &platform, platform.frozen.as_ref(), &writing, context)
}

/// Says how it is now, or how it would be.
fn tell<T: serde::Serialize>(
    name: &str,
    shown: &T,
    frozen: Option<&Freeze>,
    writing: &Writing,
    context: &Context,
) -> anyhow::Result<Exit> {
    if !writing.previewed(name, context)? && !context.output.print(context.terminal, shown)? {
        context.terminal.line(&told(name, frozen))?;
    }
    Ok(Exit::Ok)
}

fn told(name: &str, frozen: Option<&Freeze>) -> String {
    match frozen {
        Some(Freeze { scope, by, reason, .. }) => {
            format!("{name} is frozen ({scope}) by {by}: {reason}")
        }
        None => format!("{name} is not frozen"),
    }
}

pub async fn reconcile(args: ReconcileArgs, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let client = &connection.client;
    let writing = args.dry.begin(client);
    let reading = resolve(&args.name, context, &connection);
    let service = context.ask("reading the service", reading).await?;
    let before = checks(client, context, &service).await?;
    let asking = writing.client().service_reconcile(&service.project, &service.id);
    let service = context.ask("asking for it", asking).await?;
    if writing.previewed(&format!("service/{}", service.name), context)? {
        return Ok(Exit::Ok);
    }
    if !context.output.is_for_programs() {
        context.terminal.line(&format!("service/{} will be looked at afresh", service.name))?;
    }
    if !args.wait {
        context.output.print(context.terminal, &service)?;
        return Ok(Exit::Ok);
    }
    wait_for_check(client, context, &service, before, args.timeout).await?;
    let goal = Goal { until: Some(Until::Settled), timeout: Some(args.timeout), named: false };
    match follow(context, client, service, &goal).await? {
        Ended::Reached(_) => Ok(Exit::Ok),
        Ended::TimedOut(service) => Err(too_late(&service, &goal).into()),
    }
}

/// The last time that it was looked at afresh because somebody asked.
async fn checks(
    client: &Client,
    context: &Context,
    service: &Service,
) -> anyhow::Result<Option<String>> {
    let filter = EventFilter {
        subject: Some(service.id.clone()),
        kind: Some("ReconcileChecked".to_owned()),
        ..EventFilter::default()
    };
    let found = context.ask("reading its events", newest(client, &filter, 1)).await?;
    Ok(found.last().map(|event| event.id.clone()))
}

/// Waits until it was looked at once more.
async fn wait_for_check(
    client: &Client,
    context: &Context,
    service: &Service,
    before: Option<String>,
    timeout: Duration,
) -> anyhow::Result<()> {
    let looked = async {
        loop {
            if checks(client, context, service).await? != before {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    match tokio::time::timeout(timeout, looked).await {
        Ok(looked) => looked,
        Err(_) => Err(Failure::new(
            Exit::TimedOut,
            format!("{} was not looked at in time; see `trueup wakes`", service.name),
        )
        .into()),
    }
}
