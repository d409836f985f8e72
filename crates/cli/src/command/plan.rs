//! `trueup plan`: what `apply` would do with manifest files. Nothing is recorded.
//!
//! What one document would make is not there for the next one. So a service whose project comes before it
//! in the same files is planned together with it.

use std::collections::BTreeSet;

use serde::Serialize;
use trueup_api::client::Terms;
use trueup_api::preview::Preview;
use trueup_api::preview_request::PreviewRequest;

use crate::command::exact;
use crate::connect::context::{Connection, Context};
use crate::failure::{Exit, Failure, explain};
use crate::manifest::{Manifest, read_all};
use crate::output::preview;

/// Say what `apply` would do with manifest files, and do nothing
#[derive(Debug, clap::Args)]
pub struct Args {
    /// YAML files with one or many documents; `-` is stdin
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<String>,
    /// Let the cluster say what would happen: it tries every write and stores none. For services
    #[arg(long)]
    pub exact: bool,
}

/// What would become of one document.
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
    /// Whether it would be refused, by Trueup or by the cluster.
    fn is_refused(&self) -> bool {
        let plan = self.plan.as_ref().and_then(|request| request.preview.as_ref());
        self.error.is_some() || plan.is_some_and(|plan| !plan.goes_through())
    }
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let mut planned = Vec::new();
    let mut made = BTreeSet::new();
    for (place, document) in read_all(&args.files) {
        let place = place.to_string();
        let result = match document {
            Ok(manifest) => {
                let exact = args.exact.then(|| manifest.clone());
                match ask(manifest, &place, &mut made, context, &connection).await {
                    Ok(planned) => with_exact(planned, exact, &made, context, &connection).await,
                    failed => failed,
                }
            }
            Err(wrong) => Err(Failure::new(Exit::Failed, wrong.message).hint(wrong.fix).into()),
        };
        match result {
            Ok(one) => {
                say(&one, &args.files, context)?;
                planned.push(one);
            }
            Err(error) => {
                let (_, message, hint) = explain(&error);
                context.terminal.error(&format!("{place}: {message}"), hint.as_deref())?;
                let error = Some(message);
                planned.push(Planned { document: place, error, ..Planned::default() });
            }
        }
    }
    context.output.print(context.terminal, &planned)?;
    let refused = planned.iter().filter(|one| one.is_refused()).count();
    if refused > 0 {
        let message = format!("{refused} of {} documents would be refused", planned.len());
        return Err(Failure::new(Exit::Failed, message).hint("mend them and plan again").into());
    }
    Ok(Exit::Ok)
}

async fn ask(
    manifest: Manifest,
    place: &str,
    made: &mut BTreeSet<String>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Planned> {
    let rehearsal = connection.client.dry_run();
    let client = rehearsal.client();
    let mut preview = None;
    let subject = match manifest {
        Manifest::Plan { name, body } => {
            context.ask("planning", client.plan_put(&name, &body)).await?;
            format!("plan/{name}")
        }
        Manifest::Project { name, body } => {
            context.ask("planning", client.project_put(&name, &body)).await?;
            preview = rehearsal.seen();
            if preview.as_ref().is_some_and(|preview| preview.changed) {
                made.insert(name.clone());
            }
            format!("project/{name}")
        }
        Manifest::Service { name, body } => {
            let project = context.project_of(body.project.as_ref(), connection)?;
            if made.contains(&project) {
                let declaring =
                    client.service_put_with_project(&project, &name, &body, &Terms::PLAIN);
                context.ask("planning", declaring).await?;
                preview = rehearsal.seen();
                // The project's own document told what becomes of it.
                let units = preview.iter_mut().map(|preview| &mut preview.units);
                units.for_each(|units| units.retain(|unit| unit.kind != "project"));
            } else {
                let declaring = client.service_put(&project, &name, &body, &Terms::PLAIN);
                context.ask("planning", declaring).await?;
            }
            format!("service/{project}/{name}")
        }
    };
    let document = place.to_owned();
    let preview = preview.or_else(|| rehearsal.seen());
    Ok(Planned { document, subject: Some(subject), preview, ..Planned::default() })
}

/// The same with what the cluster says, where that is asked for and the document is a service.
async fn with_exact(
    planned: Planned,
    manifest: Option<Manifest>,
    made: &BTreeSet<String>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Planned> {
    let Some(Manifest::Service { name, body }) = manifest else { return Ok(planned) };
    let project = context.project_of(body.project.as_ref(), connection)?;
    if made.contains(&project) {
        let message = format!("the project {project} is not there yet, so no cluster can be asked");
        let hint = "apply the project first, then plan the service with --exact";
        return Err(Failure::new(Exit::Failed, message).hint(hint).into());
    }
    let request = exact::filled(&project, &name, &body, context, connection).await?;
    Ok(Planned { plan: Some(request), ..planned })
}

fn say(planned: &Planned, files: &[String], context: &Context) -> anyhow::Result<()> {
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
