//! Variables of a project and of a service: list, set, delete; one or several at once.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Code;
use trueup_api::preview::{OrPreview, Preview};
use trueup_api::schema::{EntryKey, ProjectKey, ServiceKey};
use trueup_api::variable::{Variable, VariableBody, VariableList, VariablePatchBody};
use trueup_model::principal::Permission;
use trueup_model::variable::{self, VariableName, VariableNameError};
use trueup_rules::admit::FieldError;
use trueup_store::IdempotencyKey;
use trueup_store::door::{EntryKind, VariablePatch};

use crate::AppState;
use crate::entry::{self, Entry, Wanted, no_such};
use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::write::idempotency::Keyed;
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

/// Sets and deletes variables of a project, all or none; each service gets at most one new generation.
///
/// A name that is refused refuses the whole request. The response is the list after the change.
#[utoipa::path(patch, path = "/v1/projects/{project}/variables", operation_id = "variable_patch",
    tag = "variables",
    params(("project" = ProjectKey, Path, description = "name or id"), DryRun),
    request_body = VariablePatchBody,
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<VariableList>),
              (status = 202, description = "accepted", body = VariableList)))]
pub(crate) async fn variable_patch(
    change: WriteRequest,
    Path(project): Path<String>,
    Keyed { body, key }: Keyed<VariablePatchBody>,
) -> Answer<Response> {
    patch(change, &project, None, body, key).await
}

/// Sets and deletes variables of one service, all or none; it gets one new generation.
///
/// A name that is refused refuses the whole request. The response is the list after the change.
#[utoipa::path(patch, path = "/v1/projects/{project}/services/{service}/variables",
    operation_id = "service_variable_patch", tag = "variables",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id"), DryRun),
    request_body = VariablePatchBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<VariableList>),
              (status = 202, description = "accepted", body = VariableList)))]
pub(crate) async fn service_variable_patch(
    change: WriteRequest,
    Path((project, service)): Path<(String, String)>,
    Keyed { body, key }: Keyed<VariablePatchBody>,
) -> Answer<Response> {
    patch(change, &project, Some(&service), body, key).await
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
    let app = caller.within(&state.app, Permission::ReadContent)?;
    let rows = app.list_variables(caller.org, project, service).await?;
    let rows = rows.ok_or_else(|| no_such(service))?;
    Ok(Json(all_shown(rows)))
}

async fn patch(
    change: WriteRequest,
    project: &str,
    service: Option<&str>,
    body: VariablePatchBody,
    key: Option<IdempotencyKey>,
) -> Answer<Response> {
    let change = change.within(Permission::ManageSecrets)?;
    let (set, delete) = read_patch(body)?;
    let wanted = VariablePatch { project, service, set: &set, delete: &delete };
    let (org, context, now) = (change.org(), change.context_with_key(key), change.now());
    let patched = change.app().patch_variables(org, &wanted, &context, now).await?;
    change.accepted(patched.changed, &all_shown(patched.row))
}

/// Parses the names. A refused name is not repeated: it may be a value in the wrong place.
fn read_patch(
    body: VariablePatchBody,
) -> Answer<(BTreeMap<VariableName, String>, Vec<VariableName>)> {
    let invalid =
        |field: String, message: String| Failure::invalid(vec![FieldError { field, message }]);
    let mut set = BTreeMap::new();
    for (name, value) in body.set {
        let name: VariableName = name.parse().map_err(|error: VariableNameError| {
            invalid("set".to_owned(), format!("each name {error}"))
        })?;
        set.insert(name, value);
    }
    let mut delete = Vec::new();
    for (index, name) in body.delete.iter().enumerate() {
        let name: VariableName = name.parse().map_err(|error: VariableNameError| {
            invalid(format!("delete[{index}]"), error.to_string())
        })?;
        delete.push(name);
    }
    Ok((set, delete))
}

async fn set(change: WriteRequest, of: Entry, body: VariableBody) -> Answer<Response> {
    let change = change.within(Permission::ManageSecrets)?;
    let wanted = Wanted::read(&change, of)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let set = change.app().set_variable(org, &wanted.request(), &body.value, &context, now).await?;
    entry::set(change, set.changed, set.row.version, &shown(set.row))
}

fn all_shown(variables: Vec<variable::Variable>) -> VariableList {
    VariableList { items: variables.into_iter().map(shown).collect() }
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
