//! Charges as a file for cost tools: FOCUS 1.4, dataset Cost and Usage, as CSV.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::stream::iter;
use trueup_model::principal::Permission;
use trueup_rules::rate::focus;
use trueup_store::BillingExport;

use crate::AppState;
use crate::cost::{Period, around};
use crate::front::caller::Caller;
use crate::front::extract::Query;
use crate::front::problem::Answer;
use crate::invoice::csv;

/// How many rows are written at once.
const BATCH: usize = 256;

/// Downloads what the org was charged in a billing period, as CSV with the columns of FOCUS 1.4.
///
/// The costs are those of the ledger: they add up to what the org owes for the period, tax and credit
/// included. Rows of an issued invoice never change.
#[utoipa::path(get, path = "/v1/billing-export", operation_id = "billing_export", tag = "billing",
    params(Period),
    responses((status = 200, description = "the file", body = String, content_type = "text/csv")))]
pub(crate) async fn billing_export(
    State(state): State<AppState>,
    caller: Caller,
    Query(wanted): Query<Period>,
) -> Answer<Response> {
    caller.must(Permission::ReadBilling)?;
    let around = around(wanted.period.as_deref(), state.clock.now())?;
    let export = state.app.billing_export(caller.org, around, &state.billing).await?;
    let zone = export.dataset.account.zone();
    let month = zone.to_datetime(export.dataset.period.from).date().strftime("%Y-%m").to_string();
    let name = format!("attachment; filename=\"focus-{month}.csv\"");
    let headers =
        [(header::CONTENT_TYPE, "text/csv".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, Body::from_stream(iter(chunks(export)))).into_response())
}

/// The file in parts, each written when it is sent.
fn chunks(export: BillingExport) -> impl Iterator<Item = Result<String, Infallible>> + Send {
    let BillingExport { dataset, charges } = export;
    let batches: Vec<Vec<_>> = charges.chunks(BATCH).map(<[_]>::to_vec).collect();
    let rows = batches.into_iter().map(move |batch| {
        batch.iter().map(|charge| csv::joined(&dataset.row(charge))).collect::<String>()
    });
    std::iter::once(csv::joined(&focus::header())).chain(rows).map(Ok)
}
