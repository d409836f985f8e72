//! Volumes, read-only: they are created and removed with their services.

use axum::Json;
use axum::extract::State;
use trueup_api::schema::ProjectKey;
use trueup_api::volume::{Volume, VolumeList};
use trueup_model::principal::Permission;
use trueup_model::volume;

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};

/// Lists the volumes of a project's services.
#[utoipa::path(get, path = "/v1/projects/{project}/volumes", operation_id = "volume_list",
    tag = "volumes", params(("project" = ProjectKey, Path, description = "name or id")),
    responses((status = 200, body = VolumeList)))]
pub(crate) async fn volume_list(
    State(state): State<AppState>,
    caller: Caller,
    Path(project): Path<String>,
) -> Answer<Json<VolumeList>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let rows = app.list_volumes(caller.org, &project).await?;
    let rows = rows.ok_or_else(|| Failure::not_found("project"))?;
    Ok(Json(VolumeList { items: rows.into_iter().map(shown).collect() }))
}

fn shown(volume: volume::Volume) -> Volume {
    Volume {
        name: volume.name,
        service: volume.service_name,
        namespace: volume.namespace,
        size_gib: volume.size_gib,
        path: volume.path,
        bound: volume.bound,
        uid: volume.uid,
        observed_at: volume.observed_at,
    }
}
