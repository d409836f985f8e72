//! Grants credit, uses it, and ends what expired.
//!
//! Every step is an entry of the ledger, so the sum of the account `credit` is what is left.

use jiff::Timestamp;
use trueup_model::billing::BillingSettings;
use trueup_model::event::{CreditGranted, Fact};
use trueup_model::id::{CreditId, InvoiceId, OrgId};
use trueup_model::invoice::Credit;
use trueup_model::money::{Currency, Money};
use trueup_rules::admit::{FieldError, Refused};
use trueup_rules::rate::account::Account;
use trueup_rules::rate::posting::transfer;

use super::write::Write;
use super::{Accepted, Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::ledger::EntryKind;
use crate::{App, Error, balance, billing, credit, ledger};

/// The credit that is wanted for an org.
#[derive(Debug, Clone)]
pub struct CreditRequest {
    /// How much.
    pub amount: Money,
    /// Why.
    pub reason: String,
    /// When the rest of it expires; none if it never does.
    pub expires_at: Option<Timestamp>,
}

impl App {
    /// Grants credit to an org, in the currency of its billing account.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn grant_credit(
        &self,
        org: OrgId,
        wanted: &CreditRequest,
        settings: &BillingSettings,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Credit>, Refusal> {
        self.write(org, context, now, |write| grant(write, wanted, settings)).await
    }
}

async fn grant(
    mut write: Write<'_>,
    wanted: &CreditRequest,
    settings: &BillingSettings,
) -> Result<Accepted<Credit>, Refusal> {
    if let Some(earlier) = write.earlier().await? {
        let id: Option<CreditId> = earlier.parse().ok();
        let found = match id {
            Some(id) => credit::find(&mut write.tx, id).await?,
            None => None,
        };
        let row = found.ok_or(Refusal::NotFound("credit"))?;
        return Ok(Accepted { row, changed: false });
    }
    let org = write.org();
    let mut seq = ledger::lock(&mut write.tx, org).await?;
    let account = billing::account(&mut write.tx, org, settings.currency).await?;
    check(wanted, account.currency, write.now)?;
    let row = insert(&mut write, wanted, &mut seq).await?;
    let fact = Fact::CreditGranted(CreditGranted {
        credit: row.id,
        micros: row.granted_micros,
        currency: row.currency,
        principal: write.principal(),
    });
    write.record(fact).await?;
    balance::note(&mut write.tx, org, write.now).await?;
    let id = row.id.to_string();
    write.finish_as(&id, Accepted { row, changed: true }).await
}

fn check(wanted: &CreditRequest, currency: Currency, now: Timestamp) -> Result<(), Refusal> {
    let mut errors = Vec::new();
    if wanted.amount.currency != currency {
        let message = format!("must be {currency}, the currency of the org's billing account");
        errors.push(FieldError::at("currency", message));
    }
    if wanted.expires_at.is_some_and(|end| end <= now) {
        errors.push(FieldError::at("expires_at", "must be in the future"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Refusal::Refused(Refused::Invalid(errors))) }
}

/// Records a credit and posts it to a locked ledger.
pub(super) async fn insert(
    write: &mut Write<'_>,
    wanted: &CreditRequest,
    seq: &mut i64,
) -> Result<Credit, Error> {
    let row = Credit {
        id: new_id(write.now),
        granted_micros: wanted.amount.micros,
        used_micros: 0,
        expired_micros: 0,
        currency: wanted.amount.currency,
        reason: wanted.reason.clone(),
        expires_at: wanted.expires_at,
        granted_at: write.now,
        granted_by: write.principal_name().to_owned(),
    };
    sqlx::query(
        "insert into credits (id, org_id, granted_micros, currency, reason, expires_at, granted_at, granted_by)
         values ($1, trueup_org(), $2, $3, $4, $5, $6, $7)",
    )
    .bind(row.id.uuid())
    .bind(row.granted_micros)
    .bind(row.currency.to_string())
    .bind(&row.reason)
    .bind(row.expires_at.map(sql))
    .bind(sql(row.granted_at))
    .bind(&row.granted_by)
    .execute(&mut *write.tx)
    .await?;
    let accounts = (Account::Granted, Account::Credit(write.org()));
    post(write, seq, accounts, row.granted_micros, row.currency, &row.id.to_string()).await?;
    Ok(row)
}

/// Posts a transfer that concerns credit.
async fn post(
    write: &mut Write<'_>,
    seq: &mut i64,
    accounts: (Account, Account),
    micros: i64,
    currency: Currency,
    reference: &str,
) -> Result<(), Error> {
    let (org, now) = (write.org(), write.now);
    let entry = transfer(org, currency, accounts, micros, reference);
    let about = (EntryKind::Credit, Some(reference));
    *seq = ledger::append(&mut write.tx, org, about, *seq, &[entry], now).await?;
    Ok(())
}

/// Ends the credits whose time is over: what is left of them goes back to the provider.
pub(super) async fn expire(
    write: &mut Write<'_>,
    seq: &mut i64,
    credits: &[Credit],
) -> Result<(), Error> {
    let now = write.now;
    for credit in credit::expired(credits, now) {
        let left = credit.left_micros();
        sqlx::query("update credits set expired_micros = expired_micros + $2 where id = $1")
            .bind(credit.id.uuid())
            .bind(left)
            .execute(&mut *write.tx)
            .await?;
        let accounts = (Account::Credit(write.org()), Account::Granted);
        let reference = format!("{} expired", credit.id);
        post(write, seq, accounts, left, credit.currency, &reference).await?;
    }
    Ok(())
}

/// Pays a part of an invoice with credit.
pub(super) async fn pay(
    write: &mut Write<'_>,
    seq: &mut i64,
    (invoice, number): (InvoiceId, &str),
    currency: Currency,
    drawn: &[(CreditId, i64)],
) -> Result<(), Error> {
    for (credit, micros) in drawn {
        sqlx::query(
            "with used as (update credits set used_micros = used_micros + $3 where id = $2)
             insert into invoice_credits (org_id, invoice_id, credit_id, micros)
             values (trueup_org(), $1, $2, $3)",
        )
        .bind(invoice.uuid())
        .bind(credit.uuid())
        .bind(micros)
        .execute(&mut *write.tx)
        .await?;
        let accounts = (Account::Credit(write.org()), Account::Receivable(write.org()));
        let reference = format!("{number} {credit}");
        post(write, seq, accounts, *micros, currency, &reference).await?;
    }
    Ok(())
}

/// Gives back the credit that paid a part of a voided invoice.
pub(super) async fn give_back(
    write: &mut Write<'_>,
    seq: &mut i64,
    (invoice, number): (InvoiceId, &str),
    currency: Currency,
) -> Result<(), Error> {
    let returned: Vec<(uuid::Uuid, i64)> = sqlx::query_as(
        "update credits c set used_micros = c.used_micros - i.micros
         from invoice_credits i where i.invoice_id = $1 and c.id = i.credit_id
         returning c.id, i.micros",
    )
    .bind(invoice.uuid())
    .fetch_all(&mut *write.tx)
    .await?;
    for (credit, micros) in returned {
        let credit = CreditId::from_uuid(credit);
        let accounts = (Account::Receivable(write.org()), Account::Credit(write.org()));
        let reference = format!("{number} void {credit}");
        post(write, seq, accounts, micros, currency, &reference).await?;
    }
    Ok(())
}
