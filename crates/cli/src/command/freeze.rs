//! `trueup freeze`, `unfreeze` and `reconcile`.

use std::time::Duration;

use trueup_api::Client;
use trueup_api::event::EventFilter;
use trueup_api::freeze::{Freeze, FreezeBody};
use trueup_api::service::Service;

use crate::command::events::newest;
use crate::connect::context::Context;
use crate::connect::target::resolve;
use crate::dry_run::{DryRun, WriteClient};
use crate::failure::{Exit, Failure};
use crate::output::human::duration;
use crate::wait::follow::{Ended, Goal, follow, timed_out};
use crate::wait::until::Until;

/// What to freeze or unfreeze.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct What {
    /// A service: NAME, PROJECT/NAME or svc_…
    name: Option<String>,
    /// A cluster, by name or id (operators)
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    /// Every cluster (operators)
    #[arg(long)]
    platform: bool,
}

/// Stop all writes to a service, a cluster or the platform; observation continues
#[derive(Debug, clap::Args)]
pub struct FreezeArgs {
    #[command(flatten)]
    what: What,
    /// Why; shown with the frozen service or cluster
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    dry: DryRun,
}

/// Resume writes to a service, a cluster or the platform
#[derive(Debug, clap::Args)]
pub struct UnfreezeArgs {
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    dry: DryRun,
}

/// Reconcile a service now
#[derive(Debug, clap::Args)]
pub struct ReconcileArgs {
    /// NAME, PROJECT/NAME or svc_…
    name: String,
    /// Wait until the service was reconciled and is settled
    #[arg(long)]
    wait: bool,
    /// Timeout for --wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    dry: DryRun,
}

pub async fn freeze(args: FreezeArgs, context: &Context) -> anyhow::Result<Exit> {
    set_frozen(&args.what, Some(FreezeBody { reason: args.reason }), args.dry, context).await
}

pub async fn unfreeze(args: UnfreezeArgs, context: &Context) -> anyhow::Result<Exit> {
    set_frozen(&args.what, None, args.dry, context).await
}

async fn set_frozen(
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
            context.wait("reading the service", resolve(name, context, &connection)).await?;
        let (project, id) = (&service.project, &service.id);
        let service = match &body {
            Some(body) => {
                context.wait("freezing", client.service_freeze(project, id, body)).await?
            }
            None => context.wait("unfreezing", client.service_unfreeze(project, id)).await?,
        };
        let name = format!("service/{}", service.name);
        return print_state(&name, &service, service.frozen.as_ref(), &writing, context);
    }
    if let Some(cluster) = &what.cluster {
        let cluster = match &body {
            Some(body) => context.wait("freezing", client.cluster_freeze(cluster, body)).await?,
            None => context.wait("unfreezing", client.cluster_unfreeze(cluster)).await?,
        };
        let name = format!("cluster/{}", cluster.name);
        return print_state(&name, &cluster, cluster.frozen.as_ref(), &writing, context);
    }
    let platform = match &body {
        Some(body) => context.wait("freezing", client.platform_freeze(body)).await?,
        None => context.wait("unfreezing", client.platform_unfreeze()).await?,
    };
    print_state("platform", &platform, platform.frozen.as_ref(), &writing, context)
}

/// Prints the new state, or the preview of a dry run.
fn print_state<T: serde::Serialize>(
    name: &str,
    shown: &T,
    frozen: Option<&Freeze>,
    writing: &WriteClient,
    context: &Context,
) -> anyhow::Result<Exit> {
    if !writing.previewed(name, context)? && !context.output.print(context.terminal, shown)? {
        context.terminal.line(&state_line(name, frozen))?;
    }
    Ok(Exit::Ok)
}

fn state_line(name: &str, frozen: Option<&Freeze>) -> String {
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
    let service = context.wait("reading the service", reading).await?;
    let before = last_check(client, context, &service).await?;
    let requesting = writing.client().service_reconcile(&service.project, &service.id);
    let service = context.wait("requesting the reconcile", requesting).await?;
    if writing.previewed(&format!("service/{}", service.name), context)? {
        return Ok(Exit::Ok);
    }
    if !context.output.is_for_programs() {
        context.terminal.line(&format!("service/{} reconcile requested", service.name))?;
    }
    if !args.wait {
        context.output.print(context.terminal, &service)?;
        return Ok(Exit::Ok);
    }
    wait_for_check(client, context, &service, before, args.timeout).await?;
    let goal = Goal {
        until: Some(Until::Settled),
        timeout: Some(args.timeout),
        named: false,
        streams: false,
    };
    match follow(context, client, service, &goal).await? {
        Ended::Reached(service) => {
            context.output.print_item(context.terminal, &service)?;
            Ok(Exit::Ok)
        }
        Ended::TimedOut(service) => Err(timed_out(&service, &goal).into()),
    }
}

/// The id of the event of the last requested reconcile.
async fn last_check(
    client: &Client,
    context: &Context,
    service: &Service,
) -> anyhow::Result<Option<String>> {
    let filter = EventFilter {
        subject: Some(service.id.clone()),
        kind: Some("ReconcileChecked".to_owned()),
        ..EventFilter::default()
    };
    let found = context.wait("reading its events", newest(client, &filter, 1)).await?;
    Ok(found.last().map(|event| event.id.clone()))
}

/// Waits for the next requested reconcile.
async fn wait_for_check(
    client: &Client,
    context: &Context,
    service: &Service,
    before: Option<String>,
    timeout: Duration,
) -> anyhow::Result<()> {
    let checked = async {
        loop {
            if last_check(client, context, service).await? != before {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    match tokio::time::timeout(timeout, checked).await {
        Ok(checked) => checked,
        Err(_) => Err(Failure::new(
            Exit::TimedOut,
            format!("timed out waiting for the reconcile of {}; see `trueup wakes`", service.name),
        )
        .into()),
    }
}
