//! Identity providers: declare, list, check and delete them.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::preview::OrPreview;
use trueup_api::provider::{
    Provider, ProviderDomain, ProviderGroup, ProviderList, ProviderRequest,
};
use trueup_model::name::Name;
use trueup_model::principal::Permission;
use trueup_model::provider::{self as model, GROUPS_CLAIM, GroupRole, OUTAGE, ProviderSpec};
use trueup_rules::admit::FieldError;
use trueup_rules::federation::check;
use trueup_store::door::ProviderRequest as Declaration;

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::write::request::{DryRun, WriteRequest};

/// The longest client secret.
const LONGEST_SECRET: usize = 1000;

/// Lists the identity providers of the org.
#[utoipa::path(get, path = "/v1/providers", operation_id = "provider_list", tag = "members",
    responses((status = 200, body = ProviderList)))]
pub(crate) async fn provider_list(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<ProviderList>> {
    caller.must(Permission::ManageMembers)?;
    let all = state.app.list_providers(caller.org).await?;
    Ok(Json(ProviderList { items: all.iter().map(|one| view(&state, one)).collect() }))
}

/// Shows an identity provider: its domains, and whether it answers.
#[utoipa::path(get, path = "/v1/providers/{provider}", operation_id = "provider_get", tag = "members",
    params(("provider" = String, Path, description = "name or id (`idp_…`)")),
    responses((status = 200, body = Provider)))]
pub(crate) async fn provider_get(
    State(state): State<AppState>,
    caller: Caller,
    Path(provider): Path<String>,
) -> Answer<Json<Provider>> {
    caller.must(Permission::ManageMembers)?;
    let found = state.app.get_provider(caller.org, &provider).await?;
    found.map(|one| Json(view(&state, &one))).ok_or_else(|| Failure::not_found("provider"))
}

/// Declares an identity provider, or changes it. Changed roles of groups count for everybody at once.
#[utoipa::path(put, path = "/v1/providers/{provider}", operation_id = "provider_put", tag = "members",
    params(("provider" = Name, Path, description = "its name"), DryRun),
    request_body = ProviderRequest,
    extensions(("x-problems" = json!([trueup_api::Code::KeyUnavailable]))),
    responses((status = 200, description = "declared, unchanged, or a preview", body = OrPreview<Provider>)))]
pub(crate) async fn provider_put(
    change: WriteRequest,
    Path(provider): Path<String>,
    Body(wanted): Body<ProviderRequest>,
) -> Answer<Response> {
    change.must(Permission::ManageMembers)?;
    let state = change.state.clone();
    let (name, spec, secret) = parsed(&provider, wanted, state.providers.allows_private())?;
    let declaration = Declaration {
        name: &name,
        spec: &spec,
        secret: secret.as_ref(),
        encryptor: &state.encryptor,
    };
    let (org, context, now) = (change.org(), change.context(), change.now());
    let put = change.app().put_provider(org, &declaration, &context, now).await?;
    if put.changed && !change.is_dry() {
        state.signals.provider_check();
    }
    change.done(put.changed, &view(&state, &put.row))
}

/// Deletes an identity provider: everybody loses the role that it gave them, with their sessions and tokens.
#[utoipa::path(delete, path = "/v1/providers/{provider}", operation_id = "provider_delete",
    tag = "members",
    params(("provider" = String, Path, description = "name or id (`idp_…`)"), DryRun),
    responses((status = 200, description = "deleted, or a preview", body = OrPreview<Provider>)))]
pub(crate) async fn provider_delete(
    change: WriteRequest,
    Path(provider): Path<String>,
) -> Answer<Response> {
    change.must(Permission::ManageMembers)?;
    let state = change.state.clone();
    let (org, context, now) = (change.org(), change.context(), change.now());
    let deleted = change.app().delete_provider(org, &provider, &context, now).await?;
    change.done(true, &view(&state, &deleted))
}

/// Checks the domains of a provider and everybody it vouches for now, without waiting for their turn.
#[utoipa::path(post, path = "/v1/providers/{provider}/check", operation_id = "provider_check",
    tag = "members",
    params(("provider" = String, Path, description = "name or id (`idp_…`)"), DryRun),
    responses((status = 200, description = "requested, or a preview", body = OrPreview<Provider>)))]
pub(crate) async fn provider_check(
    change: WriteRequest,
    Path(provider): Path<String>,
) -> Answer<Response> {
    change.must(Permission::ManageMembers)?;
    let state = change.state.clone();
    let (org, context, now) = (change.org(), change.context(), change.now());
    let requested = change.app().request_provider_check(org, &provider, &context, now).await?;
    if !change.is_dry() {
        state.signals.provider_check();
    }
    change.done(true, &view(&state, &requested))
}

type Parsed = (Name, ProviderSpec, Option<trueup_model::secret::SecretValue>);

/// Parses a declaration; reports every wrong field at once.
fn parsed(name: &str, wanted: ProviderRequest, allow_private: bool) -> Answer<Parsed> {
    let mut errors = Vec::new();
    let mut wrong = |field: String, message: String| errors.push(FieldError { field, message });
    let name: Option<Name> =
        name.parse().map_err(|error| wrong("name".to_owned(), format!("{error}"))).ok();
    let mut domains = Vec::new();
    for (index, domain) in wanted.domains.iter().enumerate() {
        match domain.parse() {
            Ok(host) => domains.push(host),
            Err(error) => wrong(format!("domains.{index}"), format!("{error}")),
        }
    }
    let mut groups = Vec::new();
    for (index, ProviderGroup { group, role }) in wanted.groups.into_iter().enumerate() {
        match role.parse() {
            Ok(role) => groups.push(GroupRole { group, role }),
            Err(_) => {
                let message = "must be one of viewer, billing, developer, admin, owner";
                wrong(format!("groups.{index}.role"), message.to_owned());
            }
        }
    }
    let secret = wanted.client_secret;
    let length = secret.as_ref().map(|secret| secret.reveal().chars().count());
    if length.is_some_and(|length| !(1..=LONGEST_SECRET).contains(&length)) {
        let message = format!(
            "must have 1 to {LONGEST_SECRET} characters; omit it to keep the one that is set"
        );
        wrong("client_secret".to_owned(), message);
    }
    let minutes = u32::try_from(OUTAGE.as_mins()).unwrap_or_default();
    let spec = ProviderSpec {
        issuer: wanted.issuer,
        client_id: wanted.client_id,
        domains,
        groups_claim: wanted.groups_claim.unwrap_or_else(|| GROUPS_CLAIM.to_owned()),
        groups,
        enabled: wanted.enabled.unwrap_or(true),
        outage_minutes: wanted.outage_minutes.unwrap_or(minutes),
    };
    let known = |field: &str| errors.iter().any(|error| error.field.starts_with(field));
    let more = check(&spec, allow_private).into_iter().filter(|error| !known(&error.field));
    let more: Vec<FieldError> = more.collect();
    errors.extend(more);
    match name {
        Some(name) if errors.is_empty() => Ok((name, spec, secret)),
        Some(_) | None => Err(Failure::invalid(errors)),
    }
}

fn view(state: &AppState, provider: &model::Provider) -> Provider {
    let spec = &provider.spec;
    Provider {
        id: provider.id.to_string(),
        name: provider.name.to_string(),
        issuer: spec.issuer.clone(),
        client_id: spec.client_id.clone(),
        has_secret: provider.has_secret,
        redirect_uri: state.providers.redirect_uri().to_owned(),
        domains: provider.domains.iter().map(domain).collect(),
        groups_claim: spec.groups_claim.clone(),
        groups: spec
            .groups
            .iter()
            .map(|GroupRole { group, role }| ProviderGroup {
                group: group.clone(),
                role: role.to_string(),
            })
            .collect(),
        enabled: spec.enabled,
        outage_minutes: spec.outage_minutes,
        state: provider.state(),
        confirmed_at: provider.contact.confirmed_at,
        failed_at: provider.contact.failed_at,
        failure: provider.contact.failure.clone(),
        people: provider.people,
        created_at: provider.created_at,
    }
}

fn domain(domain: &model::ProviderDomain) -> ProviderDomain {
    ProviderDomain {
        host: domain.host.to_string(),
        verified_at: domain.verified_at,
        record: domain.host.challenge(),
        text: domain.id.to_string(),
        detail: domain.last.as_ref().map(|last| last.why.clone()),
        next_check_at: domain.next_at,
    }
}
