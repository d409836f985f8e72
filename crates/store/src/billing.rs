//! Billing: the account of an org, and everything that its costs are computed from.

use jiff::{SignedDuration, Timestamp};
use sqlx::Row;
use trueup_model::billing::{BillingAccount, BillingSettings};
use trueup_model::id::{OrgId, ServiceId};
use trueup_model::money::Currency;
use trueup_model::offer::Subscription;
use trueup_model::price::{Discount, PriceVersion};
use trueup_model::usage::Span;
use trueup_rules::rate::line::LineClass;
use trueup_rules::rate::period::month;
use trueup_rules::rate::rounding::minor_unit;
use trueup_rules::rate::subscription::timeline;
use trueup_rules::rate::{NotComputable, PriceList, Rated, Terms, rate, subscription as held};

use crate::db::pool::Tx;
use crate::db::row::read;
use crate::usage::{self, Heard, OrgUsage};
use crate::{App, Error, price, subscription};

/// A service with the names that people know it by, deleted ones included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoldService {
    /// The service.
    pub id: ServiceId,
    /// Its name.
    pub name: String,
    /// The name of its project.
    pub project: String,
}

/// Everything that the costs of an org in one billing period are computed from.
#[derive(Debug, Clone)]
pub struct CostInputs {
    /// The org.
    pub org: OrgId,
    /// How it is billed.
    pub account: BillingAccount,
    /// The billing period.
    pub period: Span,
    /// What was used in it.
    pub usage: OrgUsage,
    /// The prices, with those of the org's subscriptions.
    pub prices: Vec<PriceVersion>,
    /// The discounts of the org's subscriptions.
    pub discounts: Vec<Discount>,
    /// What the org subscribed to, in order of time.
    pub subscriptions: Vec<Subscription>,
    /// The services that usage belongs to.
    pub services: Vec<SoldService>,
}

impl CostInputs {
    /// How usage is rated.
    #[must_use]
    pub fn terms(&self, charge_simulated: bool) -> Terms {
        Terms {
            org: self.org,
            currency: self.account.currency,
            period: self.period,
            unit_micros: minor_unit(self.account.currency),
            charge_simulated,
        }
    }

    /// What the usage costs.
    ///
    /// # Errors
    /// A price is for zero units, or an amount is too large.
    pub fn rate(&self, charge_simulated: bool) -> Result<Rated, NotComputable> {
        let prices = PriceList {
            versions: &self.prices,
            discounts: &self.discounts,
            subscriptions: &self.subscriptions,
        };
        rate(&self.terms(charge_simulated), &prices, &self.usage.intervals)
    }

    /// What the org is charged for the usage.
    ///
    /// # Errors
    /// A price is for zero units, or an amount is too large.
    pub fn charged(&self, charge_simulated: bool) -> Result<i64, NotComputable> {
        let rated = self.rate(charge_simulated)?;
        let charged = rated.lines.iter().filter(|line| line.key.class == LineClass::Charged);
        Ok(charged.fold(0, |sum, line| sum.saturating_add(line.value_micros)))
    }

    /// Everything that runs now, running through a whole period.
    #[must_use]
    pub(crate) fn running_in(&self, period: Span) -> Self {
        let mut later = Self { period, ..self.clone() };
        later.usage.intervals.retain(|interval| interval.growing);
        for interval in &mut later.usage.intervals {
            interval.span = period;
        }
        later
    }

    /// The same under another subscription, or under none.
    #[must_use]
    pub(crate) fn subscribed(mut self, to: Option<Subscription>) -> Self {
        let is_of_offer = |version: &PriceVersion| version.org.is_some();
        self.prices.retain(|version| !is_of_offer(version));
        self.subscriptions = to.into_iter().collect();
        self.prices.extend(held::prices(&self.subscriptions));
        self.discounts = held::discounts(&self.subscriptions).collect();
        self
    }
}

impl App {
    /// How an org is billed.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_billing_account(
        &self,
        org: OrgId,
        settings: &BillingSettings,
    ) -> Result<BillingAccount, Error> {
        let mut tx = self.begin(org).await?;
        account(&mut tx, org, settings.currency).await
    }

    /// What the costs of an org in the billing period around a moment are computed from.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn cost_inputs(
        &self,
        org: OrgId,
        around: Timestamp,
        settings: &BillingSettings,
    ) -> Result<CostInputs, Error> {
        let mut tx = self.begin(org).await?;
        let account = account(&mut tx, org, settings.currency).await?;
        let heard = usage::watermarks(&mut *tx, None).await?;
        inputs(&mut tx, org, account, around, &heard, None).await
    }
}

/// What the costs of the period around a moment are computed from, as far as sources were heard, and by
/// the subscriptions that were recorded by a moment.
pub(crate) async fn inputs(
    tx: &mut Tx,
    org: OrgId,
    account: BillingAccount,
    around: Timestamp,
    heard: &Heard,
    recorded_by: Option<Timestamp>,
) -> Result<CostInputs, Error> {
    let period = month(&account.zone(), around).unwrap_or(Span { from: around, until: around });
    let subscriptions = timeline(&subscription::recorded(tx, org).await?, recorded_by);
    let mut prices = price::for_org(tx, org).await?;
    prices.extend(held::prices(&subscriptions));
    Ok(CostInputs {
        org,
        period,
        usage: usage::of_org(tx, org, period, heard).await?,
        discounts: held::discounts(&subscriptions).collect(),
        prices,
        subscriptions,
        services: services(tx, org).await?,
        account,
    })
}

/// The next moment that Postgres can store.
pub(crate) fn just_after(at: Timestamp) -> Timestamp {
    at.checked_add(SignedDuration::from_micros(1)).unwrap_or(at)
}

/// The currency that an org has set; none if it has that of the installation.
pub(crate) async fn currency(tx: &mut Tx, org: OrgId) -> Result<Option<Currency>, Error> {
    let set: Option<(String,)> =
        sqlx::query_as("select currency from billing_accounts where org_id = $1")
            .bind(org.uuid())
            .fetch_optional(&mut **tx)
            .await?;
    set.map(|(currency,)| read("currency", currency)).transpose()
}

/// The account of an org, or the default one.
pub(crate) async fn account(
    tx: &mut Tx,
    org: OrgId,
    currency: Currency,
) -> Result<BillingAccount, Error> {
    let row = sqlx::query(
        "select currency, time_zone, tax_ppm, legal_name, address from billing_accounts where org_id = $1",
    )
    .bind(org.uuid())
    .fetch_optional(&mut **tx)
    .await?;
    let Some(row) = row else { return Ok(BillingAccount::default_in(currency)) };
    let tax: i32 = row.try_get("tax_ppm")?;
    Ok(BillingAccount {
        currency: read("currency", row.try_get("currency")?)?,
        time_zone: row.try_get("time_zone")?,
        tax_ppm: u32::try_from(tax).unwrap_or(0),
        legal_name: row.try_get("legal_name")?,
        address: row.try_get("address")?,
    })
}

async fn services(tx: &mut Tx, org: OrgId) -> Result<Vec<SoldService>, Error> {
    let rows: Vec<(uuid::Uuid, String, String)> = sqlx::query_as(
        "select s.id, s.name, p.name from services s join projects p on p.id = s.project_id
         where s.org_id = $1",
    )
    .bind(org.uuid())
    .fetch_all(&mut **tx)
    .await?;
    let sold = |(id, name, project)| SoldService { id: ServiceId::from_uuid(id), name, project };
    Ok(rows.into_iter().map(sold).collect())
}
