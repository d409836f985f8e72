//! Clusters.

use axum::Json;
use axum::extract::State;
use trueup_api::Problem;
use trueup_api::cluster::{Cluster, ClusterList};
use trueup_model::principal::Permission;

use crate::address::Path;
use crate::caller::Caller;
use crate::problem::{Answer, Failure};
use crate::{Door, view};

/// Lists the clusters and whether they can be reached.
#[utoipa::path(get, path = "/v1/clusters", operation_id = "cluster_list", tag = "clusters",
    responses((status = 200, body = ClusterList), (status = "4XX", body = Problem)))]
pub(crate) async fn cluster_list(
    State(door): State<Door>,
    caller: Caller,
) -> Answer<Json<ClusterList>> {
    caller.must(Permission::Read)?;
    let rows = door.app.list_clusters().await?;
    let now = door.clock.now();
    Ok(Json(ClusterList { items: rows.iter().map(|row| view::cluster(row, now)).collect() }))
}

/// Shows one cluster: whether it can be reached, and what the org has in it.
#[utoipa::path(get, path = "/v1/clusters/{cluster}", operation_id = "cluster_get", tag = "clusters",
    params(("cluster" = String, Path, description = "name or id")),
    responses((status = 200, body = Cluster), (status = "4XX", body = Problem)))]
pub(crate) async fn cluster_get(
    State(door): State<Door>,
    caller: Caller,
    Path(cluster): Path<String>,
) -> Answer<Json<Cluster>> {
    caller.must(Permission::Read)?;
    let found = door.app.find_cluster(caller.org, &cluster).await?;
    let (row, holds) = found.ok_or_else(|| Failure::not_found("cluster"))?;
    let shown = view::cluster(&row, door.clock.now());
    Ok(Json(Cluster { projects: Some(holds.projects), services: Some(holds.services), ..shown }))
}
