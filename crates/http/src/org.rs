//! Orgs: operators make and list them; everybody may see their own.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Problem;
use trueup_api::org::{NewOrg, Org, OrgList, OrgRequest};
use trueup_api::preview::OrPreview;
use trueup_model::org::PLATFORM;
use trueup_model::principal::Permission;

use crate::front::caller::Scope;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::project::name;
use crate::token::new_token;
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, PlatformWriteRequest};
use crate::{AppState, view};

/// Lists every org; for operators.
#[utoipa::path(get, path = "/v1/orgs", operation_id = "org_list", tag = "orgs",
    responses((status = 200, body = OrgList), (status = "4XX", body = Problem)))]
pub(crate) async fn org_list(
    State(state): State<AppState>,
    Scope(caller): Scope,
) -> Answer<Json<OrgList>> {
    caller.must(Permission::ManagePlatform)?;
    let orgs = state.app.list_orgs().await?;
    Ok(Json(OrgList { items: orgs.iter().map(view::org).collect() }))
}

/// Makes an org with a token for its first owner, shown this once; for operators.
#[utoipa::path(post, path = "/v1/orgs", operation_id = "org_create", tag = "orgs",
    params(DryRun), request_body = OrgRequest,
    responses((status = 200, description = "a repeat, whose secret was shown before; or a preview",
               body = OrPreview<NewOrg>),
              (status = 201, body = NewOrg), (status = "4XX", body = Problem)))]
pub(crate) async fn org_create(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Keyed { body: wanted, repeat }: Keyed<OrgRequest>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let name = name("name", &wanted.name)?;
    let (context, now) = (change.asker_again(repeat), change.now());
    let (org, owner) = change.app().create_org(&name, &context, now).await?;
    let answer = NewOrg { org: view::org(&org), owner: new_token(&change, &owner) };
    change.created(owner.text.is_some(), &answer)
}

/// Shows one org: any to an operator, and to everybody else their own.
#[utoipa::path(get, path = "/v1/orgs/{org}", operation_id = "org_get", tag = "orgs",
    params(("org" = String, Path, description = "name or id")),
    responses((status = 200, body = Org), (status = "4XX", body = Problem)))]
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
    Ok(Json(view::org(&found.ok_or_else(none)?)))
}
