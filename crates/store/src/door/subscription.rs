//! Publishes offers, and changes the subscriptions of orgs.

use jiff::Timestamp;
use trueup_model::OrgId;
use trueup_model::billing::{BillingAccount, BillingSettings};
use trueup_model::event::{Fact, OfferPublished, SubscriptionChanged};
use trueup_model::money::Money;
use trueup_model::offer::{Offer, Subscription};
use trueup_model::org::PLATFORM;
use trueup_model::quota::Quota;
use trueup_rules::admit::Refused;
use trueup_rules::rate::offer_check::check_offer;
use trueup_rules::rate::period::month;
use trueup_rules::rate::subscription::{Excess, exceeded, held_at, timeline};

use super::config::invalid;
use super::write::Write;
use super::{Accepted, Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::{App, Error, balance, billing, ledger, offer, quota, subscription, usage};

/// A change of a subscription that is wanted.
#[derive(Debug, Clone, Copy)]
pub struct SubscriptionRequest<'a> {
    /// The name of the offer.
    pub offer: &'a str,
    /// The version; the newest one without it.
    pub version: Option<u32>,
    /// Whether it begins with the next billing period, not at once.
    pub next_period: bool,
}

/// What a change of a subscription does.
#[derive(Debug, Clone)]
pub struct SubscriptionChange {
    /// The org's subscription until then.
    pub before: Option<Subscription>,
    /// The subscription from then on.
    pub after: Subscription,
    /// What what runs now costs in a whole billing period under each, with the fee.
    pub monthly: [Money; 2],
    /// The limits and their use before the change.
    pub quota: Quota,
    /// The resources of which more is used now than the offer allows.
    pub exceeded: Vec<Excess>,
}

impl App {
    /// Publishes an offer: another version if its terms are new.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn put_offer(
        &self,
        terms: &Offer,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Offer>, Refusal> {
        self.write(PLATFORM, context, now, |write| publish(write, terms)).await
    }

    /// Changes the subscription of an org, now or from the next billing period on.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn put_subscription(
        &self,
        org: OrgId,
        wanted: SubscriptionRequest<'_>,
        settings: &BillingSettings,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<SubscriptionChange>, Refusal> {
        self.write(org, context, now, |write| put(write, wanted, settings)).await
    }
}

async fn publish(mut write: Write<'_>, terms: &Offer) -> Result<Accepted<Offer>, Refusal> {
    let errors = check_offer(terms);
    if !errors.is_empty() {
        return Err(Refusal::Refused(Refused::Invalid(errors)));
    }
    // Of two operators who publish at once, the second one sees the version of the first.
    sqlx::query("select pg_advisory_xact_lock(hashtextextended('offer ' || $1, 0))")
        .bind(terms.name.as_str())
        .execute(&mut *write.tx)
        .await?;
    let last = offer::find(&mut write.tx, terms.name.as_str(), None).await?;
    if let Some(last) = last.as_ref().filter(|last| last.has_terms_of(terms)) {
        return write.finish(Accepted { row: last.clone(), changed: false }).await;
    }
    if let Some(last) = last.as_ref().filter(|last| last.currency != terms.currency) {
        let message = format!(
            "must stay {}: publish an offer of another name for another currency",
            last.currency
        );
        return Err(invalid("currency", message));
    }
    let version = last.map_or(0, |last| last.version).saturating_add(1);
    let (now, by) = (write.now, write.principal_name());
    let row = offer::append(&mut write.tx, terms, version, now, by).await?;
    let fact = Fact::OfferPublished(OfferPublished {
        offer: row.name.clone(),
        version,
        retired: row.retired,
        principal: write.principal(),
    });
    write.record(fact).await?;
    write.finish(Accepted { row, changed: true }).await
}

async fn put(
    mut write: Write<'_>,
    wanted: SubscriptionRequest<'_>,
    settings: &BillingSettings,
) -> Result<Accepted<SubscriptionChange>, Refusal> {
    let org = write.org();
    // As every change of services: nothing is accepted meanwhile.
    sqlx::query("select from quotas where org_id = trueup_org() for update")
        .execute(&mut *write.tx)
        .await?;
    // What was posted stays as it was rated: the change is recorded after it.
    ledger::lock(&mut write.tx, org).await?;
    let accrued = ledger::last_accrual(&mut write.tx, org).await?;
    let after_accrual = accrued.map(|(at, _)| billing::just_after(at));
    let created_at = after_accrual.map_or(write.now, |at| at.max(write.now));
    let account = billing::account(&mut write.tx, org, settings.currency).await?;
    let offer = find_offer(&mut write, wanted, &account).await?;
    let recorded = subscription::recorded(&mut write.tx, org).await?;
    let from = begin(&account, wanted, created_at)?;
    let after = Subscription {
        id: new_id(created_at),
        org,
        number: recorded.last().map_or(0, |last| last.number).saturating_add(1),
        offer,
        from,
        until: None,
        created_at,
        created_by: write.principal_name().to_owned(),
    };
    let quota = quota::load(&mut write.tx).await?;
    let held = timeline(&recorded, None);
    let before = held_at(&held, from).cloned();
    let change = SubscriptionChange {
        monthly: compare(&mut write, &account, settings, [before.as_ref(), Some(&after)]).await?,
        exceeded: exceeded(&after.offer, quota.used),
        quota,
        before,
        after,
    };
    let is_last = held.iter().all(|one| one.from <= from);
    if let Some(before) =
        change.before.as_ref().filter(|one| is_last && is_same(one, &change.after))
    {
        let row = SubscriptionChange { after: before.clone(), ..change };
        return write.finish(Accepted { row, changed: false }).await;
    }
    if !wanted.next_period && !change.exceeded.is_empty() {
        return Err(Refusal::BelowUse(change.exceeded));
    }
    record(&mut write, &change.after).await?;
    write.finish(Accepted { row: change, changed: true }).await
}

fn is_same(before: &Subscription, after: &Subscription) -> bool {
    (&before.offer.name, before.offer.version) == (&after.offer.name, after.offer.version)
}

async fn find_offer(
    write: &mut Write<'_>,
    wanted: SubscriptionRequest<'_>,
    account: &BillingAccount,
) -> Result<Offer, Refusal> {
    let found = offer::find(&mut write.tx, wanted.offer, wanted.version).await?;
    let offer = found.ok_or(Refusal::NotFound("offer"))?;
    if offer.retired {
        let message = "is no longer offered; `trueup subscription offers` lists what is";
        return Err(invalid("offer", message.to_owned()));
    }
    if offer.currency != account.currency {
        let message = format!(
            "has its prices in {}, and the org is billed in {}; amounts are never converted, so choose an \
             offer in {}",
            offer.currency, account.currency, account.currency
        );
        return Err(invalid("offer", message));
    }
    Ok(offer)
}

/// The first moment of a change: now, or the end of the billing period in the org's time zone.
fn begin(
    account: &BillingAccount,
    wanted: SubscriptionRequest<'_>,
    now: Timestamp,
) -> Result<Timestamp, Refusal> {
    if !wanted.next_period {
        return Ok(now);
    }
    let period = month(&account.zone(), now);
    let period = period.ok_or_else(|| invalid("at", "is outside of the calendar".to_owned()))?;
    Ok(period.until)
}

/// What everything that runs now costs in a whole billing period under these subscriptions.
async fn compare(
    write: &mut Write<'_>,
    account: &BillingAccount,
    settings: &BillingSettings,
    subscriptions: [Option<&Subscription>; 2],
) -> Result<[Money; 2], Refusal> {
    let (org, now) = (write.org(), write.now);
    let heard = usage::watermarks(&mut *write.tx, None).await?;
    let inputs = billing::inputs(&mut write.tx, org, account.clone(), now, &heard, None).await?;
    // The next whole period, in which nothing else is different.
    let period = month(&account.zone(), inputs.period.until).unwrap_or(inputs.period);
    let mut monthly = [Money { micros: 0, currency: account.currency }; 2];
    for (held, sum) in subscriptions.into_iter().zip(&mut monthly) {
        let whole =
            held.map(|held| Subscription { from: period.from, until: None, ..held.clone() });
        let inputs = inputs.running_in(period).subscribed(whole);
        sum.micros = inputs.charged(settings.charge_simulated).map_err(Error::from)?;
    }
    Ok(monthly)
}

/// Records a change, and applies its limits if it begins at once.
async fn record(write: &mut Write<'_>, after: &Subscription) -> Result<(), Refusal> {
    sqlx::query(
        "insert into subscriptions (id, org_id, number, offer_name, offer_version, valid_from, created_at,
                                    created_by)
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(after.id.uuid())
    .bind(after.org.uuid())
    .bind(after.number)
    .bind(after.offer.name.as_str())
    .bind(i32::try_from(after.offer.version).unwrap_or(i32::MAX))
    .bind(sql(after.from))
    .bind(sql(after.created_at))
    .bind(&after.created_by)
    .execute(&mut *write.tx)
    .await?;
    let fact = Fact::SubscriptionChanged(SubscriptionChanged {
        subscription: after.id,
        offer: after.offer.name.clone(),
        version: after.offer.version,
        from: after.from,
        principal: write.principal(),
    });
    write.record(fact).await?;
    subscription::apply(&mut write.tx, after.org, after.created_at).await?;
    balance::note(&mut write.tx, after.org, after.created_at).await?;
    Ok(())
}
