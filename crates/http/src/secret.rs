//! Secrets of a project and of a service: list, set, delete.
//!
//! No response contains a value, and this crate cannot decrypt one: it only has an encryptor.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Code;
use trueup_api::preview::Preview;
use trueup_api::schema::{EntryKey, ProjectKey, ServiceKey};
use trueup_api::secret::{Secret, SecretBody, SecretList};
use trueup_model::principal::Permission;
use trueup_model::secret;
use trueup_store::door::{EntryKind, SecretRequest};

use crate::AppState;
use crate::entry::{self, Entry, Wanted, no_such};
use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::Answer;
use crate::write::request::{DryRun, WriteRequest};

/// What any operation on a project's secrets may answer, beyond what its shape says.
const PROBLEMS: [Code; 2] = [Code::InvalidManifest, Code::KeyUnavailable];

/// Lists the secrets that all services of a project share.
#[utoipa::path(get, path = "/v1/projects/{project}/secrets", operation_id = "secret_list",
    tag = "secrets", params(("project" = ProjectKey, Path, description = "name or id")),
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, body = SecretList)))]
pub(crate) async fn secret_list(
    State(state): State<AppState>,
    caller: Caller,
    Path(project): Path<String>,
) -> Answer<Json<SecretList>> {
    list(&state, &caller, &project, None).await
}

/// Lists the secrets of one service.
#[utoipa::path(get, path = "/v1/projects/{project}/services/{service}/secrets",
    operation_id = "service_secret_list", tag = "secrets",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id")),
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, body = SecretList)))]
pub(crate) async fn service_secret_list(
    State(state): State<AppState>,
    caller: Caller,
    Path((project, service)): Path<(String, String)>,
) -> Answer<Json<SecretList>> {
    list(&state, &caller, &project, Some(&service)).await
}

/// Sets a secret for all services of a project; each of them gets a new generation.
#[utoipa::path(put, path = "/v1/projects/{project}/secrets/{secret}", operation_id = "secret_put",
    tag = "secrets",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("secret" = EntryKey, Path, description = "name of the environment variable"), DryRun),
    request_body = SecretBody,
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, description = "a preview", body = Preview),
              (status = 202, description = "accepted", body = Secret)))]
pub(crate) async fn secret_put(
    change: WriteRequest,
    Path(of): Path<Entry>,
    Body(body): Body<SecretBody>,
) -> Answer<Response> {
    set(change, of, body).await
}

/// Sets a secret for one service, which gets a new generation.
#[utoipa::path(put, path = "/v1/projects/{project}/services/{service}/secrets/{secret}",
    operation_id = "service_secret_put", tag = "secrets",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id"),
           ("secret" = EntryKey, Path, description = "name of the environment variable"), DryRun),
    request_body = SecretBody,
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "a preview", body = Preview),
              (status = 202, description = "accepted", body = Secret)))]
pub(crate) async fn service_secret_put(
    change: WriteRequest,
    Path(of): Path<Entry>,
    Body(body): Body<SecretBody>,
) -> Answer<Response> {
    set(change, of, body).await
}

/// Deletes a secret of a project.
#[utoipa::path(delete, path = "/v1/projects/{project}/secrets/{secret}",
    operation_id = "secret_delete", tag = "secrets",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("secret" = EntryKey, Path, description = "name of the environment variable"), DryRun),
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, description = "a preview", body = Preview),
              (status = 202, description = "accepted")))]
pub(crate) async fn secret_delete(change: WriteRequest, Path(of): Path<Entry>) -> Answer<Response> {
    entry::remove(change, EntryKind::Secret, of).await
}

/// Deletes a secret of a service.
#[utoipa::path(delete, path = "/v1/projects/{project}/services/{service}/secrets/{secret}",
    operation_id = "service_secret_delete", tag = "secrets",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id"),
           ("secret" = EntryKey, Path, description = "name of the environment variable"), DryRun),
    extensions(("x-problems" = json!(crate::service::PROBLEMS))),
    responses((status = 200, description = "a preview", body = Preview),
              (status = 202, description = "accepted")))]
pub(crate) async fn service_secret_delete(
    change: WriteRequest,
    Path(of): Path<Entry>,
) -> Answer<Response> {
    entry::remove(change, EntryKind::Secret, of).await
}

async fn list(
    state: &AppState,
    caller: &Caller,
    project: &str,
    service: Option<&str>,
) -> Answer<Json<SecretList>> {
    let app = caller.within(&state.app, Permission::ReadContent)?;
    let rows = app.list_secrets(caller.org, project, service).await?;
    let rows = rows.ok_or_else(|| no_such(service))?;
    Ok(Json(SecretList { items: rows.into_iter().map(shown).collect() }))
}

async fn set(change: WriteRequest, of: Entry, body: SecretBody) -> Answer<Response> {
    let change = change.within(Permission::ManageSecrets)?;
    let wanted = Wanted::read(&change, of)?;
    let value = body.value;
    let request = SecretRequest {
        entry: wanted.request(),
        value: &value,
        encryptor: &change.state.encryptor,
    };
    let (org, context, now) = (change.org(), change.context(), change.now());
    let set = change.app().set_secret(org, &request, &context, now).await?;
    entry::set(change, set.changed, set.row.version, &shown(set.row))
}

fn shown(secret: secret::Secret) -> Secret {
    Secret {
        name: secret.name.to_string(),
        version: secret.version,
        updated_by: secret.set_by,
        updated_at: secret.set_at,
    }
}
