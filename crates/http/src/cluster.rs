//! Clusters.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use trueup_api::cluster::{Cluster, ClusterGateway, ClusterList, ClusterRouting};
use trueup_api::preview::OrPreview;
use trueup_api::schema::ClusterKey;
use trueup_model::cluster::{GatewayRef, Reachability, Routing, is_stale};
use trueup_model::principal::Permission;
use trueup_rules::admit::FieldError;
use trueup_store::ClusterRow;

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::{Caller, Scope};
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::write::request::{DryRun, PlatformWriteRequest};

/// Lists the clusters, with their reachability.
#[utoipa::path(get, path = "/v1/clusters", operation_id = "cluster_list", tag = "clusters",
    responses((status = 200, body = ClusterList)))]
pub(crate) async fn cluster_list(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<ClusterList>> {
    caller.must_somewhere(Permission::Read)?;
    let rows = state.app.list_clusters().await?;
    let now = state.clock.now();
    Ok(Json(ClusterList { items: rows.iter().map(|row| view(row, now)).collect() }))
}

/// Shows a cluster: its reachability, and how many projects and services of the org are in it.
#[utoipa::path(get, path = "/v1/clusters/{cluster}", operation_id = "cluster_get", tag = "clusters",
    params(("cluster" = ClusterKey, Path, description = "name or id")),
    responses((status = 200, body = Cluster)))]
pub(crate) async fn cluster_get(
    State(state): State<AppState>,
    caller: Caller,
    Path(cluster): Path<String>,
) -> Answer<Json<Cluster>> {
    caller.must_somewhere(Permission::Read)?;
    let found = state.app.find_cluster(caller.org, &cluster).await?;
    let (row, holds) = found.ok_or_else(|| Failure::not_found("cluster"))?;
    let shown = view(&row, state.clock.now());
    Ok(Json(Cluster { projects: Some(holds.projects), services: Some(holds.services), ..shown }))
}

/// Shows how a cluster routes host names. For operators.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/routing", operation_id = "cluster_routing_get",
    tag = "clusters", params(("cluster" = ClusterKey, Path, description = "name or id")),
    responses((status = 200, body = ClusterRouting)))]
pub(crate) async fn cluster_routing_get(
    State(state): State<AppState>,
    Scope(caller): Scope,
    Path(cluster): Path<String>,
) -> Answer<Json<ClusterRouting>> {
    caller.must(Permission::ReadPlatform)?;
    let found = state.app.find_cluster(caller.org, &cluster).await?;
    let (row, _) = found.ok_or_else(|| Failure::not_found("cluster"))?;
    Ok(Json(shown(state.app.find_routing(row.id).await?)))
}

/// Sets how a cluster routes host names. For operators.
///
/// A change wakes the services of the cluster with verified hosts; they keep their generation.
#[utoipa::path(put, path = "/v1/clusters/{cluster}/routing", operation_id = "cluster_routing_put",
    tag = "clusters", params(("cluster" = ClusterKey, Path, description = "name or id"), DryRun),
    request_body = ClusterRouting,
    responses((status = 200, description = "the routing as it is now, or a preview", body = OrPreview<ClusterRouting>)))]
pub(crate) async fn cluster_routing_put(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(cluster): Path<String>,
    Body(body): Body<ClusterRouting>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let routing = read(body)?;
    let found = change.state.app.find_cluster(change.org(), &cluster).await?;
    let (row, _) = found.ok_or_else(|| Failure::not_found("cluster"))?;
    let (context, now) = (change.context(), change.now());
    let changed = change.app().put_routing(&row, &routing, &context, now).await?;
    if changed && !change.is_dry() {
        change.state.signals.wake();
    }
    change.done(changed, &shown(routing))
}

/// Checks that every name is a valid Kubernetes object name.
fn read(body: ClusterRouting) -> Answer<Routing> {
    let mut errors = Vec::new();
    let mut check = |field: &str, text: &str| {
        if !is_object_name(text) {
            errors.push(FieldError::at(field, "must be a valid Kubernetes object name"));
        }
    };
    let plain = [
        ("ingress_class", &body.ingress_class),
        ("from_namespace", &body.from_namespace),
        ("issuer", &body.issuer),
    ];
    let bad_address = body.address.as_ref().is_some_and(|text| !is_object_name(text));
    for (field, text) in plain {
        if let Some(text) = text {
            check(field, text);
        }
    }
    if let Some(gateway) = &body.gateway {
        check("gateway.namespace", &gateway.namespace);
        check("gateway.name", &gateway.name);
    }
    if bad_address {
        let message = "must be a host name or an IPv4 address in lower case, without a port";
        errors.push(FieldError::at("address", message));
    }
    if !errors.is_empty() {
        return Err(Failure::invalid(errors));
    }
    let gateway = body.gateway.map(|it| GatewayRef { namespace: it.namespace, name: it.name });
    Ok(Routing {
        gateway,
        ingress_class: body.ingress_class,
        from_namespace: body.from_namespace,
        issuer: body.issuer,
        address: body.address,
    })
}

fn is_object_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    (1..=253).contains(&bytes.len())
        && bytes.iter().all(|b| plain(*b) || b"-.".contains(b))
        && bytes.first().copied().is_some_and(plain)
        && bytes.last().copied().is_some_and(plain)
}

fn shown(routing: Routing) -> ClusterRouting {
    let gateway =
        routing.gateway.map(|it| ClusterGateway { namespace: it.namespace, name: it.name });
    ClusterRouting {
        gateway,
        ingress_class: routing.ingress_class,
        from_namespace: routing.from_namespace,
        issuer: routing.issuer,
        address: routing.address,
    }
}

/// A cluster as it is shown.
pub(crate) fn view(row: &ClusterRow, now: Timestamp) -> Cluster {
    let reachability = if is_stale(row.heard_at, now) {
        Reachability::Unreachable
    } else {
        Reachability::Reachable
    };
    Cluster {
        id: row.id.to_string(),
        name: row.name.clone(),
        reachability,
        heard_at: row.heard_at,
        note: row.note.clone(),
        created_at: row.created_at,
        frozen: row.frozen.as_ref().map(crate::freeze::view),
        projects: None,
        services: None,
    }
}
