//! Invoices as they are shown.

use trueup_api::cost::BillingPeriod;
use trueup_api::invoice::{Invoice, InvoiceLine, Party};
use trueup_model::billing::BillingAccount;
use trueup_model::invoice::{self as model, InvoiceDocument};
use trueup_model::money::{Currency, Money};

use crate::billing::percent;
use crate::plan::money;

pub(super) fn view(invoice: &model::Invoice) -> Invoice {
    let document = &invoice.document;
    let amount = |micros: i64| money(Money { micros, currency: document.currency });
    Invoice {
        id: invoice.id.to_string(),
        number: document.number.clone(),
        state: invoice.state,
        period: period(document),
        currency: document.currency.to_string(),
        seller: Party {
            name: document.seller.name.clone(),
            address: document.seller.address.clone(),
            reference: document.seller.tax_id.clone(),
        },
        customer: Party {
            name: document.customer.clone(),
            address: document.address.clone(),
            reference: document.org.clone(),
        },
        lines: document.lines.iter().map(|one| line(one, document.currency)).collect(),
        subtotal: amount(document.subtotal_micros),
        tax_percent: percent(document.tax_ppm),
        tax: amount(document.tax_micros),
        total: amount(document.total_micros),
        credit: amount(document.credit_micros),
        due: amount(document.due_micros),
        ledger_seq: document.ledger_seq,
        hash: invoice.hash.clone(),
        issued_at: document.issued_at,
        due_at: document.due_at,
        paid_at: invoice.paid_at,
        voided_at: invoice.voided_at,
        reason: invoice.reason.clone(),
    }
}

pub(super) fn line(line: &model::InvoiceLine, currency: Currency) -> InvoiceLine {
    let amount = |micros: i64| money(Money { micros, currency });
    InvoiceLine {
        id: line.id.clone(),
        item: line.item.to_string(),
        quantity: line.quantity.clone(),
        unit: line.item.unit().to_owned(),
        hourly: line.hourly_micros.map(amount),
        price: line.price.to_string(),
        from: line.from,
        until: line.period.until,
        amount: amount(line.amount_micros),
        correction: line.correction,
        entries: line.entries.clone(),
        evidence: line.evidence.clone(),
    }
}

/// The billing period by its month in the time zone of the invoice.
fn period(document: &InvoiceDocument) -> BillingPeriod {
    let account = BillingAccount {
        time_zone: document.time_zone.clone(),
        ..BillingAccount::default_in(document.currency)
    };
    let first = account.zone().to_datetime(document.period.from).date();
    BillingPeriod {
        name: first.strftime("%Y-%m").to_string(),
        from: document.period.from,
        until: document.period.until,
    }
}
