//! Orgs: operators create and list them; every caller may read its own.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Code;
use trueup_api::org::{NewOrg, Org, OrgList, OrgRequest};
use trueup_api::preview::OrPreview;
use trueup_api::schema::OrgKey;
use trueup_model::org as model;
use trueup_model::org::PLATFORM;
use trueup_model::principal::Permission;

use crate::AppState;
use crate::front::caller::Scope;
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
    caller.must(Permission::ManagePlatform)?;
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
    let none = || Failure::not_found("org");
    let found = match caller.principal.org {
        Some(own) => state
            .app
            .get_org(own)
            .await?
            .filter(|org| org.name == wanted || org.id.to_string() == wanted),
        None => match state.app.find_org(&wanted).await?.filter(|id| *id != PLATFORM) {
            Some(id) => state.app.get_org(id).await?,
            None => None,
        },
    };
    Ok(Json(view(&found.ok_or_else(none)?)))
}

fn view(org: &model::Org) -> Org {
    Org { id: org.id.to_string(), name: org.name.clone(), created_at: org.created_at }
}
