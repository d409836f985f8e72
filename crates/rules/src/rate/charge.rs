//! Charges: what makes up what an org owes, read from the ledger for exports.
//!
//! Every posting beside the receivable of an entry that is no payment is a part of a charge, so the
//! charges of an org add up to what it owes and paid. Nothing is computed again.

use std::collections::BTreeMap;

use trueup_model::id::ServiceId;
use trueup_model::usage::{EvidenceHash, Span};

use super::line::{Line, LineKey};

/// What a charge is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChargeKind {
    /// Usage of a service, at its value.
    Usage,
    /// What rounding a line to a payable amount added or took.
    Rounding,
    /// The tax of an invoice.
    Tax,
    /// Credit that paid a part of an invoice, or a credit note that became credit.
    Credit,
}

/// A part of what an org owes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// What it is for.
    pub kind: ChargeKind,
    /// The line of usage; none for tax and credit.
    pub line: Option<LineKey>,
    /// The service that used it; none for orphans and for what concerns the whole org.
    pub service: Option<ServiceId>,
    /// The number of the invoice; none while there is none.
    pub invoice: Option<String>,
    /// What it adds to what the org owes.
    pub micros: i64,
    /// How much was used, in millionths of the meter's unit. As it is read: of the whole line.
    pub quantity_micros: i128,
    /// The first and the last ledger entry that it sums up.
    pub entries: (i64, i64),
}

/// Divides the quantity of each line among its services.
///
/// The ledger has the quantity of a line and the value of each service. If the line is still as it
/// was posted, the quantities are exactly those that it was rated with; otherwise they are divided
/// by value. They always add up to the quantity of the line.
pub fn share_quantities(charges: &mut [Charge], rated: &[Line]) {
    let lines: BTreeMap<EvidenceHash, &Line> =
        rated.iter().map(|line| (line.key.hash(), line)).collect();
    let mut groups: BTreeMap<(EvidenceHash, Option<String>), Vec<&mut Charge>> = BTreeMap::new();
    for charge in charges.iter_mut().filter(|charge| charge.kind == ChargeKind::Usage) {
        let Some(key) = charge.line.as_ref().map(LineKey::hash) else { continue };
        groups.entry((key, charge.invoice.clone())).or_default().push(charge);
    }
    for ((key, _), mut parts) in groups {
        let total = parts.first().map_or(0, |part| part.quantity_micros);
        let exact = lines.get(&key).and_then(|line| exact(line, &parts, total));
        let quantities = exact.unwrap_or_else(|| by_value(&parts, total));
        for (part, quantity) in parts.iter_mut().zip(quantities) {
            part.quantity_micros = quantity;
        }
    }
}

/// The quantities that the line was rated with, if it is the posted one.
fn exact(line: &Line, parts: &[&mut Charge], total: i128) -> Option<Vec<i128>> {
    let mut by_service: BTreeMap<Option<ServiceId>, i128> = BTreeMap::new();
    for share in &line.shares {
        let sum = by_service.entry(share.owner.service).or_default();
        *sum = sum.saturating_add(share.quantity_micros);
    }
    let quantities: Option<Vec<i128>> =
        parts.iter().map(|part| by_service.get(&part.service).copied()).collect();
    quantities.filter(|found| found.iter().copied().fold(0, i128::saturating_add) == total)
}

fn by_value(parts: &[&mut Charge], total: i128) -> Vec<i128> {
    let sum = parts.iter().fold(0_i128, |sum, part| sum.saturating_add(part.micros.into()));
    let mut left = total;
    let mut quantities: Vec<i128> = parts
        .iter()
        .map(|part| {
            let product = total.checked_mul(part.micros.into());
            let share = product.and_then(|product| product.checked_div(sum)).unwrap_or(0);
            left = left.saturating_sub(share);
            share
        })
        .collect();
    if let Some(last) = quantities.last_mut() {
        *last = last.saturating_add(left);
    }
    quantities
}

/// The billing periods that the lines of these charges belong to.
#[must_use]
pub fn periods(charges: &[Charge]) -> Vec<Span> {
    let mut periods: Vec<Span> =
        charges.iter().filter_map(|charge| charge.line.as_ref().map(|line| line.period)).collect();
    periods.sort_unstable();
    periods.dedup();
    periods
}
