//! Projects.

use crate::{drift, service};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use trueup_api::Code;
use trueup_api::preview::OrPreview;
use trueup_api::project::{Project, ProjectList, ProjectManifest};
use trueup_api::schema::ProjectKey;
use trueup_api::service::ForceDeleteBody;
use trueup_model::name::Name;
use trueup_model::principal::Permission;
use trueup_rules::admit::FieldError;
use trueup_rules::status::{freshness, reconciliation};
use trueup_store::ProjectRow;
use trueup_store::door::ProjectForce;

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, WriteRequest};

/// What any operation on a project may answer, beyond what its shape says.
const PROBLEMS: [Code; 2] = [Code::InvalidManifest, Code::NameTaken];

/// Lists the projects of the org.
#[utoipa::path(get, path = "/v1/projects", operation_id = "project_list", tag = "projects",
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, body = ProjectList)))]
pub(crate) async fn project_list(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<ProjectList>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let rows = app.list_projects(caller.org).await?;
    let now = state.clock.now();
    Ok(Json(ProjectList { items: rows.iter().map(|row| view(row, now)).collect() }))
}

/// Shows a project.
#[utoipa::path(get, path = "/v1/projects/{project}", operation_id = "project_get", tag = "projects",
    params(("project" = ProjectKey, Path, description = "name or id")),
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, body = Project)))]
pub(crate) async fn project_get(
    State(state): State<AppState>,
    caller: Caller,
    Path(project): Path<String>,
) -> Answer<Json<Project>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let row = app.find_project(caller.org, &project).await?;
    let row = row.ok_or_else(|| Failure::not_found("project"))?;
    Ok(Json(view(&row, state.clock.now())))
}

/// Declares a project.
#[utoipa::path(put, path = "/v1/projects/{project}", operation_id = "project_put", tag = "projects",
    params(("project" = Name, Path, description = "name"), DryRun),
    request_body = ProjectManifest,
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Project>),
              (status = 202, description = "accepted", body = Project)))]
pub(crate) async fn project_put(
    change: WriteRequest,
    Path(project): Path<String>,
    Body(manifest): Body<ProjectManifest>,
) -> Answer<Response> {
    let change = change.within(Permission::ManageProjects)?;
    matches_path("name", manifest.name.as_deref(), &project)?;
    matches_path("kind", manifest.kind.as_deref(), "Project")?;
    let name = name("name", &project)?;
    let drift = drift::policy(manifest.drift.as_ref())?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let accepted = change.app().accept_project(org, &name, &drift, &context, now).await?;
    change.accepted(accepted.changed, &view(&accepted.row, now))
}

/// Deletes a project: its services first, until their absence is verified, then its namespace.
///
/// Foreign objects in the namespace block the deletion; the status names them.
#[utoipa::path(delete, path = "/v1/projects/{project}", operation_id = "project_delete",
    tag = "projects", params(("project" = ProjectKey, Path, description = "name or id"), DryRun),
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, description = "already being deleted, or a preview", body = OrPreview<Project>),
              (status = 202, description = "accepted", body = Project)))]
pub(crate) async fn project_delete(
    change: WriteRequest,
    Path(project): Path<String>,
) -> Answer<Response> {
    let change = change.within(Permission::ManageProjects)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let accepted = change.app().delete_project(org, &project, &context, now).await?;
    change.accepted(accepted.changed, &view(&accepted.row, now))
}

/// Force-completes the stuck deletion of a project: frees its name without proof of absence.
///
/// The receipt says what was not proved, who forced it and why. Objects left in the cluster are not
/// deleted. Each of its services must be deleted or force-deleted first.
#[utoipa::path(post, path = "/v1/projects/{project}/force-delete",
    operation_id = "project_force_delete", tag = "projects",
    params(("project" = ProjectKey, Path, description = "name or id"), DryRun),
    request_body = ForceDeleteBody,
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, description = "already deleted, or a preview", body = OrPreview<Project>),
              (status = 202, description = "accepted", body = Project)))]
pub(crate) async fn project_force_delete(
    change: WriteRequest,
    Path(project): Path<String>,
    Keyed { body: ForceDeleteBody { reason, generation }, key }: Keyed<ForceDeleteBody>,
) -> Answer<Response> {
    // As for a service: afterwards absence is not proved.
    let change = change.within(Permission::ManageProjects)?;
    let change = change.within(Permission::ManageServices)?;
    let (org, context, now) = (change.org(), change.context_with_key(key), change.now());
    let wanted = ProjectForce { project: &project, reason: &reason, generation };
    let accepted = change.app().force_project(org, &wanted, &context, now).await?;
    change.accepted(accepted.changed, &view(&accepted.row, now))
}

/// Checks that a field of a manifest, if present, agrees with the path.
pub(crate) fn matches_path(field: &str, said: Option<&str>, path: &str) -> Answer<()> {
    match said {
        Some(said) if said != path => Err(Failure::at(
            Code::BadRequest,
            format!("`{field}` is `{said}` in the manifest, but `{path}` in the path"),
            field.to_owned(),
            format!("must be `{path}`, as in the path, or omitted"),
        )),
        Some(_) | None => Ok(()),
    }
}

/// Parses a name.
pub(crate) fn name(field: &str, text: &str) -> Answer<Name> {
    text.parse().map_err(|error: trueup_model::name::NameError| {
        Failure::invalid(vec![FieldError { field: field.to_owned(), message: error.to_string() }])
    })
}

/// A project as it is shown. Stale evidence becomes Unknown here, at the time of the read.
pub(crate) fn view(row: &ProjectRow, now: Timestamp) -> Project {
    let silent = row.watches.silent(&freshness::PROJECT, now);
    let settled = reconciliation(&row.status, row.project.generation, !silent.is_empty());
    Project {
        id: row.project.id.to_string(),
        name: row.project.name.to_string(),
        cluster: row.cluster_name.clone(),
        namespace: row.project.namespace.clone(),
        desired: row.desired,
        generation: row.project.generation,
        drift: row.project.drift.clone(),
        reconciliation: settled,
        status: service::status(row.status.clone(), &row.watches, &freshness::PROJECT, now),
        receipt: row.receipt.clone(),
    }
}
