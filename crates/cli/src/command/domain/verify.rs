//! `trueup domain verify`: requests a DNS check and optionally waits until the host is verified.
//! Operators can verify a host without DNS, or withdraw a verification.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use trueup_api::Client;
use trueup_api::domain::{Domain, DomainVerificationBody};
use trueup_api::service::Service;
use trueup_model::principal::Permission;

use super::{VerifyArgs, print_domain, verification_status};
use crate::connect::context::{Connection, Context};
use crate::connect::target::resolve;
use crate::failure::{Exit, Failure};
use crate::output::human::duration_text;
use crate::output::progress::Progress;

/// How often the domain is read while waiting.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn run(
    args: &VerifyArgs,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let writing = args.dry.begin(&connection.client);
    let service =
        context.wait("reading the service", resolve(&args.service, context, connection)).await?;
    let (project, name) = (&service.project, &service.name);
    let domain =
        if args.withdraw || (!args.wait && is_operator(context, &connection.client).await?) {
            let body = DomainVerificationBody { verified: !args.withdraw };
            let verifying = writing.client().domain_verify(project, name, &args.host, &body);
            context.wait("setting the verification", verifying).await?
        } else {
            let checking = writing.client().domain_check(project, name, &args.host);
            context.wait("requesting a DNS check", checking).await?
        };
    if writing.previewed(&format!("domain/{}", args.host), context)? {
        return Ok(Exit::Ok);
    }
    let domain = if args.wait {
        wait(args, context, &connection.client, &service, domain).await?
    } else {
        domain
    };
    print_domain(&domain, context)
}

/// Whether the caller is an operator, who can verify a host without DNS.
async fn is_operator(context: &Context, client: &Client) -> anyhow::Result<bool> {
    let who = context.wait("reading the permissions", client.whoami()).await?;
    Ok(who.permissions.contains(&Permission::ManagePlatform))
}

/// Polls the domain until it is verified.
async fn wait(
    args: &VerifyArgs,
    context: &Context,
    client: &Client,
    service: &Service,
    mut domain: Domain,
) -> anyhow::Result<Domain> {
    let (project, name, host) = (&service.project, &service.name, &args.host);
    let end = Instant::now() + args.timeout;
    let mut progress =
        Progress::new(context.terminal, &format!("waiting for the verification of {host}"));
    while domain.verified_at.is_none() {
        if Instant::now() >= end {
            let waited = duration_text(args.timeout);
            let late =
                format!("{host} is not verified after {waited}: {}", verification_status(&domain));
            return Err(Failure::new(Exit::TimedOut, late)
                .hint(format!(
                    "check the TXT record in the DNS of {host}; Trueup keeps checking, and \
                     `trueup domain get {host} --service {project}/{name}` shows the result"
                ))
                .into());
        }
        progress.set(&format!(
            "waiting for the verification of {host}: {}",
            verification_status(&domain)
        ));
        let reading = async {
            sleep(POLL_INTERVAL).await;
            client.domain_get(project, name, host).await
        };
        domain = progress.wait(reading).await?;
    }
    Ok(domain)
}
