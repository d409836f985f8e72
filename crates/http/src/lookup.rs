//! Lookup: what an id refers to, by its prefix.

use axum::Json;
use axum::extract::State;
use trueup_api::lookup::{Lookup, LookupKind};
use trueup_model::principal::Permission;
use trueup_store::{Findable, Place};

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};

/// Says what an id refers to, and where it is.
#[utoipa::path(get, path = "/v1/lookup/{id}", operation_id = "lookup_get", tag = "overview",
    params(("id" = String, Path, description = "an id, such as `svc_…` or `evt_…`")),
    responses((status = 200, body = Lookup)))]
pub(crate) async fn lookup_get(
    State(state): State<AppState>,
    caller: Caller,
    Path(text): Path<String>,
) -> Answer<Json<Lookup>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let place = app.look_up(caller.org, &text).await?;
    let place = place.ok_or_else(|| Failure::not_found("id"))?;
    let service_id = place.service_id.map(|id| id.to_string());
    let path = path(&text, &place, service_id.as_deref().unwrap_or_default());
    let Place { what, project, service, name, .. } = place;
    Ok(Json(Lookup { id: text, kind: kind(what), name, project, service, service_id, path }))
}

const fn kind(what: Findable) -> LookupKind {
    match what {
        Findable::Project => LookupKind::Project,
        Findable::Service => LookupKind::Service,
        Findable::Release => LookupKind::Release,
        Findable::Cluster => LookupKind::Cluster,
        Findable::Event => LookupKind::Event,
        Findable::Endpoint => LookupKind::Endpoint,
        Findable::Domain => LookupKind::Domain,
        Findable::Divergence => LookupKind::Divergence,
        Findable::Conflict => LookupKind::Conflict,
    }
}

/// The path of the operation that shows it, or the list with it.
fn path(id: &str, place: &Place, service_id: &str) -> String {
    let project = place.project.as_deref().unwrap_or_default();
    let service = format!("/v1/projects/{project}/services/{service_id}");
    match place.what {
        Findable::Project => format!("/v1/projects/{id}"),
        Findable::Service => service,
        Findable::Release => format!("{service}/releases"),
        Findable::Cluster => format!("/v1/clusters/{id}"),
        Findable::Event => format!("/v1/events/{id}"),
        Findable::Endpoint => format!("/v1/projects/{project}/endpoints"),
        Findable::Domain => format!("{service}/domains/{}", place.name),
        Findable::Divergence => format!("/v1/drift/{id}"),
        Findable::Conflict => "/v1/conflicts".to_owned(),
    }
}
