//! Explains a line of an invoice: the ledger entries it sums up, and the intervals they charge.
//!
//! The line is rated again from the stored usage, as far as its sources had been heard when the
//! invoice was cut. If its hash is that of the invoice, the shown intervals are exactly what was
//! charged; if not, usage was corrected since, and a later invoice has the difference.

use trueup_model::billing::BillingSettings;
use trueup_model::id::OrgId;
use trueup_model::invoice::{Invoice, InvoiceLine};
use trueup_model::transition::Transition;
use trueup_model::usage::{EvidenceHash, Span, UsageInterval};
use trueup_rules::rate::invoice::line_id;
use trueup_rules::rate::rounding::allocate;
use trueup_rules::usage::hash;

use crate::ledger::LedgerEntry;
use crate::transition::of_objects;
use crate::{App, Error, billing, invoice, ledger};

/// A line of an invoice, opened down to what was observed.
#[derive(Debug, Clone)]
pub struct Explained {
    /// The invoice.
    pub invoice: Invoice,
    /// The line.
    pub line: InvoiceLine,
    /// The ledger entries that it sums up.
    pub entries: Vec<LedgerEntry>,
    /// What was used, in order of time.
    pub intervals: Vec<ExplainedInterval>,
    /// The transitions of the objects that were used, in order.
    pub transitions: Vec<Transition>,
    /// Whether the stored usage is still exactly what was charged.
    pub unchanged: bool,
}

/// A part of an interval that a line charges.
#[derive(Debug, Clone)]
pub struct ExplainedInterval {
    /// The interval, with its evidence.
    pub interval: UsageInterval,
    /// Its hash.
    pub hash: EvidenceHash,
    /// The part that the line charges.
    pub span: Span,
    /// How much, in millionths of the meter's unit.
    pub quantity_micros: i128,
    /// Its part of the line's value.
    pub value_micros: i64,
}

impl App {
    /// Opens a line of an invoice; `None` if there is no such invoice or line.
    ///
    /// # Errors
    /// The database cannot be reached, or a price cannot be computed with.
    pub async fn explain_line(
        &self,
        org: OrgId,
        (wanted, line): (&str, &str),
        settings: &BillingSettings,
    ) -> Result<Option<Explained>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(invoice) = invoice::find(&mut tx, wanted, false).await? else { return Ok(None) };
        let found = invoice.document.lines.iter().find(|one| one.id == line).cloned();
        let Some(line) = found else { return Ok(None) };
        let entries = ledger::entries(&mut tx, org, &line.entries).await?;
        let account = billing::account(&mut tx, org, settings.currency).await?;
        // A later change of the subscription is on a later invoice.
        let known = Some(invoice.document.issued_at);
        let inputs = billing::inputs(
            &mut tx,
            org,
            account,
            line.period.from,
            &invoice.document.heard,
            known,
        )
        .await?;
        let rated = inputs.rate(settings.charge_simulated)?;
        let again = rated.lines.iter().find(|one| line_id(&one.key) == line.id);
        let unchanged = again.is_some_and(|one| one.evidence().to_string() == line.evidence);
        let mut intervals = Vec::new();
        if let Some(again) = again {
            let weights: Vec<i128> = again.segments.iter().map(|it| it.quantity_micros).collect();
            let values = allocate(again.value_micros, &weights)?;
            for (segment, value_micros) in again.segments.iter().zip(values) {
                let whole =
                    inputs.usage.intervals.iter().find(|it| hash::content(it) == segment.interval);
                intervals.extend(whole.map(|interval| ExplainedInterval {
                    interval: interval.clone(),
                    hash: segment.interval,
                    span: segment.span,
                    quantity_micros: segment.quantity_micros,
                    value_micros,
                }));
            }
        }
        let mut objects: Vec<String> =
            intervals.iter().map(|it| it.interval.object.clone()).collect();
        objects.sort_unstable();
        objects.dedup();
        let transitions = of_objects(&mut tx, org, &objects).await?;
        Ok(Some(Explained { invoice, line, entries, intervals, transitions, unchanged }))
    }
}
