//! Orgs: operators create, list and delete them; every caller may read its own.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Code;
use trueup_api::org::{NewOrg, Org, OrgList, OrgRequest};
use trueup_api::preview::OrPreview;
use trueup_api::schema::OrgKey;
use trueup_model::OrgId;
use trueup_model::org as model;
use trueup_model::org::PLATFORM;
use trueup_model::principal::Permission;

use crate::AppState;
use crate::front::caller::{Caller, Scope};
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::project::name;
use crate::token::new_token;
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, PlatformWriteRequest};

/// Lists every org. For operators.
#[utoipa::path(get, path = "/v1/orgs", operation_id = "org_list", tag = "orgs",
    responses((status = 200, body = OrgList)))]
pub(crate) async fn org_list(
    State(state): State<AppState>,
    Scope(caller): Scope,
) -> Answer<Json<OrgList>> {
    caller.must(Permission::ReadPlatform)?;
    let orgs = state.app.list_orgs().await?;
    Ok(Json(OrgList { items: orgs.iter().map(view).collect() }))
}

/// Creates an org and a token for its first owner; the secret is shown only once. For operators.
#[utoipa::path(post, path = "/v1/orgs", operation_id = "org_create", tag = "orgs",
    params(DryRun), request_body = OrgRequest,
    extensions(("x-problems" = json!([Code::NameTaken]))),
    responses((status = 200, description = "a retry with the same key, without the secret; or a preview",
               body = OrPreview<NewOrg>),
              (status = 201, body = NewOrg)))]
pub(crate) async fn org_create(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Keyed { body: wanted, key }: Keyed<OrgRequest>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let name = name("name", &wanted.name)?;
    let (context, now) = (change.context_with_key(key), change.now());
    let (org, owner) = change.app().create_org(&name, &context, now).await?;
    let answer = NewOrg { org: view(&org), owner: new_token(&change, &owner) };
    change.created(owner.text.is_some(), &answer)
}

/// Shows an org: any to an operator, otherwise only the caller's own.
#[utoipa::path(get, path = "/v1/orgs/{org}", operation_id = "org_get", tag = "orgs",
    params(("org" = OrgKey, Path, description = "name or id")),
    responses((status = 200, body = Org)))]
pub(crate) async fn org_get(
    State(state): State<AppState>,
    Scope(caller): Scope,
    Path(wanted): Path<String>,
) -> Answer<Json<Org>> {
    caller.must(Permission::Read)?;
    Ok(Json(view(&visible(&state, &caller, &wanted).await?)))
}

/// Deletes an org: each of its projects, with every service in them. For operators.
///
/// Nothing new is accepted in it from then on. Its tokens keep their access to what is left, its
/// events and its receipts, which stay for ever.
#[utoipa::path(delete, path = "/v1/orgs/{org}", operation_id = "org_delete", tag = "orgs",
    params(("org" = OrgKey, Path, description = "name or id"), DryRun),
    responses((status = 200, description = "already being deleted, or a preview", body = OrPreview<Org>),
              (status = 202, description = "accepted", body = Org)))]
pub(crate) async fn org_delete(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(wanted): Path<String>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let org = tenant(&change.state, &wanted).await?.ok_or_else(|| Failure::not_found("org"))?;
    let (context, now) = (change.context(), change.now());
    let accepted = change.app().delete_org(org, &context, now).await?;
    change.accepted(accepted.changed, &view(&accepted.row))
}

/// The org with this name or id: any for an operator, otherwise only the caller's own.
pub(crate) async fn visible(state: &AppState, caller: &Caller, wanted: &str) -> Answer<model::Org> {
    let found = match caller.principal.org {
        Some(own) => state
            .app
            .get_org(own)
            .await?
            .filter(|org| org.name == wanted || org.id.to_string() == wanted),
        None => match tenant(state, wanted).await? {
            Some(id) => state.app.get_org(id).await?,
            None => None,
        },
    };
    found.ok_or_else(|| Failure::not_found("org"))
}

/// The org that an operator names. The platform's own org is not a tenant.
async fn tenant(state: &AppState, wanted: &str) -> Answer<Option<OrgId>> {
    Ok(state.app.find_org(wanted).await?.filter(|id| *id != PLATFORM))
}

fn view(org: &model::Org) -> Org {
    Org {
        id: org.id.to_string(),
        name: org.name.clone(),
        created_at: org.created_at,
        deleting_at: org.deleting_at,
    }
}
