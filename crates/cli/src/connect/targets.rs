//! Services that one command is about: several names, or all of a project or of the org.

use trueup_api::client::ServiceQuery;
use trueup_api::service::Service;

use crate::connect::context::{Connection, Context};
use crate::connect::target::resolve;
use crate::failure::{Exit, Failure};
use crate::output::human::clean;

/// How many names a question lists.
const LISTED: usize = 10;

/// The services of a command.
#[derive(Debug, clap::Args)]
pub struct Targets {
    /// NAME, PROJECT/NAME or svc_…; several with spaces
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// All services; of one project with --project. Asks before it changes anything
    #[arg(long)]
    pub(crate) all: bool,
}

impl Targets {
    /// Reads the services. A name that does not exist is an error before anything is changed.
    pub(crate) async fn resolve(
        &self,
        context: &Context,
        connection: &Connection,
    ) -> anyhow::Result<Vec<Service>> {
        if self.all {
            let query =
                ServiceQuery { project: context.project.clone(), ..ServiceQuery::default() };
            let reading = connection.client.every_service(query);
            let found = context.wait("reading the services", reading).await?.items;
            if found.is_empty() {
                return Err(Failure::new(Exit::NotFound, "there are no services").into());
            }
            return Ok(found);
        }
        let mut services: Vec<Service> = Vec::new();
        for name in &self.names {
            let reading = resolve(name, context, connection);
            let service = context.wait("reading the service", reading).await?;
            if !services.iter().any(|other| other.id == service.id) {
                services.push(service);
            }
        }
        Ok(services)
    }
}

/// `pause 3 services: shop/a, shop/b, shop/c`.
pub(crate) fn listed(what: &str, services: &[Service]) -> String {
    let name = |service: &Service| clean(&format!("{}/{}", service.project, service.name));
    let names: Vec<String> = services.iter().take(LISTED).map(name).collect();
    let more = services.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{what}: {}{more}", names.join(", "))
}
