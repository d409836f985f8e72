//! What the caller may do, and why.

use axum::Json;
use serde::Deserialize;
use trueup_api::Code;
use trueup_api::access::{AccessDecision, AccessDecisions};
use trueup_model::principal::Permission;
use trueup_rules::access::decide;

use crate::front::caller::{Caller, Scope};
use crate::front::extract::Query;
use crate::front::problem::{Answer, Failure};

/// Which permissions to decide about.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Asked {
    /// Only this permission; all of them when omitted.
    #[param(value_type = Option<Permission>)]
    permission: Option<String>,
}

/// Shows whether the caller has each permission in the org of the request, and why.
#[utoipa::path(get, path = "/v1/can-i", operation_id = "access_check", tag = "tokens",
    params(Asked),
    responses((status = 200, body = AccessDecisions)))]
pub(crate) async fn access_check(
    Scope(caller): Scope,
    Query(Asked { permission }): Query<Asked>,
) -> Answer<Json<AccessDecisions>> {
    let asked = match permission.as_deref().map(read).transpose()? {
        Some(one) => vec![one],
        None => Permission::ALL.to_vec(),
    };
    let items = asked.into_iter().map(|permission| decision(&caller, permission)).collect();
    Ok(Json(AccessDecisions { role: caller.principal.role, items }))
}

fn read(text: &str) -> Answer<Permission> {
    text.parse().map_err(|_| {
        let known: Vec<&str> = Permission::ALL.into_iter().map(|one| one.into_str()).collect();
        let detail = format!("`permission` must be one of {}", known.join(", "));
        Failure::new(Code::BadRequest, detail)
    })
}

fn decision(caller: &Caller, permission: Permission) -> AccessDecision {
    let decision = decide(&caller.principal, permission, caller.org);
    AccessDecision { permission, allowed: decision.allowed(), reason: decision.to_string() }
}
