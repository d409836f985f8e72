//! Endpoints: list, open, close.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Code;
use trueup_api::endpoint::{Endpoint, EndpointBody, EndpointList};
use trueup_api::preview::{OrPreview, Preview};
use trueup_api::schema::{ProjectKey, ServiceKey};
use trueup_model::endpoint;
use trueup_model::name::Name;
use trueup_model::principal::Permission;
use trueup_model::spec::Protocol;
use trueup_rules::admit::FieldError;
use trueup_store::door::{EndpointRequest, EndpointTarget};

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::project::name;
use crate::write::answer::if_generation;
use crate::write::request::{DryRun, WriteRequest};

/// Lists the endpoints of a project's services.
#[utoipa::path(get, path = "/v1/projects/{project}/endpoints", operation_id = "endpoint_list",
    tag = "endpoints", params(("project" = ProjectKey, Path, description = "name or id")),
    extensions(("x-problems" = json!([Code::InvalidManifest]))),
    responses((status = 200, body = EndpointList)))]
pub(crate) async fn endpoint_list(
    State(state): State<AppState>,
    caller: Caller,
    Path(project): Path<String>,
) -> Answer<Json<EndpointList>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let rows = app.list_endpoints(caller.org, &project).await?;
    let rows = rows.ok_or_else(|| Failure::not_found("project"))?;
    Ok(Json(EndpointList { items: rows.into_iter().map(shown).collect() }))
}

/// Opens an endpoint: reserves a port of the cluster and routes it to a port of the service.
#[utoipa::path(put, path = "/v1/projects/{project}/services/{service}/endpoints/{endpoint}",
    operation_id = "endpoint_put", tag = "endpoints",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id"),
           ("endpoint" = Name, Path, description = "name"), DryRun),
    request_body = EndpointBody,
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Endpoint>),
              (status = 202, description = "accepted", body = Endpoint)))]
pub(crate) async fn endpoint_put(
    change: WriteRequest,
    Path((project, service, endpoint)): Path<(String, String, String)>,
    Body(body): Body<EndpointBody>,
) -> Answer<Response> {
    let change = change.within(Permission::ManageServices)?;
    let name = name("name", &endpoint)?;
    let protocol = body.protocol.as_deref().map(protocol).transpose()?;
    let wanted = wanted(&change, (&project, &service, &name))?;
    let target = EndpointTarget { port: &body.port, protocol };
    let (org, context, now) = (change.org(), change.context(), change.now());
    let open = change.app().open_endpoint(org, &wanted, &target, &context, now).await?;
    change.accepted(open.changed, &shown(open.row))
}

/// Closes an endpoint. Its port is free again once the cluster is observed without it.
#[utoipa::path(delete, path = "/v1/projects/{project}/services/{service}/endpoints/{endpoint}",
    operation_id = "endpoint_delete", tag = "endpoints",
    params(("project" = ProjectKey, Path, description = "name or id"),
           ("service" = ServiceKey, Path, description = "name or id"),
           ("endpoint" = Name, Path, description = "name"), DryRun),
    responses((status = 200, description = "a preview", body = Preview),
              (status = 202, description = "accepted")))]
pub(crate) async fn endpoint_delete(
    change: WriteRequest,
    Path((project, service, endpoint)): Path<(String, String, String)>,
) -> Answer<Response> {
    let change = change.within(Permission::ManageServices)?;
    let name = name("name", &endpoint)?;
    let wanted = wanted(&change, (&project, &service, &name))?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    change.app().close_endpoint(org, &wanted, &context, now).await?;
    change.removed()
}

/// An endpoint has no version of its own: `If-Match` names the generation of its service.
fn wanted<'a>(
    change: &WriteRequest,
    (project, service, name): (&'a str, &'a str, &'a Name),
) -> Answer<EndpointRequest<'a>> {
    let if_generation = if_generation(&change.headers)?;
    Ok(EndpointRequest { project, service, name, if_generation })
}

fn protocol(text: &str) -> Answer<Protocol> {
    match text {
        "TCP" => Ok(Protocol::Tcp),
        "UDP" => Ok(Protocol::Udp),
        _ => {
            let message = "must be TCP or UDP, or omitted".to_owned();
            Err(Failure::invalid(vec![FieldError { field: "protocol".to_owned(), message }]))
        }
    }
}

fn shown(endpoint: endpoint::Endpoint) -> Endpoint {
    Endpoint {
        id: endpoint.id.to_string(),
        name: endpoint.name.to_string(),
        service: endpoint.service_name,
        cluster: endpoint.cluster_name,
        port: endpoint.port,
        protocol: endpoint.protocol,
        node_port: endpoint.node_port,
        address: endpoint.host.map(|host| format!("{host}:{}", endpoint.node_port)),
        state: endpoint.state,
        made_by: endpoint.made_by,
        created_at: endpoint.created_at,
    }
}
