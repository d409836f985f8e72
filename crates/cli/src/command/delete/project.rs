//! `trueup delete project`: its services, then its namespace, and with `--wait` the proof.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use trueup_api::client::Terms;
use trueup_api::project::Project;
use trueup_api::service::ForceDeleteBody;

use super::Args;
use crate::connect::context::{Connection, Context};
use crate::failure::{Exit, Failure};
use crate::output::receipt;

/// How often the project is read again while it goes.
const EVERY: Duration = Duration::from_millis(500);

pub(super) async fn run(
    name: &str,
    args: &Args,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let reading = connection.client.project_get(name);
    let project = context.ask("reading the project", reading).await?;
    if let (true, Some(reason)) = (args.force, &args.reason) {
        return force(project, reason, args, context, connection).await;
    }
    if !args.yes && !args.dry.is_dry() && project.desired != "deleted" {
        let question = format!(
            "Delete project {} with all of its services and their data, and its namespace {}?",
            project.name, project.namespace
        );
        if context.terminal.ask(&question)? == Some(false) {
            return Err(Failure::new(Exit::Failed, format!("{name} was not deleted"))
                .hint("answer y, or pass --yes")
                .into());
        }
    }
    // By id: the name may be given to another project in the meantime.
    let writing = args.dry.begin(&connection.client);
    let deleting = writing.client().project_delete(&project.id);
    let accepted = context.ask("asking for the deletion", deleting).await?;
    if writing.previewed(&format!("project/{}", project.name), context)? {
        return Ok(Exit::Ok);
    }
    let project = accepted.project;
    if !context.output.is_for_programs() {
        let outcome = if accepted.changed { "accepted" } else { "was accepted before" };
        context.terminal.line(&format!(
            "project/{} deletion {outcome}, generation {}",
            project.name, project.generation
        ))?;
    }
    let hint = format!("see how far it is: trueup get project {}", project.id);
    show(project, &hint, args, context, connection).await
}

/// Ends a deletion without proof. Only one that is under way: what is to stay is deleted first.
async fn force(
    project: Project,
    reason: &str,
    args: &Args,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let Project { name, namespace, cluster, .. } = &project;
    if project.desired != "deleted" {
        return Err(Failure::new(Exit::Failed, format!("project/{name} is not being deleted"))
            .hint("delete it first, and force only what stays stuck")
            .into());
    }
    if !args.yes && !args.dry.is_dry() {
        let question = format!(
            "End the deletion of project {name} without proof? Its namespace {namespace} in cluster \
             {cluster} stays as it is, with all that is left in it."
        );
        if context.terminal.ask(&question)? == Some(false) {
            return Err(Failure::new(Exit::Failed, format!("the deletion of {name} goes on"))
                .hint("answer y, or pass --yes")
                .into());
        }
    }
    let body = ForceDeleteBody { reason: reason.to_owned(), generation: project.generation };
    let writing = args.dry.begin(&connection.client);
    let forcing = writing.client().project_force_delete(&project.id, &body, &Terms::PLAIN);
    let accepted = context.ask("ending the deletion", forcing).await?;
    if writing.previewed(&format!("project/{name}"), context)? {
        return Ok(Exit::Ok);
    }
    let project = accepted.project;
    if !context.output.is_for_programs() {
        context.terminal.line(&format!("project/{} ends without proof", project.name))?;
    }
    let hint = format!("what was not proved: trueup get project {} -o json", project.id);
    show(project, &hint, args, context, connection).await
}

/// Shows it as it is now, or its receipt once it is gone.
async fn show(
    mut project: Project,
    hint: &str,
    args: &Args,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    if args.wait {
        let waiting = gone(project, args.timeout, connection);
        project = context.ask("waiting until it is gone", waiting).await?;
    }
    if context.output.print(context.terminal, &project)? {
        return Ok(Exit::Ok);
    }
    match &project.receipt {
        Some(proof) => {
            let mut lines = vec![format!("project/{} is gone", project.name)];
            lines.extend(receipt::lines(proof).into_iter().map(|line| format!("  {line}")));
            context.terminal.line(&lines.join("\n"))?;
        }
        None => context.terminal.note(hint)?,
    }
    Ok(Exit::Ok)
}

/// Reads it again until it is gone.
async fn gone(
    mut project: Project,
    timeout: Duration,
    connection: &Connection,
) -> anyhow::Result<Project> {
    let began = Instant::now();
    while project.receipt.is_none() {
        if began.elapsed() > timeout {
            let why = project.status.conditions.first();
            let why = why.map_or("it does not say why yet", |condition| &*condition.message);
            let message = format!("project/{} is not gone yet: {why}", project.name);
            return Err(Failure::new(Exit::TimedOut, message)
                .hint("it goes on by itself; wait longer with --timeout")
                .into());
        }
        sleep(EVERY).await;
        project = connection.client.project_get(&project.id).await?;
    }
    Ok(project)
}
