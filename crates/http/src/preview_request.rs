//! Preview requests: exact previews of a declaration, computed by the executor of its cluster.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use trueup_api::Code;
use trueup_api::preview::{OrPreview, PreviewField};
use trueup_api::preview_request::{ExactObject, ExactPreview, PreviewRequest};
use trueup_api::schema::{ProjectKey, ServiceKey};
use trueup_api::service::ServiceManifest;
use trueup_model::id::PreviewRequestId;
use trueup_model::preview_request as model;
use trueup_model::principal::Permission;
use trueup_store::door::ServiceRequest;

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::service::declared;
use crate::write::answer::if_generation;
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, Target, WriteRequest};

/// Requests an exact preview of declaring a service.
///
/// The executor of its cluster sends every write as a dry run; the service does not change.
#[utoipa::path(post, path = "/v1/projects/{project}/services/{service}/preview-requests",
    operation_id = "preview_request_create", tag = "services",
    params(Target, DryRun), request_body = ServiceManifest,
    extensions(("x-problems" = json!([Code::PreviewVoid, Code::PreviewNotReady, Code::KeyUnavailable]))),
    responses((status = 200, description = "a retry with the same key, or a preview", body = OrPreview<PreviewRequest>),
              (status = 202, description = "accepted", body = PreviewRequest)))]
pub(crate) async fn preview_request_create(
    change: WriteRequest,
    Path(target): Path<Target>,
    Keyed { body: manifest, key }: Keyed<ServiceManifest>,
) -> Answer<Response> {
    let change = change.within(Permission::ManageServices)?;
    // The preview shows live objects, variables included.
    let change = change.within(Permission::ReadContent)?;
    let (service, request) = declared(&target, manifest)?;
    let wanted = ServiceRequest::declare(&target.project, &service, &request)
        .if_generation(if_generation(&change.headers)?);
    let (org, context, now) = (change.org(), change.context_with_key(key), change.now());
    let requested = change.app().request_preview(org, &wanted, &context, now).await?;
    let (shown, dry) = (shown(&requested.row), change.is_dry());
    let mut response = change.accepted(requested.changed, &shown)?;
    let PreviewRequest { project, service, id, .. } = shown;
    let place = format!("/v1/projects/{project}/services/{service}/preview-requests/{id}");
    if let Ok(place) = HeaderValue::from_str(&place)
        && !dry
    {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Shows a preview request: the preview, once it is filled, and whether it is still valid.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/preview-requests/{preview_request}",
    operation_id = "preview_request_get", tag = "services",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id"),
           ("preview_request" = PreviewRequestId, Path, description = "id (`pvr_…`)")),
    responses((status = 200, body = PreviewRequest)))]
pub(crate) async fn preview_request_get(
    State(state): State<AppState>,
    caller: Caller,
    Path((project, service, of)): Path<(String, String, String)>,
) -> Answer<Json<PreviewRequest>> {
    let app = caller.within(&state.app, Permission::ManageServices)?;
    let app = caller.within(&app, Permission::ReadContent)?;
    let found = app.find_preview_request(caller.org, &project, &service, &of, state.clock.now());
    let found = found.await?.ok_or_else(|| Failure::not_found("preview request"))?;
    Ok(Json(shown(&found)))
}

/// Parses the id of a preview request.
pub(crate) fn id(text: &str) -> Answer<PreviewRequestId> {
    let detail = "a preview request must be named by its id (pvr_…)";
    let wrong = |_| Failure::new(Code::BadRequest, detail);
    text.parse().map_err(wrong)
}

fn shown(request: &model::PreviewRequest) -> PreviewRequest {
    PreviewRequest {
        id: request.id.to_string(),
        project: request.project_name.clone(),
        service: request.service_name.to_string(),
        generation: request.generation,
        state: request.state,
        why: request.why.clone(),
        preview: request.preview.as_ref().map(exact),
        hash: request.hash.clone(),
        requested_by: request.requested_by.clone(),
        created_at: request.created_at,
        checked_at: request.checked_at,
        expires_at: request.expires_at,
    }
}

fn exact(preview: &model::ExactPreview) -> ExactPreview {
    ExactPreview {
        objects: preview.objects.iter().map(object).collect(),
        stops: preview.stops.clone(),
    }
}

fn object(object: &model::ExactObject) -> ExactObject {
    let field = |field: &model::ExactField| PreviewField {
        path: field.path.clone(),
        before: field.before.clone(),
        after: field.after.clone(),
    };
    ExactObject {
        kind: object.key.kind,
        namespace: object.key.namespace.clone(),
        name: object.key.name.clone(),
        verb: object.verb,
        fields: object.fields.iter().map(field).collect(),
        refused: object.refused.clone(),
    }
}
