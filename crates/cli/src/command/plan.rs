//! `trueup plan`: previews what `apply` would do with manifest files.
//!
//! Dry runs store nothing, so a project from one document does not exist for the next. A service
//! whose new project is in the same files is therefore previewed together with it.

use std::collections::BTreeSet;

use serde::Serialize;
use trueup_api::client::Terms;
use trueup_api::preview::{Preview, PreviewUnitKind};
use trueup_api::preview_request::PreviewRequest;

use crate::command::exact;
use crate::connect::context::{Connection, Context};
use crate::failure::{Exit, Failure, explain};
use crate::manifest::{Manifest, read_all};
use crate::output::preview;

/// Preview what `apply` would do with manifest files
#[derive(Debug, clap::Args)]
pub struct Args {
    /// YAML files with one or many documents; `-` is stdin
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<String>,
    /// Dry-run every write in the cluster; only for services
    #[arg(long)]
    pub exact: bool,
}

/// The preview of one document.
#[derive(Debug, Default, Serialize)]
struct Planned {
    document: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<Preview>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PreviewRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Planned {
    /// Whether Trueup or the cluster would refuse the document.
    fn is_refused(&self) -> bool {
        let plan = self.plan.as_ref().and_then(|request| request.preview.as_ref());
        self.error.is_some() || plan.is_some_and(|plan| !plan.goes_through())
    }
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let mut planned = Vec::new();
    let mut new_projects = BTreeSet::new();
    for (location, document) in read_all(&args.files) {
        let location = location.to_string();
        let result = match document {
            Ok(manifest) => {
                let exact = args.exact.then(|| manifest.clone());
                match preview_document(manifest, &location, &mut new_projects, context, &connection)
                    .await
                {
                    Ok(planned) => {
                        with_exact(planned, exact, &new_projects, context, &connection).await
                    }
                    failed => failed,
                }
            }
            Err(error) => Err(Failure::new(Exit::Failed, error.message).hint(error.fix).into()),
        };
        match result {
            Ok(one) => {
                print(&one, &args.files, context)?;
                planned.push(one);
            }
            Err(error) => {
                let (_, message, hint) = explain(&error);
                context.terminal.error(&format!("{location}: {message}"), hint.as_deref())?;
                let error = Some(message);
                planned.push(Planned { document: location, error, ..Planned::default() });
            }
        }
    }
    context.output.print(context.terminal, &planned)?;
    let refused = planned.iter().filter(|one| one.is_refused()).count();
    if refused > 0 {
        let message = format!("{refused} of {} documents would be refused", planned.len());
        return Err(Failure::new(Exit::Failed, message).hint("fix them and plan again").into());
    }
    Ok(Exit::Ok)
}

/// Dry-runs one document.
async fn preview_document(
    manifest: Manifest,
    location: &str,
    new_projects: &mut BTreeSet<String>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Planned> {
    let dry_run = connection.client.dry_run();
    let client = dry_run.client();
    let mut preview = None;
    let subject = match manifest {
        Manifest::Plan { name, body } => {
            context.wait("planning", client.plan_put(&name, &body)).await?;
            format!("plan/{name}")
        }
        Manifest::Project { name, body } => {
            context.wait("planning", client.project_put(&name, &body)).await?;
            preview = dry_run.seen();
            if preview.as_ref().is_some_and(|preview| preview.changed) {
                new_projects.insert(name.clone());
            }
            format!("project/{name}")
        }
        Manifest::Service { name, body } => {
            let project = context.project_of(body.project.as_ref(), connection)?;
            if new_projects.contains(&project) {
                let declaring =
                    client.service_put_with_project(&project, &name, &body, &Terms::PLAIN);
                context.wait("planning", declaring).await?;
                preview = dry_run.seen();
                // The project is previewed by its own document.
                let units = preview.iter_mut().map(|preview| &mut preview.units);
                units.for_each(|units| units.retain(|unit| unit.kind != PreviewUnitKind::Project));
            } else {
                let declaring = client.service_put(&project, &name, &body, &Terms::PLAIN);
                context.wait("planning", declaring).await?;
            }
            format!("service/{project}/{name}")
        }
    };
    let document = location.to_owned();
    let preview = preview.or_else(|| dry_run.seen());
    Ok(Planned { document, subject: Some(subject), preview, ..Planned::default() })
}

/// Adds the exact preview, if requested and the document is a service.
async fn with_exact(
    planned: Planned,
    manifest: Option<Manifest>,
    new_projects: &BTreeSet<String>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Planned> {
    let Some(Manifest::Service { name, body }) = manifest else { return Ok(planned) };
    let project = context.project_of(body.project.as_ref(), connection)?;
    if new_projects.contains(&project) {
        let message = format!(
            "project {project} does not exist yet, so the cluster cannot dry-run the service"
        );
        let hint = "apply the project first, then plan the service with --exact";
        return Err(Failure::new(Exit::Failed, message).hint(hint).into());
    }
    let request = exact::request(&project, &name, &body, context, connection).await?;
    Ok(Planned { plan: Some(request), ..planned })
}

fn print(planned: &Planned, files: &[String], context: &Context) -> anyhow::Result<()> {
    if context.output.is_for_programs() {
        return Ok(());
    }
    let subject = planned.subject.as_deref().unwrap_or_default();
    if let (Some(preview), Some(request)) = (&planned.preview, &planned.plan) {
        let lines = exact::lines(subject, preview, request, context.terminal.style());
        context.terminal.line(&lines.join("\n"))?;
        context.terminal.note(&exact::how_to_apply(request, files))?;
    } else if let Some(preview) = &planned.preview {
        let lines = preview::lines(subject, preview, context.terminal.style());
        context.terminal.line(&lines.join("\n"))?;
    }
    Ok(())
}
