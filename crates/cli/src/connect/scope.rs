//! The scope of a command: a whole project, or one of its services.

use crate::connect::context::{Connection, Context};
use crate::connect::target::resolve;
use crate::failure::{Exit, Failure};

/// The `--service` flag of commands that act on a project by default.
#[derive(Debug, clap::Args)]
pub struct ServiceArg {
    /// Only this service: NAME, PROJECT/NAME or svc_…; default: all services of the project
    #[arg(short, long, value_name = "NAME")]
    pub service: Option<String>,
}

/// A project, or one service of it.
#[derive(Debug)]
pub struct Scope {
    pub project: String,
    pub service: Option<String>,
}

impl Scope {
    /// Whether this service of the project is in scope.
    pub fn has(&self, service: &str) -> bool {
        self.service.as_deref().is_none_or(|only| only == service)
    }

    /// The scope in words: `service shop/web` or `project shop`.
    pub fn words(&self) -> String {
        match &self.service {
            Some(service) => format!("service {}/{service}", self.project),
            None => format!("project {}", self.project),
        }
    }
}

/// Resolves the scope from a service name, or from the project in the flags.
pub async fn resolve_scope(
    service: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Scope> {
    if let Some(service) = service {
        let reading = resolve(service, context, connection);
        let found = context.wait("reading the service", reading).await?;
        return Ok(Scope { project: found.project, service: Some(found.name) });
    }
    let project = context.project.clone().or_else(|| connection.default_project.clone());
    let project = project.ok_or_else(|| {
        Failure::new(Exit::Usage, "no project given")
            .hint("pass the project with -p NAME, or one service with -s NAME")
    })?;
    Ok(Scope { project, service: None })
}
