//! Plan requests: exact previews of a service's declaration, which its cluster's executor makes.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use trueup_api::plan_request::{ExactObject, ExactPlan, PlanRequest};
use trueup_api::preview::{OrPreview, PreviewField};
use trueup_api::service::ServiceManifest;
use trueup_api::{Code, Problem};
use trueup_model::id::PlanRequestId;
use trueup_model::plan_request as model;
use trueup_model::principal::Permission;
use trueup_store::door::ServiceAsk;

use crate::address::Path;
use crate::answer::if_generation;
use crate::caller::Caller;
use crate::change::{Change, DryRun, Target};
use crate::keyed::Keyed;
use crate::problem::{Answer, Failure};
use crate::service::declared;
use crate::{Door, view};

/// Asks what declaring a service like this would really do. The executor of its cluster tries every write
/// without storing it; nothing of the service changes.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/plan-requests",
    operation_id = "plan_request_create", tag = "services",
    params(Target, DryRun), request_body = ServiceManifest,
    responses((status = 200, description = "asked before, or a preview", body = OrPreview<PlanRequest>),
              (status = 202, description = "asked", body = PlanRequest),
              (status = "4XX", body = Problem)))]
pub(crate) async fn plan_request_create(
    change: Change,
    Path(target): Path<Target>,
    Keyed { body: manifest, repeat }: Keyed<ServiceManifest>,
) -> Answer<Response> {
    change.must(Permission::ManageServices)?;
    let (service, ask) = declared(&target, manifest)?;
    let wanted = ServiceAsk::declare(&target.project, &service, &ask)
        .if_generation(if_generation(&change.headers)?);
    let (org, asker, now) = (change.org(), change.asker_again(repeat), change.now());
    let asked = change.app().request_plan(org, &wanted, &asker, now).await?;
    let (shown, dry) = (shown(&asked.row), change.is_dry());
    let mut response = change.accepted(asked.changed, &shown)?;
    let PlanRequest { project, service, id, .. } = shown;
    let place = format!("/v1/projects/{project}/services/{service}/plan-requests/{id}");
    if let Ok(place) = HeaderValue::from_str(&place)
        && !dry
    {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Shows a plan request: what would happen, once it is filled, and whether that still holds.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/plan-requests/{plan_request}",
    operation_id = "plan_request_get", tag = "services",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id"),
           ("plan_request" = String, Path, description = "its id")),
    responses((status = 200, body = PlanRequest), (status = "4XX", body = Problem)))]
pub(crate) async fn plan_request_get(
    State(door): State<Door>,
    caller: Caller,
    Path((project, service, of)): Path<(String, String, String)>,
) -> Answer<Json<PlanRequest>> {
    caller.must(Permission::ManageServices)?;
    let found = door.app.find_plan_request(caller.org, &project, &service, &of, door.clock.now());
    let found = found.await?.ok_or_else(|| Failure::not_found("plan request"))?;
    Ok(Json(shown(&found)))
}

/// Which plan request a text names.
pub(crate) fn id(text: &str) -> Answer<PlanRequestId> {
    let wrong = |_| Failure::new(Code::BadRequest, "a plan request is named by its id (plr_…)");
    text.parse().map_err(wrong)
}

fn shown(request: &model::PlanRequest) -> PlanRequest {
    PlanRequest {
        id: request.id.to_string(),
        project: request.project_name.clone(),
        service: request.service_name.to_string(),
        generation: request.generation,
        state: request.state.as_str().to_owned(),
        why: request.why.clone(),
        plan: request.plan.as_ref().map(plan),
        hash: request.hash.clone(),
        requested_by: request.requested_by.clone(),
        created_at: request.created_at,
        checked_at: request.checked_at,
        expires_at: request.expires_at,
    }
}

fn plan(plan: &model::ExactPlan) -> ExactPlan {
    ExactPlan { objects: plan.objects.iter().map(object).collect(), stops: plan.stops.clone() }
}

fn object(object: &model::ExactObject) -> ExactObject {
    let field = |field: &model::ExactField| PreviewField {
        path: field.path.clone(),
        before: field.before.clone(),
        after: field.after.clone(),
    };
    ExactObject {
        kind: object.key.kind.to_string(),
        namespace: object.key.namespace.clone(),
        name: object.key.name.clone(),
        verb: view::word(&object.verb),
        fields: object.fields.iter().map(field).collect(),
        refused: object.refused.clone(),
    }
}
