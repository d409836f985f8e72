//! Whose variables and secrets a person means: a project's, or one service's.

use crate::connect::context::{Connection, Context};
use crate::connect::target::resolve;
use crate::failure::{Exit, Failure};

/// Which service is meant, if not all of the project.
#[derive(Debug, clap::Args)]
pub struct Of {
    /// Only for this service: NAME, PROJECT/NAME or svc_…; else for all services of the project
    #[arg(short, long, value_name = "NAME")]
    pub service: Option<String>,
}

/// A project and, unless all of its services are meant, one service.
#[derive(Debug)]
pub struct Place {
    pub project: String,
    pub service: Option<String>,
}

impl Place {
    /// Whether what belongs to this service of the project is meant.
    pub fn has(&self, service: &str) -> bool {
        self.service.as_deref().is_none_or(|only| only == service)
    }

    /// How it is called in a sentence.
    pub fn words(&self) -> String {
        match &self.service {
            Some(service) => format!("service {}/{service}", self.project),
            None => format!("project {}", self.project),
        }
    }
}

pub async fn place(
    service: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Place> {
    if let Some(service) = service {
        let reading = resolve(service, context, connection);
        let found = context.ask("reading the service", reading).await?;
        return Ok(Place { project: found.project, service: Some(found.name) });
    }
    let project = context.project.clone().or_else(|| connection.default_project.clone());
    let project = project.ok_or_else(|| {
        Failure::new(Exit::Usage, "it is not known which project is meant")
            .hint("say it with -p NAME, or one service with -s NAME")
    })?;
    Ok(Place { project, service: None })
}
