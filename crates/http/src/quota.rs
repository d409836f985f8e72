//! Quotas: what the org may have.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Problem;
use trueup_api::preview::OrPreview;
use trueup_api::quota::{Amounts, Quota};
use trueup_model::principal::Permission;
use trueup_model::quota;
use trueup_rules::admit::FieldError;

use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::problem::{Answer, Failure};
use crate::write::request::{DryRun, WriteRequest};
use crate::{AppState, view};

/// Shows what the org may have and what of it is taken.
#[utoipa::path(get, path = "/v1/quota", operation_id = "quota_get", tag = "quotas",
    responses((status = 200, body = Quota), (status = "4XX", body = Problem)))]
pub(crate) async fn quota_get(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<Quota>> {
    caller.must(Permission::Read)?;
    Ok(Json(view::quota(&state.app.find_quota(caller.org).await?)))
}

/// Sets the most an org may have; what it has already stays. For operators, who name the org with
/// `Trueup-Org`.
#[utoipa::path(put, path = "/v1/quota", operation_id = "quota_put", tag = "quotas",
    params(DryRun), request_body = Amounts,
    responses((status = 200, description = "it is set, or a preview", body = OrPreview<Quota>),
              (status = "4XX", body = Problem)))]
pub(crate) async fn quota_put(
    change: WriteRequest,
    Body(limit): Body<Amounts>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let limit = quota::Amounts {
        services: limit.services,
        cpu_millis: limit.cpu_millis,
        memory_mib: limit.memory_mib,
        storage_gib: limit.storage_gib,
        gpus: limit.gpus,
    };
    let negative: Vec<FieldError> = quota::Resource::ALL
        .into_iter()
        .filter(|resource| limit.get(*resource) < 0)
        .map(|resource| FieldError::at(resource.as_str(), "must not be negative"))
        .collect();
    if !negative.is_empty() {
        return Err(Failure::invalid(negative));
    }
    let (org, context, now) = (change.org(), change.context(), change.now());
    let (quota, changed) = change.app().put_quota(org, limit, &context, now).await?;
    change.done(changed, &view::quota(&quota))
}
