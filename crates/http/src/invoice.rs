//! Invoices: issued, paid, voided, read, and opened down to what was observed.

pub(crate) mod csv;
mod document;
mod explain;
mod pdf;
mod view;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use trueup_api::Code;
use trueup_api::invoice::{
    Invoice, InvoiceIssueBody, InvoiceList, InvoicePayBody, InvoiceVoidBody,
};
use trueup_api::preview::OrPreview;
use trueup_api::schema::PageLimit;
use trueup_model::id::InvoiceId;
use trueup_model::principal::Permission;
use trueup_store::door::InvoiceRequest;

use crate::AppState;
use crate::cost::around;
use crate::front::body::sentence;
use crate::front::caller::Caller;
use crate::front::cursor;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, WriteRequest};
use view::view;

pub(crate) use document::{__path_invoice_document, invoice_document};
pub(crate) use explain::{__path_invoice_explain, invoice_explain};

/// A page of invoices.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// The `next` of the previous page.
    #[param(value_type = Option<InvoiceId>)]
    after: Option<String>,
    /// The page size, up to 1000; the default is 100.
    #[param(value_type = Option<PageLimit>)]
    limit: Option<i64>,
}

/// Lists the invoices of the org, newest first.
#[utoipa::path(get, path = "/v1/invoices", operation_id = "invoice_list", tag = "billing",
    params(Page), responses((status = 200, body = InvoiceList)))]
pub(crate) async fn invoice_list(
    State(state): State<AppState>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Answer<Json<InvoiceList>> {
    caller.must(Permission::ReadBilling)?;
    let limit = cursor::limit(page.limit)?;
    let after = page.after.as_deref().map(cursor::id).transpose()?;
    let found = state.app.list_invoices(caller.org, after, limit).await?;
    let full = usize::try_from(limit).is_ok_and(|limit| found.len() == limit);
    let next = found.last().filter(|_| full).map(|last| last.id.to_string());
    Ok(Json(InvoiceList { items: found.iter().map(view).collect(), next }))
}

/// Shows an invoice as it was issued, and what became of it.
#[utoipa::path(get, path = "/v1/invoices/{invoice}", operation_id = "invoice_get", tag = "billing",
    params(("invoice" = String, Path, description = "number or id")),
    responses((status = 200, body = Invoice)))]
pub(crate) async fn invoice_get(
    State(state): State<AppState>,
    caller: Caller,
    Path(invoice): Path<String>,
) -> Answer<Json<Invoice>> {
    caller.must(Permission::ReadBilling)?;
    let found = state.app.find_invoice(caller.org, &invoice).await?;
    found.map(|one| Json(view(&one))).ok_or_else(|| Failure::not_found("invoice"))
}

/// Invoices what the org used and no invoice has. For operators.
///
/// Trueup does this by itself after the end of each billing period. A dry run shows the draft.
#[utoipa::path(post, path = "/v1/invoices", operation_id = "invoice_issue", tag = "billing",
    params(DryRun), request_body = InvoiceIssueBody,
    responses((status = 200, description = "a retry with the same key, or a preview: the draft",
               body = OrPreview<Invoice>),
              (status = 201, body = Invoice)))]
pub(crate) async fn invoice_issue(
    change: WriteRequest,
    Keyed { body, key }: Keyed<InvoiceIssueBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let (org, context, now) = (change.org(), change.context_with_key(key), change.now());
    let wanted = InvoiceRequest { around: around(body.period.as_deref(), now)?, early: body.early };
    let issuing =
        change.app().issue_invoice(org, wanted, &change.state.billing, &context, now).await;
    let issued = issuing?;
    change.created(issued.changed, &view(&issued.row))
}

/// Records that an invoice was paid. For operators.
#[utoipa::path(post, path = "/v1/invoices/{invoice}/pay", operation_id = "invoice_pay", tag = "billing",
    params(("invoice" = String, Path, description = "number or id"), DryRun),
    request_body = InvoicePayBody,
    extensions(("x-problems" = json!([Code::AlreadyDecided]))),
    responses((status = 200, description = "the invoice as it is now, or a preview",
               body = OrPreview<Invoice>)))]
pub(crate) async fn invoice_pay(
    change: WriteRequest,
    Path(invoice): Path<String>,
    Keyed { body, key }: Keyed<InvoicePayBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let method = sentence("method", &body.method)?;
    let (org, context, now) = (change.org(), change.context_with_key(key), change.now());
    let paid = change.app().pay_invoice(org, &invoice, method, &context, now).await?;
    change.done(paid.changed, &view(&paid.row))
}

/// Withdraws an invoice that is not paid: its usage is on the next one. For operators.
#[utoipa::path(post, path = "/v1/invoices/{invoice}/void", operation_id = "invoice_void",
    tag = "billing",
    params(("invoice" = String, Path, description = "number or id"), DryRun),
    request_body = InvoiceVoidBody,
    extensions(("x-problems" = json!([Code::AlreadyDecided]))),
    responses((status = 200, description = "the invoice as it is now, or a preview",
               body = OrPreview<Invoice>)))]
pub(crate) async fn invoice_void(
    change: WriteRequest,
    Path(invoice): Path<String>,
    Keyed { body, key }: Keyed<InvoiceVoidBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let reason = sentence("reason", &body.reason)?;
    let (org, context, now) = (change.org(), change.context_with_key(key), change.now());
    let voided = change.app().void_invoice(org, &invoice, reason, &context, now).await?;
    change.done(voided.changed, &view(&voided.row))
}
