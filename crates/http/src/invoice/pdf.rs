//! An invoice as a PDF of A4 pages, in the fonts that every reader has.
//!
//! Nothing in it depends on the time or the machine, so the same invoice gives the same bytes.

mod page;
mod text;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use trueup_model::billing::BillingAccount;
use trueup_model::invoice::{Invoice, InvoiceDocument, InvoiceLine, InvoiceState};
use trueup_model::money::Money;
use trueup_model::price::PriceItem;
use trueup_model::usage::Meter;

use crate::billing::percent;
use page::{BOTTOM, Font, LEFT, Pages, RIGHT};

/// Where the columns of numbers end.
const QUANTITY: f32 = 390.0;
const PRICE: f32 = 465.0;
/// The height of a row of the table.
const ROW: f32 = 30.0;
/// The seconds of an hour, in millionths of a second, for quantities of time.
const HOUR_SECONDS: f64 = 3600.0;

/// The file.
pub(super) fn render(invoice: &Invoice) -> Vec<u8> {
    let document = &invoice.document;
    let zone = zone(document);
    let mut pages = Pages::new();
    let mut y = head(&mut pages, invoice, &zone);
    y = columns(&mut pages, y);
    for line in &document.lines {
        if y < BOTTOM + ROW {
            let top = pages.turn();
            y = columns(&mut pages, top);
        }
        row(&mut pages, y, document, line, &zone);
        y -= ROW;
    }
    if y < BOTTOM + 120.0 {
        y = pages.turn();
    }
    totals(&mut pages, y, document);
    pages.finish(&[
        &format!("Document SHA-256 {}", invoice.hash),
        &format!(
            "Ledger up to entry {}. Each line opens to its evidence: trueup invoice explain {} LINE",
            document.ledger_seq, document.number
        ),
    ])
}

/// Seller, customer, number and dates; returns where the table begins.
fn head(pages: &mut Pages, invoice: &Invoice, zone: &TimeZone) -> f32 {
    let document = &invoice.document;
    let title = if document.due_micros < 0 { "Credit note" } else { "Invoice" };
    pages.left(LEFT, 770.0, Font::Bold, 22.0, title);
    pages.left(LEFT, 752.0, Font::Plain, 11.0, &document.number);
    let seller = &document.seller;
    pages.right(RIGHT, 774.0, Font::Bold, 11.0, name(&seller.name, "Seller"));
    let tax_id = (!seller.tax_id.is_empty()).then(|| format!("Tax number {}", seller.tax_id));
    for (line, y) in seller.address.lines().chain(tax_id.as_deref()).zip(steps(760.0)) {
        pages.right(RIGHT, y, Font::Plain, 9.0, line);
    }
    pages.grey(LEFT, 690.0, 9.0, "Billed to");
    pages.left(LEFT, 675.0, Font::Bold, 11.0, name(&document.customer, &document.org));
    for (line, y) in document.address.lines().zip(steps(661.0)) {
        pages.left(LEFT, y, Font::Plain, 9.0, line);
    }
    let until = document.period.until.saturating_sub(jiff::SignedDuration::from_secs(1));
    let period = format!(
        "{} to {}",
        day(document.period.from, zone),
        day(until.unwrap_or(document.period.until), zone)
    );
    let state = match invoice.state {
        InvoiceState::Issued => format!("due {}", day(document.due_at, zone)),
        InvoiceState::Paid => "paid".to_owned(),
        InvoiceState::Void => "void".to_owned(),
    };
    let facts = [
        ("Issued", day(document.issued_at, zone)),
        ("Period", period),
        ("Time zone", document.time_zone.clone()),
        ("State", state),
    ];
    for ((label, text), y) in facts.iter().zip(steps(690.0)) {
        pages.grey(360.0, y, 9.0, label);
        pages.right(RIGHT, y, Font::Plain, 9.0, text);
    }
    600.0
}

/// The head of the table; returns where the first row begins.
fn columns(pages: &mut Pages, y: f32) -> f32 {
    pages.grey(LEFT, y, 8.0, "Item");
    pages.grey_right(QUANTITY, y, 8.0, "Quantity");
    pages.grey_right(PRICE, y, 8.0, "Price per hour");
    pages.grey_right(RIGHT, y, 8.0, "Amount");
    pages.rule(y - 6.0);
    y - 22.0
}

fn row(pages: &mut Pages, y: f32, document: &InvoiceDocument, line: &InvoiceLine, zone: &TimeZone) {
    let money = |micros: i64| Money { micros, currency: document.currency }.to_string();
    pages.left(LEFT, y, Font::Plain, 10.0, &title(line));
    let period = format!("from {}, line {}", day(line.from, zone), line.id);
    pages.grey(LEFT, y - 11.0, 7.5, &period);
    pages.right(QUANTITY, y, Font::Plain, 10.0, &quantity(line));
    let price = line.hourly_micros.map_or_else(|| "by tiers".to_owned(), money);
    pages.right(PRICE, y, Font::Plain, 10.0, &price);
    pages.right(RIGHT, y, Font::Plain, 10.0, &money(line.amount_micros));
}

fn totals(pages: &mut Pages, y: f32, document: &InvoiceDocument) {
    let money = |micros: i64| Money { micros, currency: document.currency }.to_string();
    pages.rule(y + 12.0);
    let tax = format!("Tax {} %", percent(document.tax_ppm));
    let mut rows = vec![
        ("Subtotal".to_owned(), document.subtotal_micros),
        (tax, document.tax_micros),
        ("Total".to_owned(), document.total_micros),
    ];
    if document.credit_micros != 0 {
        rows.push(("Paid with credit".to_owned(), document.credit_micros.saturating_neg()));
    }
    let mut at = y - 6.0;
    for (label, micros) in &rows {
        pages.left(360.0, at, Font::Plain, 10.0, label);
        pages.right(RIGHT, at, Font::Plain, 10.0, &money(*micros));
        at -= 16.0;
    }
    pages.left(360.0, at - 4.0, Font::Bold, 12.0, "Amount due");
    pages.right(RIGHT, at - 4.0, Font::Bold, 12.0, &money(document.due_micros));
}

/// What a line charges, in words.
fn title(line: &InvoiceLine) -> String {
    let what = match &line.item {
        PriceItem::Pod { plan } => format!("Pods of plan {plan}"),
        PriceItem::DiskGib { plan } => format!("Disks of plan {plan}"),
        PriceItem::Meter(meter) => meter.to_string().replace('_', " "),
        PriceItem::Subscription { offer } => format!("Subscription {offer}"),
    };
    if line.correction { format!("Correction: {what}") } else { what }
}

/// A quantity for people: hours instead of seconds. The exact one is in the CSV.
fn quantity(line: &InvoiceLine) -> String {
    let Ok(exact) = line.quantity.parse::<f64>() else { return line.quantity.clone() };
    match line.item.meter() {
        Some(Meter::PodSeconds) => format!("{:.3} h", exact / HOUR_SECONDS),
        Some(Meter::DiskGibSeconds) => format!("{:.3} GiB h", exact / HOUR_SECONDS),
        Some(Meter::GpuSeconds) => format!("{:.3} GPU h", exact / HOUR_SECONDS),
        Some(Meter::CpuMilliSeconds | Meter::MemoryMibSeconds | Meter::EgressBytes) | None => {
            format!("{} {}", line.quantity, line.item.unit())
        }
    }
}

fn name<'a>(given: &'a str, otherwise: &'a str) -> &'a str {
    if given.is_empty() { otherwise } else { given }
}

fn zone(document: &InvoiceDocument) -> TimeZone {
    let account = BillingAccount::default_in(document.currency);
    BillingAccount { time_zone: document.time_zone.clone(), ..account }.zone()
}

fn day(at: Timestamp, zone: &TimeZone) -> String {
    zone.to_datetime(at).date().to_string()
}

/// The heights of lines of text, from the first one down.
fn steps(first: f32) -> impl Iterator<Item = f32> {
    std::iter::successors(Some(first), |y| Some(y - 12.0)).take(6)
}
