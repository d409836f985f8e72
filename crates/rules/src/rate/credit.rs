//! Credits: which of them pays, and what is left.

use jiff::Timestamp;
use trueup_model::id::CreditId;
use trueup_model::invoice::Credit;
use trueup_model::money::Currency;

/// How much of each credit pays what is due, as far as they reach.
///
/// Credit that ends first is used first, so that as little as possible expires; of equal ones the
/// older one.
#[must_use]
pub fn draw(
    credits: &[Credit],
    currency: Currency,
    due_micros: i64,
    now: Timestamp,
) -> Vec<(CreditId, i64)> {
    let is_usable = |credit: &&Credit| {
        credit.currency == currency && credit.holds_at(now) && credit.left_micros() > 0
    };
    let mut usable: Vec<&Credit> = credits.iter().filter(is_usable).collect();
    usable.sort_by_key(|credit| {
        (credit.expires_at.is_none(), credit.expires_at, credit.granted_at, credit.id)
    });
    let mut due = due_micros;
    let mut drawn = Vec::new();
    for credit in usable {
        let part = credit.left_micros().min(due);
        if part > 0 {
            drawn.push((credit.id, part));
            due = due.saturating_sub(part);
        }
    }
    drawn
}
