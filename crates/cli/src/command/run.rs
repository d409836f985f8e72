//! `trueup run`: runs a one-off job with a service's image, plan and variables and another command.
//!
//! The run is a service like any other: declared, observed, billed and verified absent.

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use trueup_api::client::{LogQuery, Terms};
use trueup_api::service::{Service, ServiceManifest};
use trueup_model::status::{Health, Phase};

use crate::clock;
use crate::command::logs;
use crate::connect::context::{Connection, Context};
use crate::connect::target::resolve;
use crate::dry_run::DryRun;
use crate::failure::{Exit, Failure};
use crate::output::human::duration;
use crate::wait::follow::{Ended, Goal, follow, timed_out};
use crate::wait::until::Until;

/// The template of a run.
const TEMPLATE: &str = "job@1";
/// How many characters of the service's name the run's name keeps.
const STEM: usize = 24;

/// Run a command once, with a service's image, plan and variables
#[derive(Debug, clap::Args)]
pub struct Args {
    /// NAME, PROJECT/NAME or svc_…
    name: String,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Time limit of the run
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    timeout: Duration,
    /// Plan; default: the service's plan
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
    /// Keep the run's service even if the run succeeds
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    dry: DryRun,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let reading = resolve(&args.name, context, &connection);
    let service = context.wait("reading the service", reading).await?;
    let manifest = manifest(&args, &service, &connection).await?;
    let name = name(&service.name, clock::now());
    let client = &connection.client;
    let writing = args.dry.begin(client);
    let declaring = writing.client().service_put(&service.project, &name, &manifest, &Terms::PLAIN);
    let run = context.wait("declaring the run", declaring).await?.service;
    if writing.previewed(&format!("service/{}/{name}", service.project), context)? {
        return Ok(Exit::Ok);
    }
    context.terminal.note(&format!("started the run service/{name}"))?;

    let until = Some(Until::Phase(Phase::Completed));
    let goal = Goal { until, timeout: Some(args.timeout), named: false, streams: false };
    match follow(context, client, run, &goal).await? {
        Ended::Reached(run) => end(*run, args.keep, context, &connection).await,
        Ended::TimedOut(run) => Err(timed_out(&run, &goal).into()),
    }
}

/// The manifest of the run: the service's current spec with another command.
async fn manifest(
    args: &Args,
    service: &Service,
    connection: &Connection,
) -> anyhow::Result<ServiceManifest> {
    let releases =
        connection.client.release_list(&service.project, &service.id, None, Some(1)).await?;
    let spec = releases.items.into_iter().next().map(|release| release.spec);
    let parameters = json!({
        "image": spec.as_ref().map(|spec| &spec.image),
        "command": args.command,
        "variables": spec.as_ref().map(|spec| spec.variables.clone()).unwrap_or_default(),
        "time_limit_s": args.timeout.as_secs().max(1),
    });
    let parameters: Map<String, Value> = match parameters {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    Ok(ServiceManifest {
        kind: None,
        name: None,
        project: None,
        template: TEMPLATE.to_owned(),
        plan: args.plan.clone().or_else(|| service.plan.clone()),
        parameters,
        drift: None,
        active: None,
    })
}

/// The run's name: the service's name and the time in seconds.
fn name(service: &str, now: Timestamp) -> String {
    let stem: String = service.chars().take(STEM).collect();
    let seconds = now.as_second().rem_euclid(100_000_000);
    format!("{}-run-{seconds:08}", stem.trim_end_matches('-'))
}

/// Prints the log of the run and reports its result.
async fn end(
    run: Service,
    keep: bool,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let client = &connection.client;
    let wanted = LogQuery { tail: Some(10_000), ..LogQuery::default() };
    let mut lines = client.service_logs(&run.project, &run.id, &wanted).await?;
    while let Some(line) = lines.next().await {
        logs::show(&line?, context)?;
    }
    if run.status.health != Health::Healthy {
        return Err(Failure::new(Exit::Failed, format!("the run {} failed", run.name))
            .hint(format!(
                "`trueup describe {}/{}` says why; the run's service is kept",
                run.project, run.name
            ))
            .into());
    }
    if !keep {
        client.service_delete(&run.project, &run.id, &Terms::PLAIN).await?;
    }
    context.output.print(context.terminal, &run)?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_name_starts_with_the_service_and_fits() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(name("web", now), "web-run-67225600");
        let long = name("a-service-with-a-very-long-name-indeed", now);
        assert!(long.len() <= 40 && !long.contains("--"), "{long}");
    }
}
