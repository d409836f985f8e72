//! `trueup domain verify`: asks for a look into DNS, and waits for what it proves. An operator may say by
//! hand that a host is proved, or take that back.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use trueup_api::Client;
use trueup_api::domain::{Domain, DomainVerificationBody};
use trueup_api::service::Service;

use super::{VerifyArgs, search, tell};
use crate::connect::context::{Connection, Context};
use crate::connect::target::resolve;
use crate::failure::{Exit, Failure};
use crate::output::human::written;
use crate::output::progress::Progress;

/// How often is read how far it is.
const READ: Duration = Duration::from_secs(1);
/// What only operators may.
const OPERATORS: &str = "manage_platform";

pub(super) async fn run(
    args: &VerifyArgs,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let writing = args.dry.begin(&connection.client);
    let service = context.ask("the service", resolve(&args.service, context, connection)).await?;
    let (project, name) = (&service.project, &service.name);
    let domain = if args.withdraw || (!args.wait && says_so(context, &connection.client).await?) {
        let body = DomainVerificationBody { verified: !args.withdraw };
        let proving = writing.client().domain_verify(project, name, &args.host, &body);
        context.ask("proving the domain", proving).await?
    } else {
        let looking = writing.client().domain_check(project, name, &args.host);
        context.ask("asking for a look into DNS", looking).await?
    };
    if writing.previewed(&format!("domain/{}", args.host), context)? {
        return Ok(Exit::Ok);
    }
    let domain = if args.wait {
        wait(args, context, &connection.client, &service, domain).await?
    } else {
        domain
    };
    tell(&domain, context)
}

/// Whether whoever asks is somebody who says that a host is proved, instead of looking.
async fn says_so(context: &Context, client: &Client) -> anyhow::Result<bool> {
    let who = context.ask("who asks", client.whoami()).await?;
    Ok(who.permissions.iter().any(|permission| permission == OPERATORS))
}

/// Reads the domain again and again until it is proved.
async fn wait(
    args: &VerifyArgs,
    context: &Context,
    client: &Client,
    service: &Service,
    mut domain: Domain,
) -> anyhow::Result<Domain> {
    let (project, name, host) = (&service.project, &service.name, &args.host);
    let end = Instant::now() + args.timeout;
    let mut progress = Progress::new(context.terminal, &format!("the verification of {host}"));
    while domain.verified_at.is_none() {
        if Instant::now() >= end {
            let waited = written(args.timeout);
            let late = format!("{host} is not proved after {waited}: {}", search(&domain));
            return Err(Failure::new(Exit::TimedOut, late)
                .hint(format!(
                    "check the record with whoever runs the DNS of {host}; Trueup looks for it on, and \
                     `trueup domain get {host} --service {project}/{name}` shows what it sees"
                ))
                .into());
        }
        progress.set(&format!("the verification of {host}: {}", search(&domain)));
        let reading = async {
            sleep(READ).await;
            client.domain_get(project, name, host).await
        };
        domain = progress.wait(reading).await?;
    }
    Ok(domain)
}
