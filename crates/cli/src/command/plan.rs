//! `trueup plan`: previews what `apply` would do with manifest files.

mod planner;
mod quota_check;
mod total;

use serde::Serialize;
use trueup_api::preview::Preview;
use trueup_api::preview_request::PreviewRequest;

use self::planner::Planner;
pub use self::quota_check::check_quota;
use self::total::Total;
use crate::command::exact;
use crate::connect::context::Context;
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

/// What is printed for programs.
#[derive(Debug, Serialize)]
struct PlanOutput {
    documents: Vec<Planned>,
    /// The total of all services; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Total>,
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
    let mut planner = Planner::new(context, &connection);
    let mut documents = Vec::new();
    for (location, document) in read_all(&args.files) {
        let location = location.to_string();
        let result = match document {
            Ok(manifest) => plan(manifest, &location, args.exact, &mut planner).await,
            Err(error) => Err(Failure::new(Exit::Failed, error.message).hint(error.fix).into()),
        };
        let planned = match result {
            Ok(planned) => {
                print(&planned, &args.files, context)?;
                if let Some(error) = &planned.error {
                    context.terminal.error(&format!("{location}: {error}"), None)?;
                }
                planned
            }
            Err(error) => {
                let (_, message, hint) = explain(&error);
                context.terminal.error(&format!("{location}: {message}"), hint.as_deref())?;
                Planned { document: location, error: Some(message), ..Planned::default() }
            }
        };
        documents.push(planned);
    }
    let output = PlanOutput { documents, total: planner.total() };
    if !context.output.print(context.terminal, &output)? {
        // The total of one service is its own preview.
        let several = output.total.iter().filter(|total| total.services > 1);
        for total in several {
            context.terminal.line(&total.lines().join("\n"))?;
        }
    }
    let refused = output.documents.iter().filter(|planned| planned.is_refused()).count();
    if refused > 0 {
        let all = output.documents.len();
        let message = format!("{refused} of {all} documents would be refused");
        return Err(Failure::new(Exit::Failed, message).hint("fix them and plan again").into());
    }
    Ok(Exit::Ok)
}

/// Previews one document, exactly if requested.
async fn plan(
    manifest: Manifest,
    location: &str,
    exact: bool,
    planner: &mut Planner<'_>,
) -> anyhow::Result<Planned> {
    let again = exact.then(|| manifest.clone());
    let planned = planner.preview(manifest, location).await?;
    with_exact(planned, again, planner).await
}

/// Adds the exact preview, if requested and the document is a service.
async fn with_exact(
    planned: Planned,
    manifest: Option<Manifest>,
    planner: &Planner<'_>,
) -> anyhow::Result<Planned> {
    let Some(Manifest::Service { name, body }) = manifest else { return Ok(planned) };
    let (context, connection) = planner.connection();
    let project = context.project_of(body.project.as_ref(), connection)?;
    if planner.creates(&project) {
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
