//! Issues invoices, records their payment, and voids them.
//!
//! An invoice is cut by the sequence of the ledger: it has every entry of usage that no other one
//! has. The lock of the ledger orders those who issue, so an entry is never on two invoices, and
//! numbers have no holes. What arrives later, of whatever period, is on the next one.

mod settle;

use jiff::Timestamp;
use trueup_model::billing::{BillingAccount, BillingSettings};
use trueup_model::event::{Fact, InvoiceIssued};
use trueup_model::id::{InvoiceId, OrgId};
use trueup_model::invoice::{Invoice, InvoiceDocument, InvoiceState};
use trueup_model::money::Money;
use trueup_model::usage::Span;
use trueup_rules::rate::account::Account;
use trueup_rules::rate::invoice::{BilledEntry, Header, bytes, document};
use trueup_rules::rate::period::month;
use trueup_rules::rate::posting::transfer;
use trueup_rules::rate::subscription::timeline;
use trueup_rules::rate::{NotComputable, credit, subscription as held};

use super::config::invalid;
use super::credit::{CreditRequest, expire, insert, pay};
use super::write::Write;
use super::{Accepted, Refusal, RequestContext, system_principal};
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::ledger::EntryKind;
use crate::work::accrual::post;
use crate::{App, Error, billing, invoice, ledger, price, subscription};

/// The loop that issues invoices when a period is over.
const CLOSER: &str = "invoice closer";

/// Which usage is to be invoiced.
#[derive(Debug, Clone, Copy)]
pub struct InvoiceRequest {
    /// A moment in the billing period; earlier usage that no invoice has is included.
    pub around: Timestamp,
    /// Whether the period may still be running.
    pub early: bool,
}

impl App {
    /// Invoices what an org used and no invoice has.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn issue_invoice(
        &self,
        org: OrgId,
        wanted: InvoiceRequest,
        settings: &BillingSettings,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Invoice>, Refusal> {
        self.write(org, context, now, |write| issue(write, wanted, settings)).await
    }

    /// Invoices the last complete period of an org, without a request.
    ///
    /// # Errors
    /// [`Refusal`] says why not; [`Refusal::Refused`] if there is nothing to invoice.
    pub async fn close_period(
        &self,
        org: OrgId,
        wanted: InvoiceRequest,
        settings: &BillingSettings,
        now: Timestamp,
    ) -> Result<Accepted<Invoice>, Refusal> {
        let principal = system_principal(org, CLOSER);
        let context = RequestContext::system(&principal);
        self.write(org, &context, now, |write| issue(write, wanted, settings)).await
    }

    /// Records that an invoice was paid.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn pay_invoice(
        &self,
        org: OrgId,
        wanted: &str,
        how: &str,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Invoice>, Refusal> {
        self.write(org, context, now, |write| {
            settle::settle(write, wanted, how, InvoiceState::Paid)
        })
        .await
    }

    /// Withdraws an invoice that is not paid: its usage is on the next one.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn void_invoice(
        &self,
        org: OrgId,
        wanted: &str,
        why: &str,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Invoice>, Refusal> {
        self.write(org, context, now, |write| {
            settle::settle(write, wanted, why, InvoiceState::Void)
        })
        .await
    }
}

async fn issue(
    mut write: Write<'_>,
    wanted: InvoiceRequest,
    settings: &BillingSettings,
) -> Result<Accepted<Invoice>, Refusal> {
    if let Some(earlier) = write.earlier().await? {
        let row = require(&mut write, &earlier).await?;
        return Ok(Accepted { row, changed: false });
    }
    let (org, now) = (write.org(), write.now);
    ledger::lock(&mut write.tx, org).await?;
    let account = billing::account(&mut write.tx, org, settings.currency).await?;
    let period = period(&account, wanted, now)?;
    // Up to date: what was used until now is on this invoice, not on the next one.
    post(&mut write.tx, org, settings, now).await?;
    let mut seq = ledger::lock(&mut write.tx, org).await?;
    let entries = invoice::not_invoiced(&mut write.tx, org, period).await?;
    let name = name(&mut write).await?;
    let mut prices = price::for_org(&mut write.tx, org).await?;
    let subscriptions = timeline(&subscription::recorded(&mut write.tx, org).await?, None);
    prices.extend(held::prices(&subscriptions));
    let number = next_number(&mut write, &name).await?;
    let header = Header {
        number: &number,
        org: &name,
        seller: &settings.seller,
        account: &account,
        period,
        ledger_seq: seq,
        now,
    };
    let mut document = document(&header, &entries, &prices).map_err(Error::from)?;
    let accrued = ledger::last_accrual(&mut write.tx, org).await?;
    document.heard = accrued.map(|(_, heard)| heard).unwrap_or_default();
    if document.lines.is_empty() {
        let message = "nothing was used in it, or before it, that is not invoiced yet";
        return Err(invalid("period", message.to_owned()));
    }
    let issued = book(&mut write, &mut seq, document, &entries).await?;
    let id = issued.id.to_string();
    write.finish_as(&id, Accepted { row: issued, changed: true }).await
}

/// The billing period of a request; one that still runs must be asked for.
fn period(
    account: &BillingAccount,
    wanted: InvoiceRequest,
    now: Timestamp,
) -> Result<Span, Refusal> {
    let found = month(&account.zone(), wanted.around);
    let period = found.ok_or_else(|| invalid("period", "is outside of the calendar".to_owned()))?;
    if period.from > now {
        return Err(invalid("period", "has not begun".to_owned()));
    }
    if period.until > now && !wanted.early {
        let message = format!("runs until {}; set `early` to invoice a part of it", period.until);
        return Err(invalid("period", message));
    }
    Ok(period)
}

/// Stores the invoice, posts its tax and what credit pays of it, and takes its entries.
async fn book(
    write: &mut Write<'_>,
    seq: &mut i64,
    mut document: InvoiceDocument,
    entries: &[BilledEntry],
) -> Result<Invoice, Refusal> {
    let (org, now) = (write.org(), write.now);
    let id: InvoiceId = new_id(now);
    post_tax(write, seq, &document, 1).await?;
    let credits = crate::credit::all(&mut write.tx, org).await?;
    expire(write, seq, &credits).await?;
    let drawn = credit::draw(&credits, document.currency, document.total_micros, now);
    document.credit_micros = drawn.iter().fold(0, |sum, (_, part)| sum.saturating_add(*part));
    document.due_micros = document.total_micros.saturating_sub(document.credit_micros);
    document.ledger_seq = *seq;
    let (text, hash) = bytes(&document);
    let (state, reason) = match document.due_micros {
        0 if document.credit_micros == 0 => (InvoiceState::Paid, Some("nothing to pay")),
        0 => (InvoiceState::Paid, Some("paid with credit")),
        due if due < 0 => (InvoiceState::Paid, Some("granted as credit")),
        _ => (InvoiceState::Issued, None),
    };
    sqlx::query(
        "insert into invoices (id, org_id, number, state, period_from, period_until, currency, due_micros,
                               document, hash, issued_at, due_at, paid_at, reason)
         values ($1, trueup_org(), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    )
    .bind(id.uuid())
    .bind(&document.number)
    .bind(state.into_str())
    .bind(sql(document.period.from))
    .bind(sql(document.period.until))
    .bind(document.currency.to_string())
    .bind(document.due_micros)
    .bind(text)
    .bind(hash.as_bytes())
    .bind(sql(document.issued_at))
    .bind(sql(document.due_at))
    .bind((state == InvoiceState::Paid).then_some(sql(now)))
    .bind(reason)
    .execute(&mut *write.tx)
    .await?;
    pay(write, seq, (id, &document.number), document.currency, &drawn).await?;
    if document.due_micros < 0 {
        refund(write, seq, &document).await?;
    }
    take(write, id, entries).await?;
    let fact = Fact::InvoiceIssued(InvoiceIssued {
        invoice: id,
        number: document.number.clone(),
        period_from: document.period.from,
        due_micros: document.due_micros,
        currency: document.currency,
        hash: hash.to_string(),
        principal: write.principal(),
    });
    write.record(fact).await?;
    require(write, &document.number).await
}

/// An invoice below zero is a credit note: its amount becomes credit.
async fn refund(
    write: &mut Write<'_>,
    seq: &mut i64,
    document: &InvoiceDocument,
) -> Result<(), Error> {
    let org = write.org();
    let micros = document.due_micros.saturating_neg();
    let amount = Money { micros, currency: document.currency };
    let reason = format!("credit note {}", document.number);
    insert(write, &CreditRequest { amount, reason, expires_at: None }, seq).await?;
    // The provider grants it because the org had paid it, or owes less by it.
    let accounts = (Account::Receivable(org), Account::Granted);
    let reference = format!("{} credit note", document.number);
    let entry = transfer(org, document.currency, accounts, micros, &reference);
    let about = (EntryKind::Credit, Some(reference.as_str()));
    *seq = ledger::append(&mut write.tx, org, about, *seq, &[entry], write.now).await?;
    Ok(())
}

/// Posts the tax of an invoice, or takes it back with a sign of -1.
async fn post_tax(
    write: &mut Write<'_>,
    seq: &mut i64,
    document: &InvoiceDocument,
    sign: i64,
) -> Result<(), Refusal> {
    if document.tax_micros == 0 {
        return Ok(());
    }
    let (org, now) = (write.org(), write.now);
    let micros = document.tax_micros.checked_mul(sign).ok_or(NotComputable).map_err(Error::from)?;
    let reference = match sign {
        1 => document.number.clone(),
        _ => format!("{} void", document.number),
    };
    let accounts = (Account::Receivable(org), Account::Tax);
    let entry = transfer(org, document.currency, accounts, micros, &reference);
    let about = (EntryKind::Invoice, Some(reference.as_str()));
    *seq = ledger::append(&mut write.tx, org, about, *seq, &[entry], now).await?;
    Ok(())
}

/// The entries belong to this invoice from now on.
async fn take(write: &mut Write<'_>, id: InvoiceId, entries: &[BilledEntry]) -> Result<(), Error> {
    let all: Vec<i64> = entries.iter().map(|entry| entry.seq).collect();
    sqlx::query(
        "insert into invoice_entries (org_id, seq, invoice_id)
         select trueup_org(), n.seq, $1 from unnest($2::bigint[]) as n (seq)",
    )
    .bind(id.uuid())
    .bind(all)
    .execute(&mut *write.tx)
    .await?;
    Ok(())
}

/// The number of the next invoice, such as `ACME-0007`: without holes for each org.
async fn next_number(write: &mut Write<'_>, org: &str) -> Result<String, Error> {
    let (count,): (i64,) = sqlx::query_as(
        "update ledger_heads set invoices = invoices + 1 where org_id = trueup_org()
         returning invoices",
    )
    .fetch_one(&mut *write.tx)
    .await?;
    Ok(format!("{}-{count:04}", org.to_uppercase()))
}

async fn name(write: &mut Write<'_>) -> Result<String, Error> {
    let name = sqlx::query_scalar("select name from orgs where id = trueup_org()");
    Ok(name.fetch_one(&mut *write.tx).await?)
}

async fn require(write: &mut Write<'_>, wanted: &str) -> Result<Invoice, Refusal> {
    let found = invoice::find(&mut write.tx, wanted, false).await?;
    found.ok_or(Refusal::NotFound("invoice"))
}
