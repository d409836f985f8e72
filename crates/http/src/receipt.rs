//! Deletion receipts, read-only: the report writer stores them, and they are kept for ever.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use trueup_api::Code;
use trueup_api::receipt::{
    MissingReceipt, OrgReceiptList, ReceiptKind, ReceiptList, SubjectReceipt,
};
use trueup_api::schema::{OrgKey, PageLimit, ProjectKey, UnitKey};
use trueup_model::order::Unit;
use trueup_model::principal::Permission;
use trueup_store::{ReceiptBundle, ReceiptRow};

use crate::AppState;
use crate::front::caller::{Caller, Scope};
use crate::front::cursor;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::org;

/// Which receipts to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Only what comes after this service: the `next` of the previous page.
    #[param(value_type = Option<UnitKey>)]
    after: Option<String>,
    /// The page size, up to 1000; the default is 100.
    #[param(value_type = Option<PageLimit>)]
    limit: Option<i64>,
}

/// Lists the deletion receipts of a project and of all its services, also after their deletion.
///
/// A name means the project that has it now; if there is none, the one that had it last. The id
/// always means the same project. A page has receipts, and the services without one in between.
#[utoipa::path(get, path = "/v1/projects/{project}/receipts", operation_id = "receipt_list",
    tag = "receipts", params(("project" = ProjectKey, Path, description = "name or id"), Page),
    responses((status = 200, body = ReceiptList)))]
pub(crate) async fn receipt_list(
    State(state): State<AppState>,
    caller: Caller,
    Path(project): Path<String>,
    Query(page): Query<Page>,
) -> Answer<Json<ReceiptList>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let limit = cursor::limit(page.limit)?;
    let after = page.after.as_deref().map(cursor::unit).transpose()?;
    let found = app.list_receipts(caller.org, &project, after, limit).await?;
    let found = found.ok_or_else(|| Failure::not_found("project"))?;
    Ok(Json(ReceiptList { next: next(&found, limit), ..bundle(&found) }))
}

/// The `after` of the next page. The project comes last, so a page that ends with it is the last.
fn next(found: &ReceiptBundle, limit: i64) -> Option<String> {
    let full = usize::try_from(limit).is_ok_and(|limit| found.rows.len() == limit);
    let last = found.rows.last().filter(|row| full && matches!(row.unit, Unit::Service(_)));
    last.map(|row| row.unit.to_string())
}

/// Lists the deletion receipts of every project of an org, also after its deletion.
///
/// An operator reads those of any org, every other caller only those of its own.
#[utoipa::path(get, path = "/v1/orgs/{org}/receipts", operation_id = "org_receipts",
    tag = "receipts", params(("org" = OrgKey, Path, description = "name or id")),
    responses((status = 200, body = OrgReceiptList)))]
pub(crate) async fn org_receipts(
    State(state): State<AppState>,
    Scope(caller): Scope,
    Path(wanted): Path<String>,
) -> Answer<Json<OrgReceiptList>> {
    caller.must(Permission::Read)?;
    // The org is read first: once it is being deleted, it gets no project that is not listed.
    let org = org::visible(&state, &caller, &wanted).await?;
    let found = state.app.list_org_receipts(org.id).await?;
    let items: Vec<ReceiptList> = found.iter().map(bundle).collect();
    Ok(Json(OrgReceiptList {
        org: org.name,
        org_id: org.id.to_string(),
        deleting_at: org.deleting_at,
        complete: org.deleting_at.is_some() && items.iter().all(|project| project.complete),
        items,
    }))
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
    let app = caller.within(&state.app, Permission::Read)?;
    let found = app.find_receipt(caller.org, &subject).await?;
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
        complete: found.complete,
        items: found.rows.iter().filter_map(with_receipt).collect(),
        missing,
        next: None,
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
