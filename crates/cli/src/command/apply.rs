//! `trueup apply`: declares the plans, projects and services of manifest files.
//!
//! Each document is accepted or refused on its own, except that nothing is sent if the services
//! together exceed the quota. The exit code is 1 if any was refused.

use std::time::Duration;

use serde::Serialize;
use trueup_api::Client;
use trueup_api::client::{ClientError, Terms};
use trueup_api::service::Service;

use crate::command::plan;
use crate::connect::context::{Connection, Context};
use crate::dry_run::DryRun;
use crate::failure::{Exit, Failure, explain};
use crate::manifest::{Location, Manifest, read_all};
use crate::output::human::{clean, duration};
use crate::output::style::Paint;
use crate::wait::follow::{Ended, Goal, follow, timed_out};
use crate::wait::until::Until;

/// Declare projects and services from manifest files
#[derive(Debug, clap::Args)]
pub struct Args {
    /// YAML files with one or many documents; `-` is stdin
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<String>,
    #[command(flatten)]
    dry: DryRun,
    /// Wait until every service is healthy
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// Apply only if this exact preview is still valid (see `trueup plan --exact`)
    #[arg(long, value_name = "ID", conflicts_with = "dry_run")]
    preview: Option<String>,
    /// Timeout for --wait, per service
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

/// The outcome of a document that changed something.
const ACCEPTED: &str = "accepted";

/// The outcome of one document.
#[derive(Debug, Serialize)]
struct Outcome {
    document: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip)]
    service: Option<Box<Service>>,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if args.dry.is_dry() {
        return plan::run(plan::Args { files: args.files, exact: false }, context).await;
    }
    let documents = read_all(&args.files);
    if args.preview.is_some()
        && !matches!(documents.as_slice(), [(_, Ok(Manifest::Service { .. }))])
    {
        let message = "--preview needs exactly one document, and it must be a service";
        let hint = "put the service into its own file, preview it with `trueup plan --exact`, and \
                    apply that file";
        return Err(Failure::new(Exit::Usage, message).hint(hint).into());
    }
    let connection = context.connect()?;
    plan::check_quota(&documents, context, &connection).await?;
    let mut outcomes = Vec::new();
    for (location, document) in documents {
        let result = match document {
            Ok(manifest) => send(manifest, args.preview.as_deref(), context, &connection).await,
            Err(error) => Err(Failure::new(Exit::Failed, error.message).hint(error.fix).into()),
        };
        let outcome = outcome_of(&location, result);
        match outcome {
            Ok(outcome) => {
                print(&outcome, context)?;
                outcomes.push(outcome);
            }
            // The server is unreachable: every other document would fail, too.
            Err((_, error)) if is_unreachable(&error) => return Err(error),
            Err((outcome, error)) => {
                let (_, message, hint) = explain(&error);
                context.terminal.error(&format!("{location}: {message}"), hint.as_deref())?;
                outcomes.push(outcome);
            }
        }
    }
    context.output.print(context.terminal, &outcomes)?;
    let services: Vec<Service> =
        outcomes.iter().filter_map(|outcome| outcome.service.as_deref().cloned()).collect();
    let accepted = outcomes.iter().filter(|outcome| outcome.outcome == ACCEPTED);
    let changed: Vec<&Service> =
        accepted.filter_map(|outcome| outcome.service.as_deref()).collect();
    let failed = outcomes.iter().filter(|outcome| outcome.error.is_some()).count();
    if args.wait {
        let exit = wait(services, args.timeout, context, &connection).await?;
        if exit != Exit::Ok {
            return Ok(exit);
        }
    } else if let Some(first) = changed.first() {
        context.terminal.note(&format!(
            "watch it converge: trueup watch {}/{} --until healthy",
            first.project, first.name
        ))?;
    }
    if failed > 0 {
        let all = outcomes.len();
        let message = format!("{failed} of {all} documents were not accepted");
        return Err(Failure::new(Exit::Failed, message)
            .hint("fix them and re-apply the same files; accepted documents stay unchanged")
            .into());
    }
    Ok(Exit::Ok)
}

/// The server's response to one document.
struct Sent {
    subject: String,
    changed: bool,
    generation: Option<i64>,
    service: Option<Box<Service>>,
}

async fn send(
    manifest: Manifest,
    preview: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Sent> {
    let client = &connection.client;
    match manifest {
        Manifest::Plan { name, body } => {
            let (stored, changed) =
                context.wait("declaring the plan", client.plan_put(&name, &body)).await?;
            if stored.retired {
                warn_of_defaults(&name, context, client).await?;
            }
            Ok(Sent { subject: format!("plan/{name}"), changed, generation: None, service: None })
        }
        Manifest::Project { name, body } => {
            let accepted =
                context.wait("declaring the project", client.project_put(&name, &body)).await?;
            Ok(Sent {
                subject: format!("project/{name}"),
                changed: accepted.changed,
                generation: Some(accepted.project.generation),
                service: None,
            })
        }
        Manifest::Service { name, body } => {
            let project = context.project_of(body.project.as_ref(), connection)?;
            let sending = async {
                match preview {
                    Some(preview) => {
                        client
                            .service_put_previewed(&project, &name, &body, preview, &Terms::PLAIN)
                            .await
                    }
                    None => client.service_put(&project, &name, &body, &Terms::PLAIN).await,
                }
            };
            let accepted = context.wait("declaring the service", sending).await?;
            Ok(Sent {
                subject: format!("service/{name}"),
                changed: accepted.changed,
                generation: Some(accepted.service.generation),
                service: Some(Box::new(accepted.service)),
            })
        }
    }
}

/// Says which templates have a retired plan as their default: their services must name another one.
async fn warn_of_defaults(plan: &str, context: &Context, client: &Client) -> anyhow::Result<()> {
    let templates = context.wait("reading the templates", client.template_list()).await?.items;
    let of_it = templates.iter().filter(|one| one.plan.as_deref() == Some(plan));
    let names: Vec<&str> = of_it.map(|one| one.name.as_str()).collect();
    if !names.is_empty() {
        let names = clean(&names.join(", "));
        context.terminal.note(&format!(
            "plan {plan} is the default of {names}: new services of these templates are refused unless \
             they name another with `plan:`"
        ))?;
    }
    Ok(())
}

fn outcome_of(
    location: &Location,
    result: anyhow::Result<Sent>,
) -> Result<Outcome, (Outcome, anyhow::Error)> {
    match result {
        Ok(sent) => Ok(Outcome {
            document: location.to_string(),
            subject: Some(sent.subject),
            outcome: if sent.changed { ACCEPTED } else { "unchanged" },
            generation: sent.generation,
            error: None,
            service: sent.service,
        }),
        Err(error) => {
            let (_, message, _) = explain(&error);
            let outcome = Outcome {
                document: location.to_string(),
                subject: None,
                outcome: "failed",
                generation: None,
                error: Some(message),
                service: None,
            };
            Err((outcome, error))
        }
    }
}

fn is_unreachable(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ClientError::Unreachable { .. }))
}

fn print(outcome: &Outcome, context: &Context) -> anyhow::Result<()> {
    if context.output.is_for_programs() {
        return Ok(());
    }
    let style = context.terminal.style();
    let paint = if outcome.outcome == ACCEPTED { Paint::Good } else { Paint::Faint };
    let subject = outcome.subject.as_deref().unwrap_or_default();
    let generation =
        outcome.generation.map(|number| format!(", generation {number}")).unwrap_or_default();
    let word = style.paint(paint, outcome.outcome);
    context.terminal.line(&format!("{subject} {word}{generation}"))?;
    Ok(())
}

async fn wait(
    services: Vec<Service>,
    timeout: Duration,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let goal =
        Goal { until: Some(Until::Healthy), timeout: Some(timeout), named: true, streams: false };
    let mut exit = Exit::Ok;
    for service in services {
        match follow(context, &connection.client, service, &goal).await? {
            Ended::Reached(service) => {
                context
                    .terminal
                    .note(&format!("{}/{} is healthy", service.project, service.name))?;
            }
            Ended::TimedOut(service) => {
                let (code, message, hint) = explain(&timed_out(&service, &goal).into());
                context.terminal.error(&message, hint.as_deref())?;
                exit = code;
            }
        }
    }
    Ok(exit)
}
