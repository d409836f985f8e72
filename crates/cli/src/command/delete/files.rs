//! `trueup delete -f FILE`: deletes the services of manifest files, as `apply -f` declared them.
//!
//! A project of a file stays: it may have services that the file does not name.

use trueup_api::problem::Code;

use super::{Args, several};
use crate::connect::context::{Connection, Context};
use crate::failure::{Exit, Failure};
use crate::manifest::{Manifest, read_all};

pub(super) async fn run(
    args: &Args,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    if args.force {
        return Err(Failure::new(Exit::Usage, "--force is for one service")
            .hint("name the service")
            .into());
    }
    let mut services = Vec::new();
    for (location, document) in read_all(&args.files) {
        // Nothing is deleted if a document cannot be read.
        let manifest = document.map_err(|error| {
            Failure::new(Exit::Failed, format!("{location}: {}", error.message)).hint(error.fix)
        })?;
        match manifest {
            Manifest::Plan { name, .. } => {
                context.terminal.note(&format!("plan {name} stays: plans are retired"))?;
            }
            Manifest::Project { name, .. } => {
                context.terminal.note(&format!(
                    "project {name} stays; with all of its services: trueup delete project {name}"
                ))?;
            }
            Manifest::Service { name, body } => {
                let project = context.project_of(body.project.as_ref(), connection)?;
                let reading = connection.client.service_get(&project, &name);
                match context.wait("reading the service", reading).await {
                    Ok(service) => services.push(service),
                    Err(error) if error.code() == Some(Code::NotFound) => {
                        context.terminal.note(&format!("{project}/{name} does not exist"))?;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    if services.is_empty() {
        return Ok(Exit::Ok);
    }
    several::delete(services, args, context, connection).await
}
