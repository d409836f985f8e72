//! Sets how orgs are billed.

use jiff::Timestamp;
use trueup_model::billing::{BillingAccount, BillingSettings};
use trueup_model::event::{BillingAccountChanged, Fact};
use trueup_model::id::OrgId;
use trueup_rules::admit::{FieldError, Refused};

use super::config::invalid;
use super::write::Write;
use super::{Refusal, RequestContext};
use crate::db::clock::sql;
use crate::{App, Error, billing, ledger, subscription};

impl App {
    /// Sets the billing account of an org; returns whether it changed.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn put_billing_account(
        &self,
        org: OrgId,
        account: &BillingAccount,
        settings: &BillingSettings,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(BillingAccount, bool), Refusal> {
        self.write(org, context, now, |write| put(write, account, settings)).await
    }
}

async fn put(
    mut write: Write<'_>,
    account: &BillingAccount,
    settings: &BillingSettings,
) -> Result<(BillingAccount, bool), Refusal> {
    let org = write.org();
    // Locked: nothing is posted in the former currency meanwhile.
    let entries = ledger::lock(&mut write.tx, org).await?;
    let current = billing::account(&mut write.tx, org, settings.currency).await?;
    if current == *account {
        return write.finish((current, false)).await;
    }
    if entries > 0 {
        check_unchanged(&current, account)?;
    }
    let recorded = subscription::recorded(&mut write.tx, org).await?;
    if let Some(held) = recorded.last().filter(|held| held.offer.currency != account.currency) {
        let message = format!(
            "must be {}: the subscription `{}` has its prices in it, and they are not converted",
            held.offer.currency, held.offer.name
        );
        return Err(invalid("currency", message));
    }
    store(&mut write, account).await?;
    let fact = Fact::BillingAccountChanged(BillingAccountChanged {
        currency: account.currency,
        time_zone: account.time_zone.clone(),
        tax_ppm: account.tax_ppm,
        principal: write.principal(),
    });
    write.record(fact).await?;
    write.finish((account.clone(), true)).await
}

/// Once something was posted, the currency and the time zone stay: amounts are not converted, and
/// usage in a period of the former zone would be posted again in one of the new zone.
fn check_unchanged(current: &BillingAccount, wanted: &BillingAccount) -> Result<(), Refusal> {
    let mut errors = Vec::new();
    if current.currency != wanted.currency {
        let now = current.currency;
        let message =
            format!("must stay {now}: the ledger has amounts in it, and they are not converted");
        errors.push(FieldError::at("currency", message));
    }
    if current.time_zone != wanted.time_zone {
        let now = &current.time_zone;
        let message = format!("must stay {now}: the ledger has billing periods in it");
        errors.push(FieldError::at("time_zone", message));
    }
    if errors.is_empty() { Ok(()) } else { Err(Refusal::Refused(Refused::Invalid(errors))) }
}

async fn store(write: &mut Write<'_>, account: &BillingAccount) -> Result<(), Error> {
    sqlx::query(
        "insert into billing_accounts (org_id, currency, time_zone, tax_ppm, legal_name, address, changed_at)
         values (trueup_org(), $1, $2, $3, $4, $5, $6)
         on conflict (org_id) do update
             set currency = excluded.currency, time_zone = excluded.time_zone, tax_ppm = excluded.tax_ppm,
                 legal_name = excluded.legal_name, address = excluded.address, changed_at = excluded.changed_at",
    )
    .bind(account.currency.to_string())
    .bind(&account.time_zone)
    .bind(i32::try_from(account.tax_ppm).unwrap_or(i32::MAX))
    .bind(&account.legal_name)
    .bind(&account.address)
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    Ok(())
}
