//! `trueup delete project`: deletes its services, then its namespace.

use std::time::Duration;

use trueup_api::client::Terms;
use trueup_api::project::Project;
use trueup_api::service::ForceDeleteBody;
use trueup_model::service::DesiredState;

use super::Args;
use super::poll::{Deletion, poll};
use crate::connect::context::{Connection, Context};
use crate::failure::{Exit, Failure};
use crate::output::receipt;

pub(super) async fn run(
    name: &str,
    args: &Args,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let reading = connection.client.project_get(name);
    let project = context.wait("reading the project", reading).await?;
    if let (true, Some(reason)) = (args.force, &args.reason) {
        return force(project, reason, args, context, connection).await;
    }
    if !args.dry.is_dry() && project.desired != DesiredState::Deleted {
        let question = format!(
            "Delete project {} with all of its services and their data, and its namespace {}?",
            project.name, project.namespace
        );
        let operation = format!("delete project {}", project.name);
        args.confirmation.require(&operation, &question, context.terminal)?;
    }
    // By id: the name may belong to another project by now.
    let writing = args.dry.begin(&connection.client);
    let deleting = writing.client().project_delete(&project.id);
    let accepted = context.wait("requesting the deletion", deleting).await?;
    if writing.previewed(&format!("project/{}", project.name), context)? {
        return Ok(Exit::Ok);
    }
    let project = accepted.project;
    if !context.output.is_for_programs() {
        let outcome = if accepted.changed { "accepted" } else { "was already accepted" };
        context.terminal.line(&format!(
            "project/{} deletion {outcome}, generation {}",
            project.name, project.generation
        ))?;
    }
    let hint = format!("check the progress: trueup get project {}", project.id);
    show(project, &hint, args, context, connection).await
}

/// Force-completes a deletion. Only a deletion in progress can be forced.
async fn force(
    project: Project,
    reason: &str,
    args: &Args,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let Project { name, namespace, cluster, .. } = &project;
    if project.desired != DesiredState::Deleted {
        return Err(Failure::new(Exit::Failed, format!("project/{name} is not being deleted"))
            .hint("delete it first; force only a deletion that is stuck")
            .into());
    }
    if !args.dry.is_dry() {
        let question = format!(
            "Force-complete the deletion of project {name}? Its namespace {namespace} in cluster \
             {cluster} stays there with everything left in it."
        );
        let operation = format!("force-complete the deletion of project {name}");
        args.confirmation.require(&operation, &question, context.terminal)?;
    }
    let body = ForceDeleteBody { reason: reason.to_owned(), generation: project.generation };
    let writing = args.dry.begin(&connection.client);
    let forcing = writing.client().project_force_delete(&project.id, &body, &Terms::PLAIN);
    let accepted = context.wait("forcing the deletion", forcing).await?;
    if writing.previewed(&format!("project/{name}"), context)? {
        return Ok(Exit::Ok);
    }
    let project = accepted.project;
    if !context.output.is_for_programs() {
        context
            .terminal
            .line(&format!("project/{} deletion forced, absence not proven", project.name))?;
    }
    let hint = format!("see what was not proven absent: trueup get project {} -o json", project.id);
    show(project, &hint, args, context, connection).await
}

/// Prints the project, or its receipt once it is deleted.
async fn show(
    project: Project,
    hint: &str,
    args: &Args,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let project = if args.wait {
        let waiting = wait_deleted(&project, args.timeout, connection);
        context.wait("waiting for the deletion", waiting).await?
    } else {
        project
    };
    if context.output.print(context.terminal, &project)? {
        return Ok(Exit::Ok);
    }
    match &project.receipt {
        Some(receipt) => {
            let mut lines = vec![format!("project/{} is gone", project.name)];
            lines.extend(receipt::lines(receipt).into_iter().map(|line| format!("  {line}")));
            context.terminal.line(&lines.join("\n"))?;
            let later = format!("read all of its receipts later: trueup receipts {}", project.id);
            context.terminal.note(&later)?;
        }
        None => context.terminal.note(hint)?,
    }
    Ok(Exit::Ok)
}

/// Reads the project until it is deleted.
async fn wait_deleted(
    project: &Project,
    timeout: Duration,
    connection: &Connection,
) -> anyhow::Result<Project> {
    let read = async || -> anyhow::Result<Deletion<Project>> {
        let project = connection.client.project_get(&project.id).await?;
        if project.receipt.is_some() {
            return Ok(Deletion::Complete(project));
        }
        let why = project.status.conditions.first();
        let why = why.map_or("no reason reported yet", |condition| &*condition.message);
        Ok(Deletion::Pending(why.to_owned()))
    };
    poll(&format!("project/{}", project.name), timeout, read).await
}
