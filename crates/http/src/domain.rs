//! Domains: list, show, add, look for their proofs, prove, remove.
//!
//! Whether another org has a host is never said to a tenant: any org may ask for any host, and only
//! the operator, who proves whose it is, hears that it is taken.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Problem;
use trueup_api::domain::{
    Domain, DomainBody, DomainList, DomainVerification, DomainVerificationBody,
};
use trueup_api::preview::{OrPreview, Preview};
use trueup_api::service::NoBody;
use trueup_model::domain::{self, Host, ParseHostError, Tls};
use trueup_model::principal::Permission;
use trueup_rules::admit::FieldError;
use trueup_rules::admit::domain::unproved;
use trueup_store::door::DomainRequest;

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::write::answer::if_generation;
use crate::write::request::{DryRun, WriteRequest};

/// Lists the domains of a project's services.
#[utoipa::path(get, path = "/v1/projects/{project}/domains", operation_id = "domain_list",
    tag = "domains", params(("project" = String, Path, description = "name or id")),
    responses((status = 200, body = DomainList), (status = "4XX", body = Problem)))]
pub(crate) async fn domain_list(
    State(state): State<AppState>,
    caller: Caller,
    Path(project): Path<String>,
) -> Answer<Json<DomainList>> {
    caller.must(Permission::Read)?;
    let rows = state.app.list_domains(caller.org, &project).await?;
    let rows = rows.ok_or_else(|| Failure::not_found("project"))?;
    Ok(Json(DomainList { items: rows.into_iter().map(shown).collect() }))
}

/// Shows one domain, and what DNS must say to prove it.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/domains/{domain}",
    operation_id = "domain_get", tag = "domains",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id"),
           ("domain" = String, Path, description = "host name")),
    responses((status = 200, body = Domain), (status = "4XX", body = Problem)))]
pub(crate) async fn domain_get(
    State(state): State<AppState>,
    caller: Caller,
    Path((project, service, domain)): Path<(String, String, String)>,
) -> Answer<Json<Domain>> {
    caller.must(Permission::Read)?;
    let found = state.app.find_service(caller.org, &project, &service).await?;
    let found = found.ok_or_else(|| Failure::not_found("service"))?;
    let rows = state.app.list_domains(caller.org, &project).await?.unwrap_or_default();
    let row = rows
        .into_iter()
        .find(|row| row.service == found.row.service.id && row.host.as_str() == domain)
        .ok_or_else(|| Failure::not_found("domain"))?;
    Ok(Json(shown(row)))
}

/// Leads a host to a service. It does so once the host is proved to be the org's.
#[utoipa::path(put, path = "/v1/projects/{project}/services/{service}/domains/{domain}",
    operation_id = "domain_put", tag = "domains",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id"),
           ("domain" = String, Path, description = "host name"), DryRun),
    request_body = DomainBody,
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Domain>),
              (status = 202, description = "accepted", body = Domain),
              (status = "4XX", body = Problem)))]
pub(crate) async fn domain_put(
    change: WriteRequest,
    Path((project, service, domain)): Path<(String, String, String)>,
    Body(body): Body<DomainBody>,
) -> Answer<Response> {
    change.must(Permission::ManageServices)?;
    let host = host(&change, (&project, &service), &domain).await?;
    let host = host.map_err(|error| refused("host", error.to_string()))?;
    let tls = body.tls.as_deref().map(tls).transpose()?.unwrap_or_default();
    let wanted = wanted(&change, (&project, &service), &host)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let added = change.app().add_domain(org, &wanted, tls, &context, now).await?;
    let mut row = shown(added.row);
    if change.is_dry() && added.changed {
        // The id of what is only rehearsed proves nothing later.
        row.verification = None;
    } else if added.changed {
        // It is looked for soon.
        change.state.signals.domain_check();
    }
    change.accepted(added.changed, &row)
}

/// Asks for DNS to be looked into now for the verification of a host, and again and again from then on. At most
/// every ten seconds; asking for what is about to happen changes nothing.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/domains/{domain}/check",
    operation_id = "domain_check", tag = "domains",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id"),
           ("domain" = String, Path, description = "host name"), DryRun),
    request_body = NoBody,
    responses((status = 200, description = "proved, or about to be looked for; or a preview", body = OrPreview<Domain>),
              (status = 202, description = "it will be looked for", body = Domain),
              (status = "4XX", body = Problem)))]
pub(crate) async fn domain_check(
    change: WriteRequest,
    Path((project, service, domain)): Path<(String, String, String)>,
    Body(NoBody {}): Body<NoBody>,
) -> Answer<Response> {
    change.must(Permission::ManageServices)?;
    let host = host(&change, (&project, &service), &domain).await?;
    let host = host.map_err(|_| Failure::not_found("domain"))?;
    let wanted = wanted(&change, (&project, &service), &host)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let asked = change.app().request_domain_check(org, &wanted, &context, now).await?;
    if asked.changed && !change.is_dry() {
        change.state.signals.domain_check();
    }
    change.accepted(asked.changed, &shown(asked.row))
}

/// Says whether a host is proved to be the org's. For operators, after they looked into DNS or at a
/// contract; taking it back is how a host is moved to another org.
#[utoipa::path(put, path = "/v1/projects/{project}/services/{service}/domains/{domain}/verification",
    operation_id = "domain_verify", tag = "domains",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id"),
           ("domain" = String, Path, description = "host name"), DryRun),
    request_body = DomainVerificationBody,
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Domain>),
              (status = 202, description = "accepted", body = Domain),
              (status = "4XX", body = Problem)))]
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
    let proved = change.app().verify_domain(org, &wanted, body.verified, &context, now).await?;
    change.accepted(proved.changed, &shown(proved.row))
}

/// Asks for a host to lead to a service no more.
#[utoipa::path(delete, path = "/v1/projects/{project}/services/{service}/domains/{domain}",
    operation_id = "domain_delete", tag = "domains",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id"),
           ("domain" = String, Path, description = "host name"), DryRun),
    responses((status = 200, description = "a preview", body = Preview),
              (status = 202, description = "accepted"), (status = "4XX", body = Problem)))]
pub(crate) async fn domain_delete(
    change: WriteRequest,
    Path((project, service, domain)): Path<(String, String, String)>,
) -> Answer<Response> {
    change.must(Permission::ManageServices)?;
    let host = host(&change, (&project, &service), &domain).await?;
    let host = host.map_err(|_| Failure::not_found("domain"))?;
    let wanted = wanted(&change, (&project, &service), &host)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    change.app().remove_domain(org, &wanted, &context, now).await?;
    change.removed()
}

/// A domain has no version of its own: `If-Match` speaks of its service's generation.
fn wanted<'a>(
    change: &WriteRequest,
    (project, service): (&'a str, &'a str),
    host: &'a Host,
) -> Answer<DomainRequest<'a>> {
    let if_generation = if_generation(&change.headers)?;
    Ok(DomainRequest { project, service, host, if_generation })
}

/// Reads a host after its service was found: a stranger learns nothing from how one is written.
async fn host(
    change: &WriteRequest,
    (project, service): (&str, &str),
    text: &str,
) -> Answer<Result<Host, ParseHostError>> {
    let found = change.state.app.find_service(change.org(), project, service).await?;
    found.ok_or_else(|| Failure::not_found("service"))?;
    Ok(text.parse())
}

fn tls(text: &str) -> Answer<Tls> {
    Tls::find(text).ok_or_else(|| refused("tls", "must be auto or off".to_owned()))
}

fn refused(field: &str, message: String) -> Failure {
    Failure::invalid(vec![FieldError { field: field.to_owned(), message }])
}

fn shown(domain: domain::Domain) -> Domain {
    Domain {
        id: domain.id.to_string(),
        verification: Some(verification(&domain)),
        host: domain.host.to_string(),
        service: domain.service_name,
        tls: domain.tls.as_str().to_owned(),
        state: domain.state.as_str().to_owned(),
        verified_at: domain.verified_at,
        made_by: domain.made_by,
        created_at: domain.created_at,
    }
}

/// The record, and what was seen of it while it is still looked for.
fn verification(domain: &domain::Domain) -> DomainVerification {
    let (name, value) = (domain.host.challenge(), domain.id.to_string());
    let open = domain.verified_at.is_none();
    // What was seen before the verification was taken back says nothing any more.
    let sought = open && domain.search.withdrawn_at.is_none();
    let last = domain.search.last.as_ref().filter(|_| sought);
    DomainVerification {
        name,
        value,
        checked_at: last.map(|check| check.at),
        result: last.map(|check| check.result.as_str().to_owned()),
        message: unproved(domain),
        next_check_at: domain.search.next_at.filter(|_| sought),
    }
}
