//! Clusters.

use axum::Json;
use axum::extract::State;
use trueup_api::Problem;
use trueup_api::cluster::ClusterList;
use trueup_model::principal::Permission;

use crate::caller::Caller;
use crate::problem::Answer;
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
