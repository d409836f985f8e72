//! `trueup status`: is it up, does it see its cluster, and what is not as promised.

use serde::Serialize;
use trueup_api::client::ServiceQuery;
use trueup_api::cluster::Cluster;

use crate::clock;
use crate::connect::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::human::age;

/// Show whether Trueup is up, whether it sees its clusters, and what is not as promised
#[derive(Debug, clap::Args)]
pub struct Args {}

#[derive(Debug, Serialize)]
struct Status {
    url: String,
    ready: bool,
    clusters: Vec<Cluster>,
    services: usize,
    settled: usize,
    pending: usize,
    diverged: usize,
}

pub async fn run(_args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let ask = async {
        client.health().await?;
        let url = client.base_url();
        if client.ready().await.is_err() {
            let away = format!("Trueup at {url} is up, but its database is away");
            return Err(Failure::new(Exit::Failed, away)
                .hint("it is started again by itself; where that fails, Trueup's log says why")
                .into());
        }
        let clusters = client.cluster_list().await?.items;
        let services = client.every_service(ServiceQuery::default()).await?.items;
        let count = |word: &str| services.iter().filter(|s| s.reconciliation == word).count();
        anyhow::Ok(Status {
            url: url.to_owned(),
            ready: true,
            clusters,
            services: services.len(),
            settled: count("settled"),
            pending: count("pending"),
            diverged: count("diverged"),
        })
    };
    let status = context.ask("Trueup to answer", ask).await?;
    if !context.output.print(context.terminal, &status)? {
        print(context, &status)?;
    }
    Ok(Exit::Ok)
}

fn print(context: &Context, status: &Status) -> anyhow::Result<()> {
    context
        .terminal
        .line(&format!("Trueup at {} is up; its database is reachable.", status.url))?;
    for cluster in &status.clusters {
        let heard = cluster.heard_at.map_or_else(
            || "never heard".to_owned(),
            |at| format!("heard {} ago", age(clock::now(), at)),
        );
        let note = cluster.note.as_ref().map(|note| format!("; {note}")).unwrap_or_default();
        let line = format!("Cluster {}: {}, {heard}{note}", cluster.name, cluster.reachability);
        context.terminal.line(&line)?;
    }
    context.terminal.line(&format!(
        "Services: {} ({} settled, {} pending, {} diverged)",
        status.services, status.settled, status.pending, status.diverged
    ))?;
    Ok(())
}
