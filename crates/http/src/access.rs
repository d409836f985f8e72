//! What the caller may do, and why.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use trueup_api::Code;
use trueup_api::access::{AccessDecision, AccessDecisions};
use trueup_api::schema::ProjectKey;
use trueup_model::ProjectId;
use trueup_model::principal::Permission;

use crate::AppState;
use crate::front::caller::{Caller, Scope};
use crate::front::extract::Query;
use crate::front::problem::{Answer, Failure};

/// What to decide about.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Asked {
    /// Only this permission; all of them when omitted.
    #[param(value_type = Option<Permission>)]
    permission: Option<String>,
    /// In this project, by name or id; in the org as a whole when omitted.
    #[param(value_type = Option<ProjectKey>)]
    project: Option<String>,
}

/// Shows whether the caller has each permission in the org or in one of its projects, and why.
#[utoipa::path(get, path = "/v1/can-i", operation_id = "access_check", tag = "tokens",
    params(Asked),
    responses((status = 200, body = AccessDecisions)))]
pub(crate) async fn access_check(
    State(state): State<AppState>,
    Scope(caller): Scope,
    Query(Asked { permission, project }): Query<Asked>,
) -> Answer<Json<AccessDecisions>> {
    let asked = match permission.as_deref().map(read).transpose()? {
        Some(one) => vec![one],
        None => Permission::ALL.to_vec(),
    };
    let project = match project {
        Some(named) => Some(find(&state, &caller, &named).await?),
        None => None,
    };
    let decision = |permission| {
        let decision = caller.decide(permission, project);
        AccessDecision { permission, allowed: decision.allowed(), reason: decision.to_string() }
    };
    let items = asked.into_iter().map(decision).collect();
    Ok(Json(AccessDecisions { role: caller.principal.role, items }))
}

/// The project that is asked about: one that the caller may read, or has a role in.
async fn find(state: &AppState, caller: &Caller, named: &str) -> Answer<ProjectId> {
    if let Some(own) = caller.own_project(named) {
        return Ok(own);
    }
    let not_found = || Failure::not_found("project");
    let app = caller.within(&state.app, Permission::Read).map_err(|_| not_found())?;
    let found = app.find_project(caller.org, named).await?;
    Ok(found.ok_or_else(not_found)?.project.id)
}

fn read(text: &str) -> Answer<Permission> {
    text.parse().map_err(|_| {
        let known: Vec<&str> = Permission::ALL.into_iter().map(|one| one.into_str()).collect();
        let detail = format!("`permission` must be one of {}", known.join(", "));
        Failure::new(Code::BadRequest, detail)
    })
}
