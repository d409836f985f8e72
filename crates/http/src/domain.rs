//! Domains: list, show, add, check DNS, verify, remove.
//!
//! A tenant never learns whether another org has a host: any org may add any host, and only the
//! operator, who verifies the owner, gets the error that it is taken.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use trueup_api::Code;
use trueup_api::domain::{
    Domain, DomainBody, DomainCertificate, DomainList, DomainVerification, DomainVerificationBody,
};
use trueup_api::preview::{OrPreview, Preview};
use trueup_api::schema::{ProjectKey, ServiceKey};
use trueup_api::service::NoBody;
use trueup_model::domain::{self, Host, ParseHostError, Tls};
use trueup_model::principal::Permission;
use trueup_rules::admit::FieldError;
use trueup_rules::admit::domain::unverified_reason;
use trueup_rules::status::observe::{certificate_message, certificate_state, route_message};
use trueup_store::door::DomainRequest;

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::write::answer::if_generation;
use crate::write::request::{DryRun, WriteRequest};

/// What any operation on a domain may answer, beyond what its shape says.
const PROBLEMS: [Code; 3] = [Code::InvalidManifest, Code::NameTaken, Code::VerificationWithdrawn];

/// Lists the domains of a project's services.
#[utoipa::path(get, path = "/v1/projects/{project}/domains", operation_id = "domain_list",
    tag = "domains", params(("project" = ProjectKey, Path, description = "name or id")),
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, body = DomainList)))]
pub(crate) async fn domain_list(
    State(state): State<AppState>,
    caller: Caller,
    Path(project): Path<String>,
) -> Answer<Json<DomainList>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let rows = app.list_domains(caller.org, &project).await?;
    let rows = rows.ok_or_else(|| Failure::not_found("project"))?;
    let now = state.clock.now();
    Ok(Json(DomainList { items: rows.into_iter().map(|row| shown(row, now)).collect() }))
}

/// Shows a domain, with the DNS record that verifies it.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/domains/{domain}",
    operation_id = "domain_get", tag = "domains",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id"),
           ("domain" = Host, Path, description = "host name")),
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, body = Domain)))]
pub(crate) async fn domain_get(
    State(state): State<AppState>,
    caller: Caller,
    Path((project, service, domain)): Path<(String, String, String)>,
) -> Answer<Json<Domain>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let found = app.find_service(caller.org, &project, &service).await?;
    let found = found.ok_or_else(|| Failure::not_found("service"))?;
    let rows = app.list_domains(caller.org, &project).await?.unwrap_or_default();
    let row = rows
        .into_iter()
        .find(|row| row.service == found.row.service.id && row.host.as_str() == domain)
        .ok_or_else(|| Failure::not_found("domain"))?;
    Ok(Json(shown(row, state.clock.now())))
}

/// Adds a domain: routes the host to a service once the domain is verified.
#[utoipa::path(put, path = "/v1/projects/{project}/services/{service}/domains/{domain}",
    operation_id = "domain_put", tag = "domains",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id"),
           ("domain" = Host, Path, description = "host name"), DryRun),
    request_body = DomainBody,
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Domain>),
              (status = 202, description = "accepted", body = Domain)))]
pub(crate) async fn domain_put(
    change: WriteRequest,
    Path((project, service, domain)): Path<(String, String, String)>,
    Body(body): Body<DomainBody>,
) -> Answer<Response> {
    let change = change.within(Permission::ManageServices)?;
    let host = host(&change, (&project, &service), &domain).await?;
    let host = host.map_err(|error| refused("host", error.to_string()))?;
    let tls = body.tls.as_deref().map(tls).transpose()?.unwrap_or_default();
    let wanted = wanted(&change, (&project, &service), &host)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let added = change.app().add_domain(org, &wanted, tls, &context, now).await?;
    let mut row = shown(added.row, now);
    if change.is_dry() && added.changed {
        // The id of a dry run is discarded, so its TXT value would never be accepted.
        row.verification = None;
    } else if added.changed {
        change.state.signals.domain_check();
    }
    change.accepted(added.changed, &row)
}

/// Requests a DNS check of a domain now, and restarts the regular checks.
///
/// At most one check in ten seconds; a request just before a scheduled check changes nothing.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/domains/{domain}/check",
    operation_id = "domain_check", tag = "domains",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id"),
           ("domain" = Host, Path, description = "host name"), DryRun),
    request_body = NoBody,
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, description = "verified or about to be checked, or a preview", body = OrPreview<Domain>),
              (status = 202, description = "the check is scheduled", body = Domain)))]
pub(crate) async fn domain_check(
    change: WriteRequest,
    Path((project, service, domain)): Path<(String, String, String)>,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Response> {
    let change = change.within(Permission::ManageServices)?;
    let host = host(&change, (&project, &service), &domain).await?;
    let host = host.map_err(|_| Failure::not_found("domain"))?;
    let wanted = wanted(&change, (&project, &service), &host)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let requested = change.app().request_domain_check(org, &wanted, &context, now).await?;
    if requested.changed && !change.is_dry() {
        change.state.signals.domain_check();
    }
    change.accepted(requested.changed, &shown(requested.row, now))
}

/// Sets or withdraws the verification of a domain manually. For operators.
///
/// Withdraw it to move a host to another org.
#[utoipa::path(put, path = "/v1/projects/{project}/services/{service}/domains/{domain}/verification",
    operation_id = "domain_verify", tag = "domains",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id"),
           ("domain" = Host, Path, description = "host name"), DryRun),
    request_body = DomainVerificationBody,
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Domain>),
              (status = 202, description = "accepted", body = Domain)))]
pub(crate) async fn domain_verify(
    change: WriteRequest,
    Path((project, service, domain)): Path<(String, String, String)>,
    Body(body): Body<DomainVerificationBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let host = host(&change, (&project, &service), &domain).await?;
    let host = host.map_err(|_| Failure::not_found("domain"))?;
    let wanted = wanted(&change, (&project, &service), &host)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let verified = change.app().verify_domain(org, &wanted, body.verified, &context, now).await?;
    change.accepted(verified.changed, &shown(verified.row, now))
}

/// Removes a domain: its host is no longer routed to the service.
#[utoipa::path(delete, path = "/v1/projects/{project}/services/{service}/domains/{domain}",
    operation_id = "domain_delete", tag = "domains",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id"),
           ("domain" = Host, Path, description = "host name"), DryRun),
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, description = "a preview", body = Preview),
              (status = 202, description = "accepted")))]
pub(crate) async fn domain_delete(
    change: WriteRequest,
    Path((project, service, domain)): Path<(String, String, String)>,
) -> Answer<Response> {
    let change = change.within(Permission::ManageServices)?;
    let host = host(&change, (&project, &service), &domain).await?;
    let host = host.map_err(|_| Failure::not_found("domain"))?;
    let wanted = wanted(&change, (&project, &service), &host)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    change.app().remove_domain(org, &wanted, &context, now).await?;
    change.removed()
}

/// A domain has no version of its own: `If-Match` names the generation of its service.
fn wanted<'a>(
    change: &WriteRequest,
    (project, service): (&'a str, &'a str),
    host: &'a Host,
) -> Answer<DomainRequest<'a>> {
    let if_generation = if_generation(&change.headers)?;
    Ok(DomainRequest { project, service, host, if_generation })
}

/// Parses a host after its service was found, so that a caller without access gets a plain 404.
async fn host(
    change: &WriteRequest,
    (project, service): (&str, &str),
    text: &str,
) -> Answer<Result<Host, ParseHostError>> {
    let found = change.app().find_service(change.org(), project, service).await?;
    found.ok_or_else(|| Failure::not_found("service"))?;
    Ok(text.parse())
}

fn tls(text: &str) -> Answer<Tls> {
    text.parse().map_err(|_| refused("tls", "must be auto or off".to_owned()))
}

fn refused(field: &str, message: String) -> Failure {
    Failure::invalid(vec![FieldError { field: field.to_owned(), message }])
}

fn shown(domain: domain::Domain, now: Timestamp) -> Domain {
    Domain {
        id: domain.id.to_string(),
        verification: Some(verification(&domain)),
        message: domain
            .route
            .as_ref()
            .filter(|_| domain.verified_at.is_some())
            .and_then(route_message),
        certificate: certificate(&domain, now),
        host: domain.host.to_string(),
        service: domain.service_name,
        tls: domain.tls,
        state: domain.state,
        verified_at: domain.verified_at,
        made_by: domain.made_by,
        created_at: domain.created_at,
    }
}

/// The certificate of a domain at this time.
fn certificate(domain: &domain::Domain, now: Timestamp) -> DomainCertificate {
    let seen = domain.certificate.as_ref().and_then(|sighting| sighting.certificate.as_ref());
    DomainCertificate {
        state: certificate_state(seen, now),
        issuer: seen.map(|seen| seen.issuer.clone()),
        not_after: seen.and_then(|seen| seen.not_after),
        message: seen.and_then(|seen| certificate_message(seen, now)),
    }
}

/// The DNS record, and the result of the last check while the domain is not verified.
fn verification(domain: &domain::Domain) -> DomainVerification {
    let (name, value) = (domain.host.challenge(), domain.id.to_string());
    let open = domain.verified_at.is_none();
    // Checks from before a withdrawal are not shown.
    let sought = open && domain.search.withdrawn_at.is_none();
    let last = domain.search.last.as_ref().filter(|_| sought);
    DomainVerification {
        name,
        value,
        checked_at: last.map(|check| check.at),
        result: last.map(|check| check.result),
        message: unverified_reason(domain),
        next_check_at: domain.search.next_at.filter(|_| sought),
    }
}
