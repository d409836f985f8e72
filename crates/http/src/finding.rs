//! Findings: objects in a cluster with Trueup's label and without a record. For operators.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use trueup_api::Code;
use trueup_api::finding::{Finding, FindingList, FindingRemoveBody};
use trueup_api::preview::OrPreview;
use trueup_api::schema::PageLimit;
use trueup_model::finding as model;
use trueup_model::id::FindingId;
use trueup_model::money::Money;
use trueup_model::principal::Permission;

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::Scope;
use crate::front::cursor;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::plan::money;
use crate::write::request::{DryRun, PlatformWriteRequest};

/// Which findings to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// With `true` closed findings are listed, too.
    #[serde(default)]
    closed: bool,
    /// The `next` of the previous page.
    #[param(value_type = Option<FindingId>)]
    after: Option<String>,
    /// The page size, up to 1000; the default is 100.
    #[param(value_type = Option<PageLimit>)]
    limit: Option<i64>,
}

/// Lists findings: labelled objects in clusters that Trueup has no record of. For operators.
#[utoipa::path(get, path = "/v1/findings", operation_id = "finding_list", tag = "findings",
    params(Wanted),
    responses((status = 200, body = FindingList)))]
pub(crate) async fn finding_list(
    State(state): State<AppState>,
    Scope(caller): Scope,
    Query(wanted): Query<Wanted>,
) -> Answer<Json<FindingList>> {
    caller.must(Permission::ReadPlatform)?;
    let limit = cursor::limit(wanted.limit)?;
    let after = wanted.after.as_deref().map(id).transpose()?;
    let found = state.app.list_findings(wanted.closed, after, limit).await?;
    let full = i64::try_from(found.len()).is_ok_and(|count| count == limit);
    let next = found.last().filter(|_| full).map(|found| found.id.to_string());
    let ids: Vec<FindingId> = found.iter().map(|found| found.id).collect();
    let prices = state.app.find_finding_prices(&ids).await?;
    let items = found.iter().map(|found| finding(found, &prices)).collect();
    Ok(Json(FindingList { items, next }))
}

/// Requests the removal of a finding. For operators.
///
/// Only the object with the recorded uid is removed, and only if it carries Trueup's proof. Beyond
/// a limit per hour, each removal must be confirmed with its number.
#[utoipa::path(post, path = "/v1/findings/{finding}/remove", operation_id = "finding_remove",
    tag = "findings", params(("finding" = FindingId, Path, description = "id (`fnd_…`)"), DryRun),
    request_body = FindingRemoveBody,
    extensions(("x-problems" = json!([Code::Unconfirmed]))),
    responses((status = 200, description = "already requested or closed, or a preview", body = OrPreview<Finding>),
              (status = 202, description = "accepted", body = Finding)))]
pub(crate) async fn finding_remove(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(of): Path<String>,
    Body(body): Body<FindingRemoveBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let of = id(&of).map_err(|_| Failure::not_found("finding"))?;
    let (context, now) = (change.context(), change.now());
    let (found, changed) = change.app().remove_finding(of, body.confirm, &context, now).await?;
    let prices = change.state.app.find_finding_prices(&[of]).await?;
    change.accepted(changed, &finding(&found, &prices))
}

fn id(text: &str) -> Answer<FindingId> {
    let wrong = |_| Failure::new(Code::BadRequest, "a finding must be named by its id (fnd_…)");
    text.parse().map_err(wrong)
}

fn finding(found: &model::Finding, prices: &BTreeMap<FindingId, Money>) -> Finding {
    let (closed_at, closed_why) = found.closed.clone().unzip();
    Finding {
        id: found.id.to_string(),
        cluster: found.cluster.to_string(),
        class: found.class,
        object: found.key.to_string(),
        uid: found.uid.clone(),
        subject: found.unit.clone(),
        hourly: prices.get(&found.id).copied().map(money),
        found_at: found.found_at,
        seen_at: found.seen_at,
        closed_at,
        closed_why,
        remove_by: found.remove_by.clone(),
        kept_why: found.kept_why.clone(),
    }
}
