//! Deletion receipts, read-only: the report writer stores them, and they are kept for ever.

use axum::Json;
use axum::extract::State;
use trueup_api::Code;
use trueup_api::receipt::{MissingReceipt, ReceiptKind, ReceiptList, SubjectReceipt};
use trueup_api::schema::{ProjectKey, UnitKey};
use trueup_model::order::Unit;
use trueup_model::principal::Permission;
use trueup_store::{ReceiptBundle, ReceiptRow};

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};

/// Lists the deletion receipts of a project and of all its services, also after their deletion.
///
/// A name means the project that has it now; if there is none, the one that had it last. The id
/// always means the same project.
#[utoipa::path(get, path = "/v1/projects/{project}/receipts", operation_id = "receipt_list",
    tag = "receipts", params(("project" = ProjectKey, Path, description = "name or id")),
    responses((status = 200, body = ReceiptList)))]
pub(crate) async fn receipt_list(
    State(state): State<AppState>,
    caller: Caller,
    Path(project): Path<String>,
) -> Answer<Json<ReceiptList>> {
    caller.must(Permission::Read)?;
    let found = state.app.list_receipts(caller.org, &project).await?;
    let found = found.ok_or_else(|| Failure::not_found("project"))?;
    Ok(Json(bundle(&found)))
}

/// Shows the deletion receipt of a service or project.
#[utoipa::path(get, path = "/v1/receipts/{subject}", operation_id = "receipt_get", tag = "receipts",
    params(("subject" = UnitKey, Path, description = "id of the service or project")),
    responses((status = 200, body = SubjectReceipt)))]
pub(crate) async fn receipt_get(
    State(state): State<AppState>,
    caller: Caller,
    Path(subject): Path<String>,
) -> Answer<Json<SubjectReceipt>> {
    caller.must(Permission::Read)?;
    let found = state.app.find_receipt(caller.org, &subject).await?;
    found.as_ref().and_then(with_receipt).map(Json).ok_or_else(|| {
        let detail = "no such receipt; it has the id of its service or project (svc_…, prj_…), \
                      and exists once the deletion is complete";
        Failure::new(Code::NotFound, detail)
    })
}

fn bundle(found: &ReceiptBundle) -> ReceiptList {
    let missing: Vec<MissingReceipt> =
        found.rows.iter().filter(|row| row.receipt.is_none()).map(missing).collect();
    ReceiptList {
        project: found.name.clone(),
        project_id: found.project.to_string(),
        complete: missing.is_empty(),
        items: found.rows.iter().filter_map(with_receipt).collect(),
        missing,
    }
}

/// A row as it is shown with its receipt; `None` if it has none.
fn with_receipt(row: &ReceiptRow) -> Option<SubjectReceipt> {
    let receipt = row.receipt.clone()?;
    Some(SubjectReceipt {
        subject: row.unit.to_string(),
        kind: kind(row.unit),
        name: row.name.clone(),
        project: row.project_name.clone(),
        project_id: row.project.to_string(),
        verified_at: receipt.verified_at,
        receipt,
    })
}

fn missing(row: &ReceiptRow) -> MissingReceipt {
    MissingReceipt {
        subject: row.unit.to_string(),
        kind: kind(row.unit),
        name: row.name.clone(),
        desired: row.desired,
    }
}

const fn kind(unit: Unit) -> ReceiptKind {
    match unit {
        Unit::Service(_) => ReceiptKind::Service,
        Unit::Project(_) => ReceiptKind::Project,
    }
}
