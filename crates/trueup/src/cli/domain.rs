//! `trueup domain`: host names that lead to a service.

use trueup_api::domain::{Domain, DomainBody, DomainVerification};

use super::clock;
use super::context::{Connection, Context};
use super::failure::Exit;
use super::get::show;
use super::human::age;
use super::place::place;
use super::rehearse::DryRun;
use super::style::Paint;
use super::table::{Cell, Table};
use super::target::resolve;

/// Lead host names to a service
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Lead a host to a service, once it is proved to be yours
    Add {
        /// The host, such as www.example.org
        host: String,
        /// The service: NAME, PROJECT/NAME or svc_…
        #[arg(short, long, value_name = "NAME")]
        service: String,
        /// Ask for no certificate
        #[arg(long)]
        no_tls: bool,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Lead a host to a service no more
    Remove {
        /// The host
        host: String,
        /// The service: NAME, PROJECT/NAME or svc_…
        #[arg(short, long, value_name = "NAME")]
        service: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Say that a host is proved to be the org's; for operators
    Verify {
        /// The host
        host: String,
        /// The service: NAME, PROJECT/NAME or svc_…
        #[arg(short, long, value_name = "NAME")]
        service: String,
        /// Take it back instead, to move the host to another org
        #[arg(long)]
        withdraw: bool,
        #[command(flatten)]
        dry: DryRun,
    },
    /// List the domains of the project, or of one service
    List {
        /// Only of this service: NAME, PROJECT/NAME or svc_…
        #[arg(short, long, value_name = "NAME")]
        service: Option<String>,
    },
}

pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    match args.command {
        Command::Add { host, service, no_tls, dry } => {
            let writing = dry.begin(&connection.client);
            let found = context.ask("the service", resolve(&service, context, &connection)).await?;
            let body = DomainBody { tls: no_tls.then(|| "off".to_owned()) };
            let adding = writing.client().domain_put(&found.project, &found.name, &host, &body);
            let domain = context.ask("adding the domain", adding).await?;
            if writing.previewed(&format!("domain/{host}"), context)? {
                return Ok(Exit::Ok);
            }
            tell(&domain, context)
        }
        Command::Verify { host, service, withdraw, dry } => {
            let writing = dry.begin(&connection.client);
            let found = context.ask("the service", resolve(&service, context, &connection)).await?;
            let body = DomainVerification { verified: !withdraw };
            let proving = writing.client().domain_verify(&found.project, &found.name, &host, &body);
            let domain = context.ask("proving the domain", proving).await?;
            if writing.previewed(&format!("domain/{host}"), context)? {
                return Ok(Exit::Ok);
            }
            tell(&domain, context)
        }
        Command::Remove { host, service, dry } => {
            let writing = dry.begin(&connection.client);
            let found = context.ask("the service", resolve(&service, context, &connection)).await?;
            let removing = writing.client().domain_delete(&found.project, &found.name, &host);
            context.ask("removing the domain", removing).await?;
            if writing.previewed(&format!("domain/{host}"), context)? {
                return Ok(Exit::Ok);
            }
            context.terminal.line(&format!("domain/{host} removed"))?;
            Ok(Exit::Ok)
        }
        Command::List { service } => list(service.as_deref(), context, &connection).await,
    }
}

/// Says where it stands, and how to prove it while that is what is missing.
fn tell(domain: &Domain, context: &Context) -> anyhow::Result<Exit> {
    if context.output.print(context.terminal, domain)? {
        return Ok(Exit::Ok);
    }
    context.terminal.line(&format!("domain/{} {}", domain.host, domain.state))?;
    if let ("unverified", Some(proof)) = (domain.state.as_str(), &domain.proof) {
        let (name, value) = (&proof.name, &proof.value);
        context.terminal.line(&format!(
            "publish the TXT record {name} with the text {value}, then ask the operator to verify it"
        ))?;
    }
    Ok(Exit::Ok)
}

/// Also behind `trueup get domains`.
pub(crate) async fn list(
    service: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let place = place(service, context, connection).await?;
    let reading = connection.client.domain_list(&place.project);
    let mut list = context.ask("reading the domains", reading).await?;
    list.items.retain(|domain| place.has(&domain.service));
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["HOST", "SERVICE", "TLS", "STATE", "AGE"]);
    for domain in &list.items {
        table.row(vec![
            Cell::plain(&domain.host),
            Cell::plain(&domain.service),
            Cell::plain(&domain.tls),
            state(domain),
            Cell::plain(&age(clock::now(), domain.created_at)),
        ]);
    }
    let things = format!("domains of {}", place.words());
    show(&table, list.items.is_empty(), context, &things, || "add one with `trueup domain add`")
}

fn state(domain: &Domain) -> Cell {
    let paint = match domain.state.as_str() {
        "open" => Paint::Good,
        _ => Paint::Busy,
    };
    Cell::new(paint, &domain.state)
}
