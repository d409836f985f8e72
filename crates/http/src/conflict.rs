//! Conflicts: fields that two writers fight over, until a person decides.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use jiff::SignedDuration;
use serde::Deserialize;
use trueup_api::Code;
use trueup_api::conflict::{Conflict, ConflictList, ConflictSettleBody, ConflictSettlement};
use trueup_api::preview::OrPreview;
use trueup_api::schema::{MAX_HOURS, PageLimit};
use trueup_model::drift::{ConflictDecision, Settlement};
use trueup_model::id::ConflictId;
use trueup_model::principal::Permission;
use trueup_rules::admit::FieldError;
use trueup_store::ConflictRow;

use crate::AppState;
use crate::drift::may_decide;
use crate::front::caller::Caller;
use crate::front::cursor;
use crate::front::extract::{Path, Query, id};
use crate::front::problem::{Answer, Failure};
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, WriteRequest};

/// Which conflicts to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// With `true` settled conflicts are listed, too.
    #[serde(default)]
    settled: bool,
    /// The `next` of the previous page.
    #[param(value_type = Option<ConflictId>)]
    after: Option<String>,
    /// The page size, up to 1000; the default is 100.
    #[param(value_type = Option<PageLimit>)]
    limit: Option<i64>,
}

/// Lists conflicts: fields that two writers fight over, and that are not enforced until they are settled.
#[utoipa::path(get, path = "/v1/conflicts", operation_id = "conflict_list", tag = "drift",
    params(Wanted),
    responses((status = 200, body = ConflictList)))]
pub(crate) async fn conflict_list(
    State(state): State<AppState>,
    caller: Caller,
    Query(wanted): Query<Wanted>,
) -> Answer<Json<ConflictList>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let limit = cursor::limit(wanted.limit)?;
    let after = wanted.after.as_deref().map(cursor::id).transpose()?;
    let found = app.list_conflicts(caller.org, wanted.settled, after, limit).await?;
    let full = usize::try_from(limit).is_ok_and(|limit| found.len() == limit);
    let next = found.last().filter(|_| full).map(|last| last.conflict.id.to_string());
    Ok(Json(ConflictList { items: found.iter().map(view).collect(), next }))
}

/// Settles a conflict: the desired value is enforced, the live one adopted, or the field ignored. For
/// owners.
#[utoipa::path(post, path = "/v1/conflicts/{conflict}/settle", operation_id = "conflict_settle",
    tag = "drift", params(("conflict" = ConflictId, Path, description = "id (`cft_…`)"), DryRun),
    request_body = ConflictSettleBody,
    extensions(("x-problems" = json!([Code::AlreadyDecided]))),
    responses((status = 200, description = "a retry with the same key, or a preview", body = OrPreview<Conflict>),
              (status = 202, description = "accepted", body = Conflict)))]
pub(crate) async fn conflict_settle(
    change: WriteRequest,
    Path(conflict): Path<String>,
    Keyed { body, key }: Keyed<ConflictSettleBody>,
) -> Answer<Response> {
    let change = may_decide(change)?;
    let Decided { decision, instead_of } = decision(&body)?;
    let (org, context, now) = (change.org(), change.context_with_key(key), change.now());
    let held = body.for_hours.map(|hours| SignedDuration::from_hours(hours.into()));
    let until = held.and_then(|held| now.checked_add(held).ok());
    let conflict = id(&conflict);
    let settling =
        change.app().settle_conflict(org, conflict, decision, until, instead_of, &context, now);
    let settled = settling.await?;
    change.accepted(settled.changed, &view(&settled.row))
}

/// A decision, and the one that it replaces.
struct Decided {
    decision: ConflictDecision,
    instead_of: Option<ConflictDecision>,
}

/// Checks the decision, the one that it replaces and how long it holds.
fn decision(body: &ConflictSettleBody) -> Answer<Decided> {
    let mut errors = Vec::new();
    let decision = body.decision.parse::<ConflictDecision>();
    if decision.is_err() {
        errors.push(FieldError::at("decision", "must be `ours`, `adopt` or `ignore`"));
    }
    let instead_of = body.instead_of.as_deref().map(str::parse).transpose();
    if instead_of.is_err() {
        errors.push(FieldError::at("instead_of", "must be `ours` or `ignore`"));
    }
    if body.for_hours.is_some_and(|hours| !(1..=MAX_HOURS).contains(&hours)) {
        let message = format!("must be from 1 to {MAX_HOURS}, or omitted for ever");
        errors.push(FieldError::at("for_hours", message));
    }
    match (decision, instead_of) {
        (Ok(decision), Ok(instead_of)) if errors.is_empty() => Ok(Decided { decision, instead_of }),
        _ => Err(Failure::invalid(errors)),
    }
}

/// A conflict as it is shown.
fn view(row: &ConflictRow) -> Conflict {
    let conflict = &row.conflict;
    Conflict {
        id: conflict.id.to_string(),
        subject: conflict.unit.to_string(),
        project: row.project_name.clone(),
        service: row.service_name.clone(),
        object: conflict.at.key.to_string(),
        field: conflict.at.field.clone(),
        by: conflict.by.clone(),
        raised_at: conflict.raised_at,
        settled: conflict.settled.as_ref().map(settlement),
    }
}

fn settlement(settled: &Settlement) -> ConflictSettlement {
    ConflictSettlement {
        decision: settled.decision,
        by: settled.principal.clone(),
        at: settled.at,
        until: settled.until,
    }
}
