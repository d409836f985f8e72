//! Invoices: what was posted since the last one becomes a document with a hash.
//!
//! An invoice sums up ledger entries, which never change, so the same entries give the same bytes
//! for ever. Entries of a former period, which arrived late, become lines of their own that name
//! the period they correct.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use trueup_model::billing::{BillingAccount, Seller};
use trueup_model::invoice::{InvoiceDocument, InvoiceLine};
use trueup_model::price::PriceVersion;
use trueup_model::usage::{EvidenceHash, MICROS, Span};

use super::line::LineKey;
use super::rounding::{NotComputable, Ratio, minor_unit};

/// How long an org has to pay.
const PAYABLE_FOR: SignedDuration = SignedDuration::from_hours(14 * 24);
/// How many digits of a line's hash identify it within an invoice.
const ID_DIGITS: usize = 16;
const PPM: i128 = 1_000_000;

/// A posted entry of usage that no invoice has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BilledEntry {
    /// Its place in the ledger.
    pub seq: i64,
    /// The line.
    pub line: LineKey,
    /// How much usage it adds.
    pub quantity_micros: i128,
    /// What it adds to what the org owes.
    pub receivable_micros: i64,
    /// The hash of the line as it was posted.
    pub evidence: EvidenceHash,
}

/// What an invoice says besides its lines.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a> {
    /// Its number.
    pub number: &'a str,
    /// The name of the org.
    pub org: &'a str,
    /// Who sells.
    pub seller: &'a Seller,
    /// How the org is billed.
    pub account: &'a BillingAccount,
    /// The billing period.
    pub period: Span,
    /// The last ledger entry that it takes into account.
    pub ledger_seq: i64,
    /// When it is issued.
    pub now: Timestamp,
}

/// The document for these entries, before credit.
///
/// # Errors
/// The tax is larger than the ledger can hold.
pub fn document(
    header: &Header<'_>,
    entries: &[BilledEntry],
    prices: &[PriceVersion],
) -> Result<InvoiceDocument, NotComputable> {
    let lines = lines(header.period, entries, prices);
    let subtotal = lines.iter().fold(0_i64, |sum, line| sum.saturating_add(line.amount_micros));
    let account = header.account;
    let tax = Ratio::new(i128::from(subtotal), 1)?
        .times(i128::from(account.tax_ppm), PPM)?
        .round_to(minor_unit(account.currency))?;
    let total = subtotal.saturating_add(tax);
    Ok(InvoiceDocument {
        number: header.number.to_owned(),
        seller: header.seller.clone(),
        customer: account.legal_name.clone(),
        address: account.address.clone(),
        org: header.org.to_owned(),
        period: header.period,
        time_zone: account.time_zone.clone(),
        currency: account.currency,
        lines,
        subtotal_micros: subtotal,
        tax_ppm: account.tax_ppm,
        tax_micros: tax,
        total_micros: total,
        credit_micros: 0,
        due_micros: total,
        ledger_seq: header.ledger_seq,
        heard: BTreeMap::new(),
        issued_at: header.now,
        due_at: header.now.checked_add(PAYABLE_FOR).unwrap_or(header.now),
    })
}

/// The lines of these entries, by period, item and price. A line without any effect is left out.
fn lines(period: Span, entries: &[BilledEntry], prices: &[PriceVersion]) -> Vec<InvoiceLine> {
    let mut groups: BTreeMap<&LineKey, Vec<&BilledEntry>> = BTreeMap::new();
    for entry in entries {
        groups.entry(&entry.line).or_default().push(entry);
    }
    let mut lines: Vec<InvoiceLine> = Vec::new();
    for (key, mut parts) in groups {
        parts.sort_by_key(|entry| entry.seq);
        let quantity = parts.iter().fold(0_i128, |sum, it| sum.saturating_add(it.quantity_micros));
        let amount = parts.iter().fold(0_i64, |sum, it| sum.saturating_add(it.receivable_micros));
        let Some(last) = parts.last().filter(|_| quantity != 0 || amount != 0) else { continue };
        let price = prices.iter().find(|price| price.id == key.version);
        lines.push(InvoiceLine {
            id: line_id(key),
            item: key.item.clone(),
            period: key.period,
            from: key.from,
            price: key.version,
            hourly_micros: price.and_then(|price| price.scheme.hourly_micros()),
            quantity: decimal(quantity),
            amount_micros: amount,
            correction: key.period != period,
            entries: parts.iter().map(|entry| entry.seq).collect(),
            evidence: last.evidence.to_string(),
        });
    }
    lines.sort_by(|a, b| (a.period, &a.item, a.from).cmp(&(b.period, &b.item, b.from)));
    lines
}

/// The text that identifies a line within an invoice.
#[must_use]
pub fn line_id(key: &LineKey) -> String {
    key.hash().to_string().chars().take(ID_DIGITS).collect()
}

/// A quantity in millionths as an exact decimal number.
#[must_use]
pub fn decimal(micros: i128) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    let one = MICROS.unsigned_abs();
    let text = format!("{sign}{}.{:06}", micros / one, micros % one);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The bytes of a document, and their hash.
#[must_use]
pub fn bytes(document: &InvoiceDocument) -> (String, EvidenceHash) {
    let text = serde_json::to_string(document).unwrap_or_default();
    let hash = EvidenceHash::new(Sha256::digest(text.as_bytes()).into());
    (text, hash)
}
