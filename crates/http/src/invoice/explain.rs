//! A line of an invoice, opened down to intervals, evidence and transitions.

use axum::Json;
use axum::extract::State;
use trueup_api::invoice::{LineEvidence, LineExplanation, LineInterval};
use trueup_model::money::Money;
use trueup_model::principal::Permission;
use trueup_model::usage::Evidence;
use trueup_store::{Explained, ExplainedInterval};

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::invoice::view;
use crate::plan::money;
use crate::{ledger, transition};
use trueup_rules::rate::invoice::decimal;

/// Opens a line of an invoice: ledger entries, intervals with their evidence, and transitions.
#[utoipa::path(get, path = "/v1/invoices/{invoice}/lines/{line}", operation_id = "invoice_explain",
    tag = "billing",
    params(("invoice" = String, Path, description = "number or id"),
           ("line" = String, Path, description = "the `id` of the line")),
    responses((status = 200, body = LineExplanation)))]
pub(crate) async fn invoice_explain(
    State(state): State<AppState>,
    caller: Caller,
    Path((invoice, line)): Path<(String, String)>,
) -> Answer<Json<LineExplanation>> {
    caller.must(Permission::ReadBilling)?;
    let found = state.app.explain_line(caller.org, (&invoice, &line), &state.billing).await?;
    let found = found.ok_or_else(|| Failure::not_found("invoice line"))?;
    Ok(Json(shown(found)))
}

fn shown(found: Explained) -> LineExplanation {
    let currency = found.invoice.document.currency;
    let amount = |micros: i64| money(Money { micros, currency });
    let values = found.intervals.iter().fold(0_i64, |sum, it| sum.saturating_add(it.value_micros));
    let interval = |it: &ExplainedInterval| LineInterval {
        object: it.interval.object.clone(),
        service: it.interval.owner.service.map(|service| service.to_string()),
        from: it.span.from,
        until: it.span.until,
        quantity: decimal(it.quantity_micros),
        value: amount(it.value_micros),
        basis: it.interval.basis,
        simulated: it.interval.simulated,
        hash: it.hash.to_string(),
        first: evidence(&it.interval.provenance.first),
        last: evidence(&it.interval.provenance.last),
    };
    LineExplanation {
        invoice: found.invoice.document.number.clone(),
        line: view::line(&found.line, currency),
        entries: found.entries.iter().map(ledger::entry).collect(),
        intervals: found.intervals.iter().map(interval).collect(),
        rounding: amount(found.line.amount_micros.saturating_sub(values)),
        transitions: found.transitions.into_iter().map(transition::shown).collect(),
        unchanged: found.unchanged,
    }
}

fn evidence(of: &Evidence) -> LineEvidence {
    LineEvidence {
        seen_at: of.seen_at,
        observer: of.observer.clone(),
        epoch: of.epoch,
        transition: of.transition.map(|id| id.to_string()),
    }
}
