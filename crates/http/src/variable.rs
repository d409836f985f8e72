//! Variables: list, set, take away; for a project, and for one service.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use trueup_api::Problem;
use trueup_api::variable::{Variable, VariableBody, VariableList};
use trueup_model::principal::Permission;
use trueup_model::variable::{self, VariableName};
use trueup_rules::admit::Breach;
use trueup_store::door::EntryAsk;

use crate::Door;
use crate::address::Path;
use crate::body::Body;
use crate::caller::Caller;
use crate::problem::{Answer, Failure};

/// Lists the variables that all services of a project share.
#[utoipa::path(get, path = "/v1/projects/{project}/variables", operation_id = "variable_list",
    tag = "variables", params(("project" = String, Path, description = "name or id")),
    responses((status = 200, body = VariableList), (status = "4XX", body = Problem)))]
pub(crate) async fn variable_list(
    State(door): State<Door>,
    caller: Caller,
    Path(project): Path<String>,
) -> Answer<Json<VariableList>> {
    list(&door, &caller, &project, None).await
}

/// Lists the variables of one service.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/variables",
    operation_id = "service_variable_list", tag = "variables",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id")),
    responses((status = 200, body = VariableList), (status = "4XX", body = Problem)))]
pub(crate) async fn service_variable_list(
    State(door): State<Door>,
    caller: Caller,
    Path((project, service)): Path<(String, String)>,
) -> Answer<Json<VariableList>> {
    list(&door, &caller, &project, Some(&service)).await
}

/// Sets a variable for all services of a project; each of them gets a new generation.
#[utoipa::path(put, path = "/v1/projects/{project}/variables/{variable}", operation_id = "variable_put",
    tag = "variables",
    params(("project" = String, Path, description = "name or id"),
           ("variable" = String, Path, description = "as containers call it")),
    request_body = VariableBody,
    responses((status = 200, description = "unchanged", body = Variable),
              (status = 202, description = "accepted", body = Variable),
              (status = "4XX", body = Problem)))]
pub(crate) async fn variable_put(
    State(door): State<Door>,
    caller: Caller,
    Path((project, name)): Path<(String, String)>,
    Body(body): Body<VariableBody>,
) -> Answer<Response> {
    set(&door, &caller, (&project, None, &name), &body).await
}

/// Sets a variable for one service, which gets a new generation.
#[utoipa::path(put, path = "/v1/projects/{project}/services/{service}/variables/{variable}",
    operation_id = "service_variable_put", tag = "variables",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id"),
           ("variable" = String, Path, description = "as containers call it")),
    request_body = VariableBody,
    responses((status = 200, description = "unchanged", body = Variable),
              (status = 202, description = "accepted", body = Variable),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_variable_put(
    State(door): State<Door>,
    caller: Caller,
    Path((project, service, name)): Path<(String, String, String)>,
    Body(body): Body<VariableBody>,
) -> Answer<Response> {
    set(&door, &caller, (&project, Some(&service), &name), &body).await
}

/// Takes a project's variable away.
#[utoipa::path(delete, path = "/v1/projects/{project}/variables/{variable}",
    operation_id = "variable_delete", tag = "variables",
    params(("project" = String, Path, description = "name or id"),
           ("variable" = String, Path, description = "as containers call it")),
    responses((status = 202, description = "accepted"), (status = "4XX", body = Problem)))]
pub(crate) async fn variable_delete(
    State(door): State<Door>,
    caller: Caller,
    Path((project, name)): Path<(String, String)>,
) -> Answer<StatusCode> {
    remove(&door, &caller, (&project, None, &name)).await
}

/// Takes a service's variable away.
#[utoipa::path(delete, path = "/v1/projects/{project}/services/{service}/variables/{variable}",
    operation_id = "service_variable_delete", tag = "variables",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id"),
           ("variable" = String, Path, description = "as containers call it")),
    responses((status = 202, description = "accepted"), (status = "4XX", body = Problem)))]
pub(crate) async fn service_variable_delete(
    State(door): State<Door>,
    caller: Caller,
    Path((project, service, name)): Path<(String, String, String)>,
) -> Answer<StatusCode> {
    remove(&door, &caller, (&project, Some(&service), &name)).await
}

/// A project, a service unless all are meant, and a name.
pub(crate) type Wanted<'a> = (&'a str, Option<&'a str>, &'a str);

async fn list(
    door: &Door,
    caller: &Caller,
    project: &str,
    service: Option<&str>,
) -> Answer<Json<VariableList>> {
    caller.must(Permission::Read)?;
    let rows = door.app.list_variables(caller.org, project, service).await?;
    let rows = rows.ok_or_else(|| no_such(service))?;
    Ok(Json(VariableList { items: rows.into_iter().map(shown).collect() }))
}

async fn set(
    door: &Door,
    caller: &Caller,
    (project, service, name): Wanted<'_>,
    body: &VariableBody,
) -> Answer<Response> {
    caller.must(Permission::ManageSecrets)?;
    let name = variable_name(name)?;
    let wanted = EntryAsk { project, service, name: &name };
    let (asker, now) = (caller.asker(), door.clock.now());
    let set = door.app.set_variable(caller.org, &wanted, &body.value, &asker, now).await?;
    if set.changed {
        recorded(door);
    }
    let status = if set.changed { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(shown(set.row))).into_response())
}

async fn remove(
    door: &Door,
    caller: &Caller,
    (project, service, name): Wanted<'_>,
) -> Answer<StatusCode> {
    caller.must(Permission::ManageSecrets)?;
    let name = variable_name(name)?;
    let wanted = EntryAsk { project, service, name: &name };
    door.app.delete_variable(caller.org, &wanted, &caller.asker(), door.clock.now()).await?;
    recorded(door);
    Ok(StatusCode::ACCEPTED)
}

pub(crate) fn no_such(service: Option<&str>) -> Failure {
    Failure::not_found(if service.is_some() { "service" } else { "project" })
}

pub(crate) fn variable_name(text: &str) -> Answer<VariableName> {
    text.parse().map_err(|error: variable::VariableNameError| {
        Failure::invalid(vec![Breach { field: "name".to_owned(), message: error.to_string() }])
    })
}

/// A change is durable: wake the loops.
pub(crate) fn recorded(door: &Door) {
    door.signals.wake();
    door.signals.event();
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
