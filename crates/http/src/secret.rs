//! Secrets: list, set, take away; for a project, and for one service.
//!
//! No answer has a value in it, and this room could not open one: it has a sealer and no opener.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use trueup_api::Problem;
use trueup_api::secret::{Secret, SecretBody, SecretList};
use trueup_model::order::SecretValue;
use trueup_model::principal::Permission;
use trueup_model::secret;
use trueup_store::door::{EntryAsk, SecretAsk};

use crate::Door;
use crate::address::Path;
use crate::body::Body;
use crate::caller::Caller;
use crate::problem::Answer;
use crate::variable::{Wanted, no_such, recorded, variable_name};

/// Lists the secrets that all services of a project share.
#[utoipa::path(get, path = "/v1/projects/{project}/secrets", operation_id = "secret_list",
    tag = "secrets", params(("project" = String, Path, description = "name or id")),
    responses((status = 200, body = SecretList), (status = "4XX", body = Problem)))]
pub(crate) async fn secret_list(
    State(door): State<Door>,
    caller: Caller,
    Path(project): Path<String>,
) -> Answer<Json<SecretList>> {
    list(&door, &caller, &project, None).await
}

/// Lists the secrets of one service.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/secrets",
    operation_id = "service_secret_list", tag = "secrets",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id")),
    responses((status = 200, body = SecretList), (status = "4XX", body = Problem)))]
pub(crate) async fn service_secret_list(
    State(door): State<Door>,
    caller: Caller,
    Path((project, service)): Path<(String, String)>,
) -> Answer<Json<SecretList>> {
    list(&door, &caller, &project, Some(&service)).await
}

/// Sets a secret for all services of a project; each of them gets a new generation.
#[utoipa::path(put, path = "/v1/projects/{project}/secrets/{secret}", operation_id = "secret_put",
    tag = "secrets",
    params(("project" = String, Path, description = "name or id"),
           ("secret" = String, Path, description = "as containers call it")),
    request_body = SecretBody,
    responses((status = 202, description = "accepted", body = Secret),
              (status = "4XX", body = Problem)))]
pub(crate) async fn secret_put(
    State(door): State<Door>,
    caller: Caller,
    Path((project, name)): Path<(String, String)>,
    Body(body): Body<SecretBody>,
) -> Answer<Response> {
    set(&door, &caller, (&project, None, &name), body).await
}

/// Sets a secret for one service, which gets a new generation.
#[utoipa::path(put, path = "/v1/projects/{project}/services/{service}/secrets/{secret}",
    operation_id = "service_secret_put", tag = "secrets",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id"),
           ("secret" = String, Path, description = "as containers call it")),
    request_body = SecretBody,
    responses((status = 202, description = "accepted", body = Secret),
              (status = "4XX", body = Problem)))]
pub(crate) async fn service_secret_put(
    State(door): State<Door>,
    caller: Caller,
    Path((project, service, name)): Path<(String, String, String)>,
    Body(body): Body<SecretBody>,
) -> Answer<Response> {
    set(&door, &caller, (&project, Some(&service), &name), body).await
}

/// Takes a project's secret away.
#[utoipa::path(delete, path = "/v1/projects/{project}/secrets/{secret}",
    operation_id = "secret_delete", tag = "secrets",
    params(("project" = String, Path, description = "name or id"),
           ("secret" = String, Path, description = "as containers call it")),
    responses((status = 202, description = "accepted"), (status = "4XX", body = Problem)))]
pub(crate) async fn secret_delete(
    State(door): State<Door>,
    caller: Caller,
    Path((project, name)): Path<(String, String)>,
) -> Answer<StatusCode> {
    remove(&door, &caller, (&project, None, &name)).await
}

/// Takes a service's secret away.
#[utoipa::path(delete, path = "/v1/projects/{project}/services/{service}/secrets/{secret}",
    operation_id = "service_secret_delete", tag = "secrets",
    params(("project" = String, Path, description = "name or id"),
           ("service" = String, Path, description = "name or id"),
           ("secret" = String, Path, description = "as containers call it")),
    responses((status = 202, description = "accepted"), (status = "4XX", body = Problem)))]
pub(crate) async fn service_secret_delete(
    State(door): State<Door>,
    caller: Caller,
    Path((project, service, name)): Path<(String, String, String)>,
) -> Answer<StatusCode> {
    remove(&door, &caller, (&project, Some(&service), &name)).await
}

async fn list(
    door: &Door,
    caller: &Caller,
    project: &str,
    service: Option<&str>,
) -> Answer<Json<SecretList>> {
    caller.must(Permission::Read)?;
    let rows = door.app.list_secrets(caller.org, project, service).await?;
    let rows = rows.ok_or_else(|| no_such(service))?;
    Ok(Json(SecretList { items: rows.into_iter().map(shown).collect() }))
}

async fn set(
    door: &Door,
    caller: &Caller,
    (project, service, name): Wanted<'_>,
    body: SecretBody,
) -> Answer<Response> {
    caller.must(Permission::ManageSecrets)?;
    let name = variable_name(name)?;
    let value = SecretValue::new(body.value.into_inner());
    let entry = EntryAsk { project, service, name: &name };
    let wanted = SecretAsk { entry, value: &value, sealer: &door.sealer };
    let (asker, now) = (caller.asker(), door.clock.now());
    let set = door.app.set_secret(caller.org, &wanted, &asker, now).await?;
    recorded(door);
    Ok((StatusCode::ACCEPTED, Json(shown(set.row))).into_response())
}

async fn remove(
    door: &Door,
    caller: &Caller,
    (project, service, name): Wanted<'_>,
) -> Answer<StatusCode> {
    caller.must(Permission::ManageSecrets)?;
    let name = variable_name(name)?;
    let wanted = EntryAsk { project, service, name: &name };
    door.app.delete_secret(caller.org, &wanted, &caller.asker(), door.clock.now()).await?;
    recorded(door);
    Ok(StatusCode::ACCEPTED)
}

fn shown(secret: secret::Secret) -> Secret {
    Secret {
        name: secret.name.to_string(),
        version: secret.version,
        updated_by: secret.set_by,
        updated_at: secret.set_at,
    }
}
