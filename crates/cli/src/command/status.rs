//! `trueup status`: the server, its clusters and its services at a glance.

use jiff::Timestamp;
use serde::Serialize;
use trueup_api::client::ServiceQuery;
use trueup_api::cluster::Cluster;
use trueup_api::overview::{Need, NeedCause};
use trueup_api::service::Service;
use trueup_model::status::{Phase, Reconciliation};

use crate::clock;
use crate::connect::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::human::{age, clean, count, moment};
use crate::output::style::{Paint, Style};

/// Show what needs a person, whether Trueup and its clusters are reachable, and counts of services
///
/// Ends with 1 if a service is in error, blocked or in conflict.
#[derive(Debug, clap::Args)]
pub struct Args {}

#[derive(Debug, Serialize)]
struct Status {
    url: String,
    ready: bool,
    /// How many things need a person.
    needs: i64,
    /// The worst of them.
    needs_first: Vec<Need>,
    clusters: Vec<Cluster>,
    services: i64,
    settled: i64,
    pending: i64,
    diverged: i64,
    /// How many services are paused by their active hours.
    asleep: usize,
    /// When the first of them is resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    wakes_at: Option<Timestamp>,
}

pub async fn run(_args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let request = async {
        client.health().await?;
        let url = client.base_url();
        if client.ready().await.is_err() {
            let message = format!("Trueup at {url} is up, but its database is unavailable");
            return Err(Failure::new(Exit::Failed, message)
                .hint("Trueup restarts its own Postgres; if that fails, see Trueup's log")
                .into());
        }
        let overview = client.overview_get().await?;
        let asleep = asleep(
            client
                .every_service(ServiceQuery {
                    phase: Some(Phase::Paused.to_string()),
                    ..ServiceQuery::default()
                })
                .await?
                .items,
        );
        let counts = overview.services;
        let count = |wanted: Reconciliation| {
            counts.reconciliation.get(wanted.into_str()).copied().unwrap_or(0)
        };
        anyhow::Ok(Status {
            url: url.to_owned(),
            ready: true,
            needs: overview.needs.total,
            needs_first: overview.needs.items,
            clusters: overview.clusters,
            services: counts.total,
            settled: count(Reconciliation::Settled),
            pending: count(Reconciliation::Pending),
            diverged: count(Reconciliation::Diverged),
            asleep: asleep.len(),
            wakes_at: asleep.into_iter().flatten().min(),
        })
    };
    let status = context.wait("waiting for Trueup", request).await?;
    if !context.output.print(context.terminal, &status)? {
        print(context, &status)?;
    }
    // A proposal waits for a person, and nothing is wrong until it is decided.
    let is_wrong = |need: &Need| !matches!(need.cause, NeedCause::Proposal);
    Ok(if status.needs_first.iter().any(is_wrong) { Exit::Failed } else { Exit::Ok })
}

/// When each service that its active hours paused is resumed.
fn asleep(paused: Vec<Service>) -> Vec<Option<Timestamp>> {
    let schedules = paused.into_iter().filter_map(|service| service.schedule);
    schedules.filter(|schedule| schedule.off).map(|schedule| schedule.next_at).collect()
}

/// What needs a person: `shop/web  failing, 5m ago: the image cannot be pulled`.
fn need_line(need: &Need, style: Style) -> String {
    let service = need.service.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
    let paint = match need.cause {
        NeedCause::Blocked | NeedCause::Conflict | NeedCause::Failing => Paint::Bad,
        NeedCause::Proposal => Paint::Busy,
    };
    format!(
        "{}  {}, {} ago: {}",
        style.paint(paint, &clean(&format!("{}{service}", need.project))),
        need.cause,
        age(clock::now(), need.since),
        clean(&need.message)
    )
}

fn print(context: &Context, status: &Status) -> anyhow::Result<()> {
    for need in &status.needs_first {
        context.terminal.line(&need_line(need, context.terminal.style()))?;
    }
    let shown = i64::try_from(status.needs_first.len()).unwrap_or(i64::MAX);
    if status.needs > shown {
        context.terminal.line(&format!("… and {} more", status.needs.saturating_sub(shown)))?;
    }
    context
        .terminal
        .line(&format!("Trueup at {} is up; its database is reachable.", status.url))?;
    for cluster in &status.clusters {
        let last_seen = cluster.heard_at.map_or_else(
            || "never seen".to_owned(),
            |at| format!("last seen {} ago", age(clock::now(), at)),
        );
        let note = cluster.note.as_ref().map(|note| format!("; {note}")).unwrap_or_default();
        let line = format!("Cluster {}: {}, {last_seen}{note}", cluster.name, cluster.reachability);
        context.terminal.line(&line)?;
    }
    context.terminal.line(&format!(
        "Services: {} ({} settled, {} pending, {} diverged)",
        status.services, status.settled, status.pending, status.diverged
    ))?;
    if status.asleep > 0 {
        let next = status.wakes_at.map(|at| format!("; the first resumes at {}", moment(at)));
        let asleep = count(status.asleep, "service");
        let next = next.unwrap_or_default();
        context.terminal.line(&format!("Paused by active hours: {asleep}{next}"))?;
    }
    Ok(())
}
