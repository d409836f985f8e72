//! `trueup delete project`: its services, then its namespace, and with `--wait` the proof.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use trueup_api::project::Project;

use super::super::context::{Connection, Context};
use super::super::failure::{Exit, Failure};
use super::super::receipt;
use super::Args;

/// How often the project is read again while it goes.
const EVERY: Duration = Duration::from_millis(500);

pub(super) async fn run(
    name: &str,
    args: &Args,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    if args.force {
        return Err(Failure::new(Exit::Usage, "only the deletion of a service can be forced")
            .hint("the project's status says what holds it: trueup get project NAME -o json")
            .into());
    }
    let reading = connection.client.project_get(name);
    let project = context.ask("reading the project", reading).await?;
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
    let mut project = accepted.project;
    if !context.output.is_for_programs() {
        let outcome = if accepted.changed { "accepted" } else { "was accepted before" };
        context.terminal.line(&format!(
            "project/{} deletion {outcome}, generation {}",
            project.name, project.generation
        ))?;
    }
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
        None => {
            context
                .terminal
                .note(&format!("see how far it is: trueup get project {}", project.id))?;
        }
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
