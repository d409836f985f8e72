//! Drift: policies in manifests, divergences, and what they cost.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use trueup_api::Code;
use trueup_api::drift::{
    self as api, Difference, DivergenceAdoptBody, DivergenceList, DriftManifest, DriftReport,
};
use trueup_api::preview::OrPreview;
use trueup_api::schema::{PageLimit, ProjectKey, ServiceKey};
use trueup_api::service::NoBody;
use trueup_model::drift::{Divergence, DivergenceState, DriftPolicy};
use trueup_model::id::{DivergenceId, ServiceId};
use trueup_model::key::Kind;
use trueup_model::money::Money;
use trueup_model::principal::Permission;
use trueup_rules::drift::admit::{PolicyWords, RuleWords, read};
use trueup_store::{App, DivergenceFilter, DivergenceRow, DriftSum};

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::cursor;
use crate::front::extract::{Path, Query, id};
use crate::front::problem::{Answer, Failure};
use crate::plan::money;
use crate::write::answer::if_generation;
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, WriteRequest};

/// How far back a report goes by default.
const REPORTED: SignedDuration = SignedDuration::from_hours(7 * 24);
const SECONDS_PER_HOUR: i128 = 3600;

/// Which divergences to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only divergences of this project and its services, by name or id.
    #[param(value_type = Option<ProjectKey>)]
    project: Option<String>,
    /// Only divergences of this service, by id; with `project` also by name.
    #[param(value_type = Option<ServiceKey>)]
    service: Option<String>,
    /// Only divergences in this state, ended or not.
    state: Option<DivergenceState>,
    /// With `true` ended divergences are listed, too.
    #[serde(default)]
    ended: bool,
    /// The `next` of the previous page.
    #[param(value_type = Option<DivergenceId>)]
    after: Option<String>,
    /// The page size, up to 1000; the default is 100.
    #[param(value_type = Option<PageLimit>)]
    limit: Option<i64>,
}

/// Lists divergences: where the cluster differs from its desired state, since when and at what cost.
#[utoipa::path(get, path = "/v1/drift", operation_id = "divergence_list", tag = "drift",
    params(Filter),
    responses((status = 200, body = DivergenceList)))]
pub(crate) async fn divergence_list(
    State(state): State<AppState>,
    caller: Caller,
    Query(wanted): Query<Filter>,
) -> Answer<Json<DivergenceList>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let limit = cursor::limit(wanted.limit)?;
    let after = wanted.after.as_deref().map(cursor::id).transpose()?;
    let filter = filter(&app, &caller, &wanted).await?;
    let found = app.list_divergences(caller.org, &filter, after, limit).await?;
    let full = usize::try_from(limit).is_ok_and(|limit| found.len() == limit);
    let next = found.last().filter(|_| full).map(|last| last.record.id.to_string());
    let now = state.clock.now();
    let content = caller.reads_content();
    Ok(Json(DivergenceList {
        items: found.iter().map(|row| view(row, now, content)).collect(),
        next,
    }))
}

/// Checks the filter: unknown projects and services are errors, not empty results.
async fn filter(app: &App, caller: &Caller, wanted: &Filter) -> Answer<DivergenceFilter> {
    let mut filter = DivergenceFilter {
        state: wanted.state,
        ended: wanted.ended,
        ..DivergenceFilter::default()
    };
    match (&wanted.project, &wanted.service) {
        (None, None) => {}
        (Some(project), None) => {
            let row = app.find_project(caller.org, project).await?;
            filter.project = Some(row.ok_or_else(|| Failure::not_found("project"))?.project.id);
        }
        (Some(project), Some(service)) => {
            let found = app.find_service(caller.org, project, service).await?;
            let found = found.ok_or_else(|| Failure::not_found("service"))?;
            filter.service = Some(found.row.service.id);
        }
        (None, Some(service)) => {
            let named = service.parse::<ServiceId>().map_err(|_| {
                let detail = "`service` must be an id (svc_…), or `project` must be given, too";
                Failure::new(Code::BadRequest, detail)
            })?;
            filter.service = Some(named);
        }
    }
    Ok(filter)
}

/// Shows a divergence.
#[utoipa::path(get, path = "/v1/drift/{divergence}", operation_id = "divergence_get", tag = "drift",
    params(("divergence" = DivergenceId, Path, description = "id (`dvg_…`)")),
    responses((status = 200, body = api::Divergence)))]
pub(crate) async fn divergence_get(
    State(state): State<AppState>,
    caller: Caller,
    Path(divergence): Path<String>,
) -> Answer<Json<api::Divergence>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let found = app.find_divergence(caller.org, id(&divergence)).await?;
    let found = found.ok_or_else(|| Failure::not_found("divergence"))?;
    Ok(Json(view(&found, state.clock.now(), caller.reads_content())))
}

/// Adopts the live value of a divergence: it becomes the desired one, as a new generation.
///
/// The field must be set by a mutable parameter of the service's template, and the value must be
/// within its bounds. `If-Match` names the generation of the service. A rollback undoes it. For owners.
#[utoipa::path(post, path = "/v1/drift/{divergence}/adopt", operation_id = "divergence_adopt",
    tag = "drift", params(("divergence" = DivergenceId, Path, description = "id (`dvg_…`)"), DryRun),
    request_body = DivergenceAdoptBody,
    extensions(("x-problems" = json!([Code::AlreadyDecided]))),
    responses((status = 200, description = "a retry with the same key, or a preview", body = OrPreview<api::Divergence>),
              (status = 202, description = "accepted", body = api::Divergence)))]
pub(crate) async fn divergence_adopt(
    change: WriteRequest,
    Path(divergence): Path<String>,
    Keyed { body: DivergenceAdoptBody { live }, key }: Keyed<DivergenceAdoptBody>,
) -> Answer<Response> {
    let change = may_decide(change)?;
    let if_generation = if_generation(&change.headers)?;
    let (org, context, now) = (change.org(), change.context_with_key(key), change.now());
    let (divergence, live) = (id(&divergence), live.as_ref());
    let adopting =
        change.app().adopt_divergence(org, divergence, if_generation, live, &context, now);
    let adopted = adopting.await?;
    let content = change.caller().reads_content();
    change.accepted(adopted.changed, &view(&adopted.row, now, content))
}

/// Rejects the proposal to adopt a value: it is reverted. For owners.
#[utoipa::path(post, path = "/v1/drift/{divergence}/reject", operation_id = "divergence_reject",
    tag = "drift", params(("divergence" = DivergenceId, Path, description = "id (`dvg_…`)"), DryRun),
    request_body = NoBody,
    extensions(("x-problems" = json!([Code::AlreadyDecided]))),
    responses((status = 200, description = "a retry with the same key, or a preview", body = OrPreview<api::Divergence>),
              (status = 202, description = "accepted", body = api::Divergence)))]
pub(crate) async fn divergence_reject(
    change: WriteRequest,
    Path(divergence): Path<String>,
    Keyed { body: NoBody {}, key }: Keyed<NoBody>,
) -> Answer<Response> {
    let change = may_decide(change)?;
    let (org, context, now) = (change.org(), change.context_with_key(key), change.now());
    let rejected = change.app().reject_divergence(org, id(&divergence), &context, now).await?;
    let content = change.caller().reads_content();
    change.accepted(rejected.changed, &view(&rejected.row, now, content))
}

/// Checks that the caller is an owner: a decision about drift approves what another writer did.
pub(crate) fn may_decide(change: WriteRequest) -> Answer<WriteRequest> {
    change.within(Permission::ManageProjects)?.within(Permission::ManageServices)
}

/// How far back a report goes.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Reported {
    /// The begin of the report; the default is a week ago.
    since: Option<Timestamp>,
}

/// Sums up what drift cost, by project, class and field manager.
#[utoipa::path(get, path = "/v1/drift/report", operation_id = "drift_report", tag = "drift",
    params(Reported),
    responses((status = 200, body = DriftReport)))]
pub(crate) async fn drift_report(
    State(state): State<AppState>,
    caller: Caller,
    Query(Reported { since }): Query<Reported>,
) -> Answer<Json<DriftReport>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let now = state.clock.now();
    let since = since.or_else(|| now.checked_sub(REPORTED).ok()).unwrap_or_default();
    // Postgres does not store every time that can be written.
    let since = since.max(Timestamp::UNIX_EPOCH).min(now);
    let sums = app.sum_drift(caller.org, since, now).await?;
    Ok(Json(DriftReport { since, until: now, items: sums.into_iter().map(sum).collect() }))
}

fn sum(sum: DriftSum) -> api::DriftSum {
    api::DriftSum {
        project: sum.project_name,
        class: sum.class,
        by: sum.manager,
        count: sum.count,
        seconds: sum.seconds,
        cost: sum.cost.map(money),
    }
}

/// A divergence as it is shown.
fn view(row: &DivergenceRow, now: Timestamp, content: bool) -> api::Divergence {
    let record = &row.record;
    let stood = row.gone_at.unwrap_or(now).duration_since(record.first_seen_at);
    api::Divergence {
        id: record.id.to_string(),
        subject: record.unit.to_string(),
        project: row.project_name.clone(),
        service: row.service_name.clone(),
        difference: difference(&record.divergence, content),
        first_seen_at: record.first_seen_at,
        last_seen_at: record.last_seen_at,
        ended_at: record.ended_at,
        expires_at: record.expires_at,
        decided_by: record.decided_by.clone(),
        why: row.why.clone(),
        hourly: record.hourly.map(money),
        cost_so_far: record.hourly.map(|hourly| money(cost(hourly, stood))),
    }
}

/// What an hourly price amounts to over a time.
fn cost(hourly: Money, stood: SignedDuration) -> Money {
    let micros = i128::from(hourly.micros) * i128::from(stood.as_secs().max(0)) / SECONDS_PER_HOUR;
    Money { micros: i64::try_from(micros).unwrap_or(i64::MAX), ..hourly }
}

/// A difference as it is shown; without `content` not with the values of variables.
pub(crate) fn difference(divergence: &Divergence, content: bool) -> Difference {
    let is_shown = content || !has_content(divergence);
    let value = |value: &Value| if is_shown { value.clone() } else { Value::Null };
    Difference {
        object: divergence.key.to_string(),
        field: divergence.field.clone(),
        class: divergence.class,
        wanted: value(&divergence.wanted),
        live: value(&divergence.live),
        by: divergence.by.clone(),
        verdict: divergence.verdict,
        state: divergence.state,
    }
}

/// Whether a divergence is about what a service contains: a variable or a secret.
pub(crate) fn has_content(divergence: &Divergence) -> bool {
    matches!(divergence.key.kind, Kind::ConfigMap | Kind::Secret)
}

/// The drift policy of a manifest; an empty one if it has none.
pub(crate) fn policy(manifest: Option<&DriftManifest>) -> Answer<DriftPolicy> {
    let Some(manifest) = manifest else { return Ok(DriftPolicy::default()) };
    let rules = manifest.rules.iter().map(|rule| RuleWords {
        kind: rule.kind.as_deref(),
        path: rule.path.as_deref(),
        verdict: &rule.verdict,
    });
    let words = PolicyWords {
        verdict: manifest.verdict.as_deref(),
        adopt: manifest.adopt.as_deref(),
        rules: rules.collect(),
    };
    read(&words, "drift").map_err(Failure::invalid)
}
