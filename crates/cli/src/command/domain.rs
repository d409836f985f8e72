//! `trueup domain`: host names that lead to a service.

mod verify;

use std::time::Duration;

use trueup_api::domain::{Domain, DomainBody};

use crate::clock;
use crate::command::get::show;
use crate::connect::context::{Connection, Context};
use crate::connect::place::place;
use crate::connect::target::resolve;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::{age, clean, duration};
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// Lead host names to a service
#[derive(Debug, clap::Args)]
pub struct Args {
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
    /// Look into DNS now for the verification of a host; an operator says by hand that it is proved
    Verify(VerifyArgs),
    /// Show one domain, and how far its verification is
    Get {
        /// The host
        host: String,
        /// The service: NAME, PROJECT/NAME or svc_…
        #[arg(short, long, value_name = "NAME")]
        service: String,
    },
    /// List the domains of the project, or of one service
    List {
        /// Only of this service: NAME, PROJECT/NAME or svc_…
        #[arg(short, long, value_name = "NAME")]
        service: Option<String>,
    },
}

/// Which host, and how its verification is sought.
#[derive(Debug, clap::Args)]
struct VerifyArgs {
    /// The host
    host: String,
    /// The service: NAME, PROJECT/NAME or svc_…
    #[arg(short, long, value_name = "NAME")]
    service: String,
    /// Wait until DNS proves it
    #[arg(long, conflicts_with_all = ["withdraw", "dry_run"])]
    wait: bool,
    /// How long to wait for that
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    timeout: Duration,
    /// Take a verification back instead, to move the host to another org; for operators
    #[arg(long)]
    withdraw: bool,
    #[command(flatten)]
    dry: DryRun,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
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
        Command::Verify(proving) => verify::run(&proving, context, &connection).await,
        Command::Get { host, service } => {
            let found = context.ask("the service", resolve(&service, context, &connection)).await?;
            let reading = connection.client.domain_get(&found.project, &found.name, &host);
            tell(&context.ask("reading the domain", reading).await?, context)
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
    if let ("unverified", Some(verification)) = (domain.state.as_str(), &domain.verification) {
        let (name, value) = (&verification.name, &verification.value);
        context.terminal.line(&format!("publish the TXT record {name} with the text {value}"))?;
        context.terminal.line(&search(domain))?;
    }
    Ok(Exit::Ok)
}

/// Why a host is not proved yet, when that was seen, and when it is looked for again.
fn search(domain: &Domain) -> String {
    let Some(verification) = domain.verification.as_ref().filter(|_| domain.verified_at.is_none())
    else {
        return String::new();
    };
    let mut text = clean(verification.message.as_deref().unwrap_or_default());
    if let Some(at) = verification.checked_at {
        text.push_str(&format!("; looked {} ago", age(clock::now(), at)));
    }
    match (verification.next_check_at, verification.result.as_deref()) {
        (Some(at), _) => text.push_str(&format!(", next look in {}", age(at, clock::now()))),
        (None, Some(_)) => text.push_str(", nobody looks again until `trueup domain verify`"),
        (None, None) => {}
    }
    text
}

/// Also behind `trueup get domains`.
pub async fn list(
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
    let mut table = Table::new(&["HOST", "SERVICE", "TLS", "STATE", "AGE", "PROOF"]);
    for domain in &list.items {
        table.row(vec![
            Cell::plain(&domain.host),
            Cell::plain(&domain.service),
            Cell::plain(&domain.tls),
            state(domain),
            Cell::plain(&age(clock::now(), domain.created_at)),
            Cell::plain(&search(domain)),
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
