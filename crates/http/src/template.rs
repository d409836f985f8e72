//! Templates.

use axum::Json;
use axum::extract::State;
use trueup_api::Problem;
use trueup_api::template::TemplateList;
use trueup_model::principal::Permission;

use crate::caller::Caller;
use crate::problem::Answer;
use crate::{Door, view};

/// Lists the templates that services can be made from.
#[utoipa::path(get, path = "/v1/templates", operation_id = "template_list", tag = "templates",
    responses((status = 200, body = TemplateList), (status = "4XX", body = Problem)))]
pub(crate) async fn template_list(
    State(door): State<Door>,
    caller: Caller,
) -> Answer<Json<TemplateList>> {
    caller.must(Permission::Read)?;
    let templates = door.app.list_templates().await?;
    Ok(Json(TemplateList { items: templates.iter().map(view::template).collect() }))
}
