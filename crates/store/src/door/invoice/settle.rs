//! Records that an issued invoice was paid, or voids it.
//!
//! A void invoice gives back the credit that it used, and its entries are on the next invoice.

use trueup_model::event::{Fact, InvoicePaid, InvoiceVoided};
use trueup_model::invoice::{Invoice, InvoiceDocument, InvoiceState};
use trueup_rules::rate::account::Account;
use trueup_rules::rate::posting::transfer;

use super::{post_tax, require};
use crate::db::clock::sql;
use crate::door::credit::give_back;
use crate::door::write::Write;
use crate::door::{Accepted, Refusal};
use crate::ledger::EntryKind;
use crate::{Error, balance, invoice, ledger};

/// Records what became of an issued invoice.
pub(super) async fn settle(
    mut write: Write<'_>,
    wanted: &str,
    reason: &str,
    state: InvoiceState,
) -> Result<Accepted<Invoice>, Refusal> {
    let repeated = write.earlier().await?.is_some();
    let org = write.org();
    let mut seq = ledger::lock(&mut write.tx, org).await?;
    let found = invoice::find(&mut write.tx, wanted, true).await?;
    let found = found.ok_or(Refusal::NotFound("invoice"))?;
    if repeated {
        return Ok(Accepted { row: found, changed: false });
    }
    check_open(&found)?;
    let column = if state == InvoiceState::Paid { "paid_at" } else { "voided_at" };
    sqlx::query(sqlx::AssertSqlSafe(format!(
        "update invoices set state = $2, {column} = $3, reason = $4 where id = $1"
    )))
    .bind(found.id.uuid())
    .bind(state.into_str())
    .bind(sql(write.now))
    .bind(reason)
    .execute(&mut *write.tx)
    .await?;
    let (invoice, number) = (found.id, found.document.number.clone());
    let principal = write.principal();
    let fact = if state == InvoiceState::Paid {
        post_payment(&mut write, &mut seq, &found.document).await?;
        Fact::InvoicePaid(InvoicePaid { invoice, number, principal })
    } else {
        release(&mut write, &mut seq, &found).await?;
        Fact::InvoiceVoided(InvoiceVoided { invoice, number, principal })
    };
    write.record(fact).await?;
    balance::note(&mut write.tx, org, write.now).await?;
    let row = require(&mut write, wanted).await?;
    let id = row.id.to_string();
    write.finish_as(&id, Accepted { row, changed: true }).await
}

fn check_open(found: &Invoice) -> Result<(), Refusal> {
    let at = match found.state {
        InvoiceState::Issued => return Ok(()),
        InvoiceState::Paid => found.paid_at,
        InvoiceState::Void => found.voided_at,
    };
    let decision = match found.state {
        InvoiceState::Void => "voided",
        InvoiceState::Paid | InvoiceState::Issued => "paid",
    };
    let at = at.unwrap_or(found.document.issued_at);
    Err(Refusal::Decided { what: "invoice", decision: decision.to_owned(), by: None, at })
}

async fn post_payment(
    write: &mut Write<'_>,
    seq: &mut i64,
    document: &InvoiceDocument,
) -> Result<(), Error> {
    let (org, now, number) = (write.org(), write.now, document.number.as_str());
    let accounts = (Account::Cash, Account::Receivable(org));
    let entry = transfer(org, document.currency, accounts, document.due_micros, number);
    let about = (EntryKind::Payment, Some(number));
    *seq = ledger::append(&mut write.tx, org, about, *seq, &[entry], now).await?;
    Ok(())
}

/// Takes back what an invoice did: its tax, the credit it used, and its entries.
async fn release(write: &mut Write<'_>, seq: &mut i64, found: &Invoice) -> Result<(), Refusal> {
    post_tax(write, seq, &found.document, -1).await?;
    let about = (found.id, found.document.number.as_str());
    give_back(write, seq, about, found.document.currency).await?;
    sqlx::query("update invoice_entries set released = true where org_id = trueup_org() and invoice_id = $1")
        .bind(found.id.uuid())
        .execute(&mut *write.tx)
        .await?;
    Ok(())
}
