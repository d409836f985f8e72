//! `trueup delete`: deletes services, a project or an org; `--wait` waits for the deletion receipts.

mod files;
mod org;
mod poll;
mod project;
mod several;

use std::time::Duration;

use trueup_api::client::Terms;
use trueup_api::service::{ForceDeleteBody, Service};
use trueup_model::service::DesiredState;

use crate::confirm::Confirmation;
use crate::connect::context::{Connection, Context};
use crate::connect::target::resolve;
use crate::dry_run::DryRun;
use crate::failure::{Exit, Failure};
use crate::output::human::duration;
use crate::output::receipt;
use crate::wait::follow::{Ended, Goal, follow, timed_out};
use crate::wait::until::Until;

/// Delete services with their objects and data, or all of a project or an org
#[derive(Debug, clap::Args)]
pub struct Args {
    /// NAME, PROJECT/NAME or svc_…; `project NAME` for a whole project, `org NAME` for a whole org
    #[arg(required_unless_present = "files", conflicts_with = "files", value_name = "NAME")]
    names: Vec<String>,
    /// Delete the services and projects of manifest files; `-` is stdin
    #[arg(short = 'f', long = "file", value_name = "FILE", num_args = 1..)]
    files: Vec<String>,
    /// Delete only if the service still has this generation; only for one service
    #[arg(long, value_name = "GENERATION", conflicts_with_all = ["files", "force"])]
    if_match: Option<i64>,
    /// Wait until the deletion is verified, and print the receipt
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// Timeout for --wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    dry: DryRun,
    /// Force-complete a stuck deletion; what is left in the cluster stays there
    #[arg(long, requires = "reason")]
    force: bool,
    /// Why the deletion is forced; stored in the receipt and the event log
    #[arg(long, value_name = "TEXT", requires = "force")]
    reason: Option<String>,
    #[command(flatten)]
    confirmation: Confirmation,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    match args.names.as_slice() {
        [] => files::run(&args, context, &connection).await,
        [kind, name] if kind == "project" => project::run(name, &args, context, &connection).await,
        [kind, name] if kind == "org" => org::run(name, &args, context, &connection).await,
        [kind, name] if kind == "service" => one(name, &args, context, &connection).await,
        [name] => one(name, &args, context, &connection).await,
        names => several::run(names, &args, context, &connection).await,
    }
}

/// Deletes one service.
async fn one(
    name: &str,
    args: &Args,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let reading = resolve(name, context, connection);
    let service = context.wait("reading the service", reading).await?;
    let name = format!("{}/{}", service.project, service.name);
    if let (true, Some(reason)) = (args.force, &args.reason) {
        return force(service, reason, args, context, connection).await;
    }
    if !args.dry.is_dry() && service.desired != DesiredState::Deleted {
        let question = format!(
            "Delete {name} with all of its objects and data in cluster {}?",
            service.cluster
        );
        let operation = format!("delete service {name}");
        args.confirmation.require(&operation, &question, context.terminal)?;
    }
    // By id: the name may belong to another service by now.
    let writing = args.dry.begin(&connection.client);
    let terms = Terms { if_generation: args.if_match, key: None };
    let deleting = writing.client().service_delete(&service.project, &service.id, &terms);
    let accepted = context.wait("requesting the deletion", deleting).await?;
    if writing.previewed(&format!("service/{name}"), context)? {
        return Ok(Exit::Ok);
    }
    let service = accepted.service;
    if !context.output.is_for_programs() {
        let outcome = if accepted.changed { "accepted" } else { "was already accepted" };
        context.terminal.line(&format!(
            "service/{} deletion {outcome}, generation {}",
            service.name, service.generation
        ))?;
    }
    if args.wait {
        return wait(service, args.timeout, context, connection).await;
    }
    context.output.print(context.terminal, &service)?;
    context
        .terminal
        .note(&format!("watch the deletion: trueup watch {} --until deleted", service.id))?;
    Ok(Exit::Ok)
}

/// Force-completes a deletion. Only a deletion in progress can be forced.
async fn force(
    service: Service,
    reason: &str,
    args: &Args,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let name = format!("{}/{}", service.project, service.name);
    if service.desired != DesiredState::Deleted {
        return Err(Failure::new(Exit::Failed, format!("{name} is not being deleted"))
            .hint("delete it first; force only a deletion that is stuck")
            .into());
    }
    if !args.dry.is_dry() {
        let question = format!(
            "Force-complete the deletion of {name}? What is left in cluster {} stays there.",
            service.cluster
        );
        let operation = format!("force-complete the deletion of service {name}");
        args.confirmation.require(&operation, &question, context.terminal)?;
    }
    let body = ForceDeleteBody { reason: reason.to_owned(), generation: service.generation };
    let (project, id) = (&service.project, &service.id);
    let writing = args.dry.begin(&connection.client);
    let forcing = writing.client().service_force_delete(project, id, &body, &Terms::PLAIN);
    let accepted = context.wait("forcing the deletion", forcing).await?;
    if writing.previewed(&format!("service/{name}"), context)? {
        return Ok(Exit::Ok);
    }
    let service = accepted.service;
    if args.wait {
        return wait(service, args.timeout, context, connection).await;
    }
    if !context.output.is_for_programs() {
        context
            .terminal
            .line(&format!("service/{} deletion forced, absence not proven", service.name))?;
    }
    context.output.print(context.terminal, &service)?;
    context
        .terminal
        .note(&format!("see what was not proven absent: trueup describe {}", service.id))?;
    Ok(Exit::Ok)
}

async fn wait(
    service: Service,
    timeout: Duration,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let goal =
        Goal { until: Some(Until::Deleted), timeout: Some(timeout), named: false, streams: false };
    match follow(context, &connection.client, service, &goal).await? {
        Ended::Reached(service) => {
            if context.output.print_item(context.terminal, &service)? {
                return Ok(Exit::Ok);
            }
            let mut lines = vec![format!("{}/{} is gone", service.project, service.name)];
            match &service.receipt {
                Some(receipt) => {
                    lines.extend(
                        receipt::lines(receipt).into_iter().map(|line| format!("  {line}")),
                    );
                }
                None => lines.push("  the server sent no receipt".to_owned()),
            }
            context.terminal.line(&lines.join("\n"))?;
            Ok(Exit::Ok)
        }
        Ended::TimedOut(service) => Err(timed_out(&service, &goal).into()),
    }
}
