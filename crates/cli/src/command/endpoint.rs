//! `trueup endpoint`: node ports that are routed to a service.

use trueup_api::endpoint::{Endpoint, EndpointBody};
use trueup_model::endpoint::EndpointState;

use crate::clock;
use crate::command::get::show;
use crate::connect::context::{Connection, Context};
use crate::connect::scope::resolve_scope;
use crate::connect::target::resolve;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::{age, clean};
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// Open and close node ports for a service
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Open an endpoint, or route it to another port of the service
    Open {
        /// Endpoint name
        name: String,
        /// The service: NAME, PROJECT/NAME or svc_…
        #[arg(short, long, value_name = "NAME")]
        service: String,
        /// The port of the service, by name
        #[arg(long, value_name = "NAME")]
        port: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Close an endpoint
    Close {
        /// Endpoint name
        name: String,
        /// The service: NAME, PROJECT/NAME or svc_…
        #[arg(short, long, value_name = "NAME")]
        service: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// List the endpoints of the project, or of one service
    List {
        /// Only of this service: NAME, PROJECT/NAME or svc_…
        #[arg(short, long, value_name = "NAME")]
        service: Option<String>,
    },
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    match args.command {
        Command::Open { name, service, port, dry } => {
            let writing = dry.begin(&connection.client);
            let found = context
                .wait("reading the service", resolve(&service, context, &connection))
                .await?;
            let body = EndpointBody { port, protocol: None };
            let opening = writing.client().endpoint_put(&found.project, &found.name, &name, &body);
            let endpoint = context.wait("opening the endpoint", opening).await?;
            if writing.previewed(&format!("endpoint/{name}"), context)? {
                return Ok(Exit::Ok);
            }
            if !context.output.print(context.terminal, &endpoint)? {
                context.terminal.line(&format!(
                    "endpoint/{} {}, at {} of cluster {}",
                    endpoint.name,
                    endpoint.state,
                    clean(&endpoint.reached_at()),
                    endpoint.cluster
                ))?;
            }
            Ok(Exit::Ok)
        }
        Command::Close { name, service, dry } => {
            let writing = dry.begin(&connection.client);
            let found = context
                .wait("reading the service", resolve(&service, context, &connection))
                .await?;
            let closing = writing.client().endpoint_delete(&found.project, &found.name, &name);
            context.wait("closing the endpoint", closing).await?;
            if writing.previewed(&format!("endpoint/{name}"), context)? {
                return Ok(Exit::Ok);
            }
            context.terminal.line(&format!("endpoint/{name} closing"))?;
            Ok(Exit::Ok)
        }
        Command::List { service } => list(service.as_deref(), context, &connection).await,
    }
}

/// Lists endpoints; also used by `trueup get endpoints`.
pub async fn list(
    service: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let scope = resolve_scope(service, context, connection).await?;
    let reading = connection.client.endpoint_list(&scope.project);
    let mut list = context.wait("reading the endpoints", reading).await?;
    list.items.retain(|endpoint| scope.has(&endpoint.service));
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["NAME", "SERVICE", "ADDRESS", "PORT", "PROTOCOL", "STATE", "AGE"]);
    for endpoint in &list.items {
        table.row(vec![
            Cell::plain(&endpoint.name),
            Cell::plain(&endpoint.service),
            Cell::plain(&endpoint.reached_at()),
            Cell::plain(&endpoint.port),
            Cell::plain(endpoint.protocol.into_str()),
            state(endpoint),
            Cell::plain(&age(clock::now(), endpoint.created_at)),
        ]);
    }
    let nouns = format!("endpoints of {}", scope.words());
    show(&table, list.items.is_empty(), context, &nouns, || "open one with `trueup endpoint open`")
}

fn state(endpoint: &Endpoint) -> Cell {
    let paint = match endpoint.state {
        EndpointState::Open => Paint::Good,
        EndpointState::Opening | EndpointState::Closing => Paint::Busy,
    };
    Cell::new(paint, endpoint.state.into_str())
}
