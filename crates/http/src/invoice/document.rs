//! An invoice as a file: PDF for people, CSV for spreadsheets, JSON as it was issued and hashed.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use trueup_api::Code;
use trueup_api::invoice::DocumentFormat;
use trueup_model::principal::Permission;
use trueup_rules::rate::invoice::bytes;

use super::{csv, pdf};
use crate::AppState;
use crate::front::caller::Caller;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};

/// Which file.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// The format; the default is `json`.
    #[serde(default)]
    #[param(inline)]
    format: DocumentFormat,
}

/// Downloads an invoice as a file.
#[utoipa::path(get, path = "/v1/invoices/{invoice}/document", operation_id = "invoice_document",
    tag = "billing",
    params(("invoice" = String, Path, description = "number or id"), Wanted),
    extensions(("x-problems" = json!([Code::BadRequest]))),
    responses((status = 200, description = "the file",
               content((String = "application/pdf"), (String = "text/csv"), (String = "application/json")))))]
pub(crate) async fn invoice_document(
    State(state): State<AppState>,
    caller: Caller,
    Path(invoice): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer<Response> {
    caller.must(Permission::ReadBilling)?;
    let found = state.app.find_invoice(caller.org, &invoice).await?;
    let found = found.ok_or_else(|| Failure::not_found("invoice"))?;
    let (kind, ending, file) = match wanted.format {
        DocumentFormat::Pdf => ("application/pdf", "pdf", pdf::render(&found)),
        DocumentFormat::Csv => ("text/csv", "csv", csv::render(&found.document).into_bytes()),
        DocumentFormat::Json => ("application/json", "json", bytes(&found.document).0.into_bytes()),
    };
    let name = format!("attachment; filename=\"{}.{ending}\"", found.document.number);
    let headers = [(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, file).into_response())
}
