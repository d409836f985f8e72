//! Variables of a project and of a service: list, set, delete.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Code;
use trueup_api::preview::{OrPreview, Preview};
use trueup_api::schema::{EntryKey, ProjectKey, ServiceKey};
use trueup_api::variable::{Variable, VariableBody, VariableList};
use trueup_model::principal::Permission;
use trueup_model::variable;
use trueup_store::door::EntryKind;

use crate::AppState;
use crate::entry::{self, Entry, Wanted, no_such};
use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::Answer;
use crate::write::request::{DryRun, WriteRequest};

/// Lists the variables that all services of a project share.
#[utoipa::path(get, path = "/v1/projects/{project}/variables", operation_id = "variable_list",
    tag = "variables", params(("project" = ProjectKey, Path, description = "name or id")),
    extensions(("x-problems" = json!([Code::InvalidManifest]))),
    responses((status = 200, body = VariableList)))]
pub(crate) async fn variable_list(
    State(state): State<AppState>,
    caller: Caller,
    Path(project): Path<String>,
) -> Answer<Json<VariableList>> {
    list(&state, &caller, &project, None).await
}

/// Lists the variables of one service.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/variables",
    operation_id = "service_variable_list", tag = "variables",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id")),
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, body = VariableList)))]
pub(crate) async fn service_variable_list(
    State(state): State<AppState>,
    caller: Caller,
    Path((project, service)): Path<(String, String)>,
) -> Answer<Json<VariableList>> {
    list(&state, &caller, &project, Some(&service)).await
}

/// Sets a variable for all services of a project; each of them gets a new generation.
#[utoipa::path(put, path = "/v1/projects/{project}/variables/{variable}", operation_id = "variable_put",
    tag = "variables",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("variable" = EntryKey, Path, description = "name of the environment variable"), DryRun),
    request_body = VariableBody,
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Variable>),
              (status = 202, description = "accepted", body = Variable)))]
pub(crate) async fn variable_put(
    change: WriteRequest,
    Path(of): Path<Entry>,
    Body(body): Body<VariableBody>,
) -> Answer<Response> {
    set(change, of, body).await
}

/// Sets a variable for one service, which gets a new generation.
#[utoipa::path(put, path = "/v1/projects/{project}/services/{service}/variables/{variable}",
    operation_id = "service_variable_put", tag = "variables",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id"),
           ("variable" = EntryKey, Path, description = "name of the environment variable"), DryRun),
    request_body = VariableBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Variable>),
              (status = 202, description = "accepted", body = Variable)))]
pub(crate) async fn service_variable_put(
    change: WriteRequest,
    Path(of): Path<Entry>,
    Body(body): Body<VariableBody>,
) -> Answer<Response> {
    set(change, of, body).await
}

/// Deletes a variable of a project.
#[utoipa::path(delete, path = "/v1/projects/{project}/variables/{variable}",
    operation_id = "variable_delete", tag = "variables",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("variable" = EntryKey, Path, description = "name of the environment variable"), DryRun),
    responses((status = 200, description = "a preview", body = Preview),
              (status = 202, description = "accepted")))]
pub(crate) async fn variable_delete(
    change: WriteRequest,
    Path(of): Path<Entry>,
) -> Answer<Response> {
    entry::remove(change, EntryKind::Variable, of).await
}

/// Deletes a variable of a service.
#[utoipa::path(delete, path = "/v1/projects/{project}/services/{service}/variables/{variable}",
    operation_id = "service_variable_delete", tag = "variables",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id"),
           ("variable" = EntryKey, Path, description = "name of the environment variable"), DryRun),
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "a preview", body = Preview),
              (status = 202, description = "accepted")))]
pub(crate) async fn service_variable_delete(
    change: WriteRequest,
    Path(of): Path<Entry>,
) -> Answer<Response> {
    entry::remove(change, EntryKind::Variable, of).await
}

async fn list(
    state: &AppState,
    caller: &Caller,
    project: &str,
    service: Option<&str>,
) -> Answer<Json<VariableList>> {
    caller.must(Permission::Read)?;
    let rows = state.app.list_variables(caller.org, project, service).await?;
    let rows = rows.ok_or_else(|| no_such(service))?;
    Ok(Json(VariableList { items: rows.into_iter().map(shown).collect() }))
}

async fn set(change: WriteRequest, of: Entry, body: VariableBody) -> Answer<Response> {
    let wanted = Wanted::read(&change, of)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let set = change.app().set_variable(org, &wanted.request(), &body.value, &context, now).await?;
    entry::set(change, set.changed, set.row.version, &shown(set.row))
}

fn shown(variable: variable::Variable) -> Variable {
    Variable {
        name: variable.name.to_string(),
        value: variable.value,
        version: variable.version,
        updated_by: variable.set_by,
        updated_at: variable.set_at,
    }
}
