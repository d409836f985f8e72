//! The balance of an org: what it was granted and paid, less what it was charged.
//!
//! An org whose subscription is paid in advance has nothing left once something was charged that no
//! credit covers. Whether that is so is stored when it may change, so that a request need not add up
//! the ledger.

use jiff::Timestamp;
use trueup_model::billing::BillingSettings;
use trueup_model::budget::AtLimit;
use trueup_model::event::{BalanceExhausted, Fact, Source};
use trueup_model::id::OrgId;
use trueup_model::money::Money;
use trueup_model::subject::Subject;
use trueup_rules::rate::account::Account;
use trueup_rules::rate::subscription::{held_at, timeline};

use crate::db::pool::Tx;
use crate::db::row::read;
use crate::{App, Error, billing, event, subscription};

/// What an org owes and what it has, by its ledger.
#[derive(Debug, Clone, Copy)]
struct Sums {
    owed_micros: i64,
    credit_micros: i64,
}

impl Sums {
    const fn balance(self) -> i64 {
        self.credit_micros.saturating_sub(self.owed_micros)
    }

    /// Whether something was charged that no credit covers.
    const fn is_exhausted(self) -> bool {
        self.owed_micros > 0 && self.balance() <= 0
    }
}

impl App {
    /// The balance of an org: below zero if it owes something.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_balance(
        &self,
        org: OrgId,
        settings: &BillingSettings,
    ) -> Result<Money, Error> {
        let mut tx = self.begin(org).await?;
        let account = billing::account(&mut tx, org, settings.currency).await?;
        Ok(Money { micros: sums(&mut tx, org).await?.balance(), currency: account.currency })
    }
}

async fn sums(tx: &mut Tx, org: OrgId) -> Result<Sums, Error> {
    let (owed_micros, credit): (i64, i64) = sqlx::query_as(
        "select coalesce(sum(micros) filter (where account = $2), 0)::bigint,
                coalesce(sum(micros) filter (where account = $3), 0)::bigint
         from ledger_postings where org_id = $1 and account in ($2, $3)",
    )
    .bind(org.uuid())
    .bind(Account::Receivable(org).to_string())
    .bind(Account::Credit(org).to_string())
    .fetch_one(&mut **tx)
    .await?;
    Ok(Sums { owed_micros, credit_micros: credit.saturating_neg() })
}

/// Stores whether an org has no balance left, with an event if that is new; returns what happens then.
pub(crate) async fn note(
    tx: &mut Tx,
    org: OrgId,
    now: Timestamp,
) -> Result<Option<AtLimit>, Error> {
    let timeline = timeline(&subscription::recorded(tx, org).await?, None);
    let held = held_at(&timeline, now);
    let policy = held.and_then(|held| Some((held.offer.at_zero?, held.offer.currency)));
    let mut reached = None;
    if let Some((at_zero, currency)) = policy {
        let sums = sums(tx, org).await?;
        reached = sums.is_exhausted().then_some((at_zero, currency, sums.balance()));
    }
    let wanted = reached.map(|(at_zero, ..)| at_zero);
    let before = stored(tx, org).await?;
    if before == wanted {
        return Ok(wanted);
    }
    sqlx::query("update ledger_heads set at_zero = $2 where org_id = $1")
        .bind(org.uuid())
        .bind(wanted.map(|at_zero| at_zero.into_str()))
        .execute(&mut **tx)
        .await?;
    if let (None, Some((at_zero, currency, balance_micros))) = (before, reached) {
        let fact = Fact::BalanceExhausted(BalanceExhausted { balance_micros, currency, at_zero });
        let event = event::about(org, Subject::Org(org), 0, fact, Source::Billing, now);
        event::record(tx, &[event]).await?;
    }
    Ok(wanted)
}

/// Whether an org has no balance left and may therefore take nothing more.
pub(crate) async fn refuses(tx: &mut Tx, org: OrgId) -> Result<bool, Error> {
    Ok(match stored(tx, org).await? {
        None | Some(AtLimit::Warn) => false,
        Some(AtLimit::Refuse | AtLimit::Pause) => true,
    })
}

/// What happens because the org has no balance left, as it was noted last.
async fn stored(tx: &mut Tx, org: OrgId) -> Result<Option<AtLimit>, Error> {
    let found: Option<(Option<String>,)> =
        sqlx::query_as("select at_zero from ledger_heads where org_id = $1")
            .bind(org.uuid())
            .fetch_optional(&mut **tx)
            .await?;
    found.and_then(|(at_zero,)| at_zero).map(|at_zero| read("at_zero", at_zero)).transpose()
}
