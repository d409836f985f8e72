//! Projects.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::preview::OrPreview;
use trueup_api::project::{Project, ProjectList, ProjectManifest};
use trueup_api::service::ForceDeleteBody;
use trueup_api::{Code, Problem};
use trueup_model::name::Name;
use trueup_model::principal::Permission;
use trueup_rules::admit::FieldError;
use trueup_store::door::ProjectForce;

use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, WriteRequest};
use crate::{AppState, view};

/// Lists the projects of the org.
#[utoipa::path(get, path = "/v1/projects", operation_id = "project_list", tag = "projects",
    responses((status = 200, body = ProjectList), (status = "4XX", body = Problem)))]
pub(crate) async fn project_list(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<ProjectList>> {
    caller.must(Permission::Read)?;
    let rows = state.app.list_projects(caller.org).await?;
    let now = state.clock.now();
    Ok(Json(ProjectList { items: rows.iter().map(|row| view::project(row, now)).collect() }))
}

/// Shows one project.
#[utoipa::path(get, path = "/v1/projects/{project}", operation_id = "project_get", tag = "projects",
    params(("project" = String, Path, description = "name or id")),
    responses((status = 200, body = Project), (status = "4XX", body = Problem)))]
pub(crate) async fn project_get(
    State(state): State<AppState>,
    caller: Caller,
    Path(project): Path<String>,
) -> Answer<Json<Project>> {
    caller.must(Permission::Read)?;
    let row = state.app.find_project(caller.org, &project).await?;
    let row = row.ok_or_else(|| Failure::not_found("project"))?;
    Ok(Json(view::project(&row, state.clock.now())))
}

/// Declares a project.
#[utoipa::path(put, path = "/v1/projects/{project}", operation_id = "project_put", tag = "projects",
    params(("project" = String, Path, description = "name"), DryRun),
    request_body = ProjectManifest,
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Project>),
              (status = 202, description = "accepted", body = Project),
              (status = "4XX", body = Problem)))]
pub(crate) async fn project_put(
    change: WriteRequest,
    Path(project): Path<String>,
    Body(manifest): Body<ProjectManifest>,
) -> Answer<Response> {
    change.must(Permission::ManageProjects)?;
    matches_path("name", manifest.name.as_deref(), &project)?;
    matches_path("kind", manifest.kind.as_deref(), "Project")?;
    let name = name("name", &project)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let accepted = change.app().accept_project(org, &name, &context, now).await?;
    change.accepted(accepted.changed, &view::project(&accepted.row, now))
}

/// Deletes a project: its services first, each until it is verified to be gone, then its namespace.
///
/// What is in the namespace and is not the project's own keeps it, and its status names that.
#[utoipa::path(delete, path = "/v1/projects/{project}", operation_id = "project_delete",
    tag = "projects", params(("project" = String, Path, description = "name or id"), DryRun),
    responses((status = 200, description = "it is being deleted already, or a preview", body = OrPreview<Project>),
              (status = 202, description = "accepted", body = Project),
              (status = "4XX", body = Problem)))]
pub(crate) async fn project_delete(
    change: WriteRequest,
    Path(project): Path<String>,
) -> Answer<Response> {
    change.must(Permission::ManageProjects)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let accepted = change.app().delete_project(org, &project, &context, now).await?;
    change.accepted(accepted.changed, &view::project(&accepted.row, now))
}

/// Ends the deletion of a project that cannot be proved: its name is free again, and the receipt says what
/// was not proved, who ended it and why. What is left in the cluster is not deleted.
///
/// Its services come first: each of them has to be gone, or ended by force.
#[utoipa::path(post, path = "/v1/projects/{project}/force-delete",
    operation_id = "project_force_delete", tag = "projects",
    params(("project" = String, Path, description = "name or id"), DryRun),
    request_body = ForceDeleteBody,
    responses((status = 200, description = "it ends so already, or a preview", body = OrPreview<Project>),
              (status = 202, description = "accepted", body = Project),
              (status = "4XX", body = Problem)))]
pub(crate) async fn project_force_delete(
    change: WriteRequest,
    Path(project): Path<String>,
    Keyed { body: ForceDeleteBody { reason, generation }, repeat }: Keyed<ForceDeleteBody>,
) -> Answer<Response> {
    // As for a service: afterwards nobody proves that nothing is left.
    change.must(Permission::ManageProjects)?;
    change.must(Permission::ManageServices)?;
    let (org, context, now) = (change.org(), change.asker_again(repeat), change.now());
    let wanted = ProjectForce { project: &project, reason: &reason, generation };
    let accepted = change.app().force_project(org, &wanted, &context, now).await?;
    change.accepted(accepted.changed, &view::project(&accepted.row, now))
}

/// What a manifest says and what the path says must be the same thing.
pub(crate) fn matches_path(field: &str, said: Option<&str>, path: &str) -> Answer<()> {
    match said {
        Some(said) if said != path => Err(Failure::at(
            Code::BadRequest,
            format!("the manifest's `{field}` is `{said}`, but the request is about `{path}`"),
            field.to_owned(),
            format!("must be `{path}`, as in the address, or left out"),
        )),
        Some(_) | None => Ok(()),
    }
}

/// A name a person chose.
pub(crate) fn name(field: &str, text: &str) -> Answer<Name> {
    text.parse().map_err(|error: trueup_model::name::NameError| {
        Failure::invalid(vec![FieldError { field: field.to_owned(), message: error.to_string() }])
    })
}
