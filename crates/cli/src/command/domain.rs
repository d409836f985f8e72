//! `trueup domain`: host names that are routed to a service.

mod verify;

use std::time::Duration;

use jiff::Timestamp;
use trueup_api::domain::{Domain, DomainBody};
use trueup_model::domain::{CertificateState, DomainState, Tls};

use crate::clock;
use crate::command::get::show;
use crate::connect::context::{Connection, Context};
use crate::connect::scope::resolve_scope;
use crate::connect::target::resolve;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::{age, clean, duration};
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// Route host names to a service
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Route a verified host to a service
    Add {
        /// The host, such as www.example.org
        host: String,
        /// The service: NAME, PROJECT/NAME or svc_…
        #[arg(short, long, value_name = "NAME")]
        service: String,
        /// Do not request a certificate
        #[arg(long)]
        no_tls: bool,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Stop routing a host to a service
    Remove {
        /// The host
        host: String,
        /// The service: NAME, PROJECT/NAME or svc_…
        #[arg(short, long, value_name = "NAME")]
        service: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Check DNS for a host's verification record now; operators verify the host without DNS
    Verify(VerifyArgs),
    /// Show one domain and its verification status
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

/// Arguments of `trueup domain verify`.
#[derive(Debug, clap::Args)]
struct VerifyArgs {
    /// The host
    host: String,
    /// The service: NAME, PROJECT/NAME or svc_…
    #[arg(short, long, value_name = "NAME")]
    service: String,
    /// Wait until the host is verified
    #[arg(long, conflicts_with_all = ["withdraw", "dry_run"])]
    wait: bool,
    /// Timeout for --wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    timeout: Duration,
    /// Withdraw the verification instead, to move the host to another org (operators)
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
            let found = context
                .wait("reading the service", resolve(&service, context, &connection))
                .await?;
            let body = DomainBody { tls: no_tls.then(|| "off".to_owned()) };
            let adding = writing.client().domain_put(&found.project, &found.name, &host, &body);
            let domain = context.wait("adding the domain", adding).await?;
            if writing.previewed(&format!("domain/{host}"), context)? {
                return Ok(Exit::Ok);
            }
            print_domain(&domain, context)
        }
        Command::Verify(args) => verify::run(&args, context, &connection).await,
        Command::Get { host, service } => {
            let found = context
                .wait("reading the service", resolve(&service, context, &connection))
                .await?;
            let reading = connection.client.domain_get(&found.project, &found.name, &host);
            print_domain(&context.wait("reading the domain", reading).await?, context)
        }
        Command::Remove { host, service, dry } => {
            let writing = dry.begin(&connection.client);
            let found = context
                .wait("reading the service", resolve(&service, context, &connection))
                .await?;
            let removing = writing.client().domain_delete(&found.project, &found.name, &host);
            context.wait("removing the domain", removing).await?;
            if writing.previewed(&format!("domain/{host}"), context)? {
                return Ok(Exit::Ok);
            }
            context.terminal.line(&format!("domain/{host} removed"))?;
            Ok(Exit::Ok)
        }
        Command::List { service } => list(service.as_deref(), context, &connection).await,
    }
}

/// Prints a domain, and what is left to do: how to verify it, or why it is not open.
fn print_domain(domain: &Domain, context: &Context) -> anyhow::Result<Exit> {
    if context.output.print(context.terminal, domain)? {
        return Ok(Exit::Ok);
    }
    context.terminal.line(&format!("domain/{} {}", domain.host, domain.state))?;
    if let (DomainState::Unverified, Some(verification)) = (domain.state, &domain.verification) {
        let (name, value) = (&verification.name, &verification.value);
        context.terminal.line(&format!("publish the TXT record {name} with the text {value}"))?;
        context.terminal.line(&verification_status(domain))?;
    }
    if let Some(message) = &domain.message {
        context.terminal.line(&clean(message))?;
    }
    if domain.certificate.state != CertificateState::None {
        context.terminal.line(&format!("certificate: {}", certificate_status(domain)))?;
    }
    Ok(Exit::Ok)
}

/// The state of a host's certificate, its issuer, its end, and the problem with it.
fn certificate_status(domain: &Domain) -> String {
    let certificate = &domain.certificate;
    let mut text = certificate.state.to_string();
    if let Some(issuer) = &certificate.issuer {
        text.push_str(&format!(", issuer {}", clean(issuer)));
    }
    if let Some(end) = certificate.not_after {
        text.push_str(&format!(", {}", expiry(end)));
    }
    if let Some(message) = &certificate.message {
        text.push_str(&format!("; {}", clean(message)));
    }
    text
}

/// When a certificate expires or did, relative to now.
fn expiry(end: Timestamp) -> String {
    let now = clock::now();
    if end > now {
        format!("expires in {}", age(end, now))
    } else {
        format!("expired {} ago", age(now, end))
    }
}

/// Why a host is not verified yet, the last check and the next one.
fn verification_status(domain: &Domain) -> String {
    let Some(verification) = domain.verification.as_ref().filter(|_| domain.verified_at.is_none())
    else {
        return String::new();
    };
    let mut text = clean(verification.message.as_deref().unwrap_or_default());
    if let Some(at) = verification.checked_at {
        text.push_str(&format!("; checked {} ago", age(clock::now(), at)));
    }
    match (verification.next_check_at, verification.result) {
        (Some(at), _) => text.push_str(&format!(", next check in {}", age(at, clock::now()))),
        (None, Some(_)) => text.push_str(", no further check until `trueup domain verify`"),
        (None, None) => {}
    }
    text
}

/// Lists domains; also used by `trueup get domains`.
pub async fn list(
    service: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let scope = resolve_scope(service, context, connection).await?;
    let reading = connection.client.domain_list(&scope.project);
    let mut list = context.wait("reading the domains", reading).await?;
    list.items.retain(|domain| scope.has(&domain.service));
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["HOST", "SERVICE", "STATE", "CERTIFICATE", "AGE", "DETAIL"]);
    for domain in &list.items {
        table.row(vec![
            Cell::plain(&domain.host),
            Cell::plain(&domain.service),
            state(domain),
            certificate(domain),
            Cell::plain(&age(clock::now(), domain.created_at)),
            Cell::plain(&detail(domain)),
        ]);
    }
    let nouns = format!("domains of {}", scope.words());
    show(&table, list.items.is_empty(), context, &nouns, || "add one with `trueup domain add`")
}

fn state(domain: &Domain) -> Cell {
    let paint = match domain.state {
        DomainState::Open => Paint::Good,
        DomainState::Unverified | DomainState::Pending | DomainState::Opening => Paint::Busy,
        DomainState::Refused => Paint::Bad,
    };
    Cell::new(paint, domain.state.into_str())
}

/// The state of a host's certificate with its end; `off` where none was asked for.
fn certificate(domain: &Domain) -> Cell {
    let state = domain.certificate.state;
    let paint = match state {
        CertificateState::None if domain.tls == Tls::Off => {
            return Cell::plain(domain.tls.into_str());
        }
        CertificateState::None => return Cell::plain(state.into_str()),
        CertificateState::Ready => Paint::Good,
        CertificateState::Issuing => Paint::Busy,
        CertificateState::Expiring | CertificateState::Failing => Paint::Bad,
    };
    match domain.certificate.not_after {
        Some(end) => Cell::new(paint, &format!("{state}, {}", expiry(end))),
        None => Cell::new(paint, state.into_str()),
    }
}

/// What keeps a host from being open or encrypted, if anything does.
fn detail(domain: &Domain) -> String {
    let messages = [&domain.message, &domain.certificate.message];
    let parts = messages.into_iter().flatten().map(|message| clean(message));
    let verification = Some(verification_status(domain)).filter(|text| !text.is_empty());
    verification.into_iter().chain(parts).collect::<Vec<_>>().join("; ")
}
