//! Subscriptions: what was recorded, what holds, and the limits that follow from it.

use jiff::Timestamp;
use sqlx::Row;
use sqlx::postgres::PgRow;
use trueup_model::event::{Fact, QuotaChanged, Source};
use trueup_model::id::{OrgId, SubscriptionId};
use trueup_model::offer::Subscription;
use trueup_model::quota::Amounts;
use trueup_model::subject::Subject;
use trueup_rules::rate::subscription::{held_at, timeline};
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::time;
use crate::{Error, Worker, event, offer};

/// Who changes limits when a recorded change begins.
const KEEPER: &str = "subscription";

impl Worker {
    /// Orgs whose limits are out of date: a recorded change of their subscription has begun.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn orgs_to_limit(&self, now: Timestamp) -> Result<Vec<OrgId>, Error> {
        let due: Vec<(Uuid,)> =
            sqlx::query_as("select org_id from quotas where limits_until <= $1 order by org_id")
                .bind(sql(now))
                .fetch_all(self.pool())
                .await?;
        Ok(due.into_iter().map(|(org,)| OrgId::from_uuid(org)).collect())
    }

    /// Applies the limits of the subscription that holds; returns whether they were not yet.
    ///
    /// Requests do the same when they meet a quota whose limits are out of date, so this only keeps
    /// what is shown correct while nothing is requested.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn apply_limits(&self, org: OrgId, now: Timestamp) -> Result<bool, Error> {
        let mut tx = self.begin().await?;
        let applied = apply(&mut tx, org, now).await?;
        tx.commit().await?;
        Ok(applied)
    }
}

/// Everything that was recorded for an org, oldest first.
pub(crate) async fn recorded(tx: &mut Tx, org: OrgId) -> Result<Vec<Subscription>, Error> {
    let rows = sqlx::query(
        "select s.id, s.org_id, s.number, s.valid_from, s.created_at, s.created_by, o.body
         from subscriptions s join offers o on o.name = s.offer_name and o.version = s.offer_version
         where s.org_id = $1 order by s.number",
    )
    .bind(org.uuid())
    .fetch_all(&mut **tx)
    .await?;
    rows.iter().map(subscription).collect()
}

fn subscription(row: &PgRow) -> Result<Subscription, Error> {
    Ok(Subscription {
        id: SubscriptionId::from_uuid(row.try_get("id")?),
        org: OrgId::from_uuid(row.try_get("org_id")?),
        number: row.try_get("number")?,
        offer: offer::offer(row)?,
        from: time(row, "valid_from")?,
        until: None,
        created_at: time(row, "created_at")?,
        created_by: row.try_get("created_by")?,
    })
}

/// Whether a change was recorded after usage was last posted.
pub(crate) async fn changed_since(
    tx: &mut Tx,
    org: OrgId,
    moment: Timestamp,
) -> Result<bool, Error> {
    let changed = sqlx::query_scalar(
        "select exists (select from subscriptions where org_id = $1 and created_at > $2)",
    )
    .bind(org.uuid())
    .bind(sql(moment))
    .fetch_one(&mut **tx)
    .await?;
    Ok(changed)
}

/// Sets the limits of an org to those of the subscription that holds, unless they were applied
/// before; returns whether they were not.
pub(crate) async fn apply(tx: &mut Tx, org: OrgId, now: Timestamp) -> Result<bool, Error> {
    let applied: Option<(Option<Uuid>,)> =
        sqlx::query_as("select subscription_id from quotas where org_id = $1 for update")
            .bind(org.uuid())
            .fetch_optional(&mut **tx)
            .await?;
    let Some((applied,)) = applied else { return Ok(false) };
    let timeline = timeline(&recorded(tx, org).await?, None);
    let next = timeline.iter().map(|one| one.from).find(|from| *from > now);
    let Some(held) = held_at(&timeline, now) else {
        plan_next(tx, org, next).await?;
        return Ok(false);
    };
    if applied == Some(held.id.uuid()) {
        plan_next(tx, org, next).await?;
        return Ok(false);
    }
    set(tx, (org, held.id), held.offer.limits, next).await?;
    let limit = held.offer.limits;
    let fact = Fact::QuotaChanged(QuotaChanged { limit, principal: KEEPER.to_owned() });
    let event = event::about(org, Subject::Org(org), 0, fact, Source::Billing, now);
    event::record(tx, &[event]).await?;
    Ok(true)
}

async fn plan_next(tx: &mut Tx, org: OrgId, next: Option<Timestamp>) -> Result<(), Error> {
    sqlx::query("update quotas set limits_until = $2 where org_id = $1")
        .bind(org.uuid())
        .bind(next.map(sql))
        .execute(&mut **tx)
        .await?;
    Ok(())
}

async fn set(
    tx: &mut Tx,
    (org, subscription): (OrgId, SubscriptionId),
    limit: Amounts,
    next: Option<Timestamp>,
) -> Result<(), Error> {
    sqlx::query(
        "update quotas set services_limit = $3, cpu_millis_limit = $4, memory_mib_limit = $5,
                storage_gib_limit = $6, gpus_limit = $7, limits_from = 'subscription',
                subscription_id = $2, limits_until = $8, projects_limit = $9, endpoints_limit = $10
         where org_id = $1",
    )
    .bind(org.uuid())
    .bind(subscription.uuid())
    .bind(limit.services)
    .bind(limit.cpu_millis)
    .bind(limit.memory_mib)
    .bind(limit.storage_gib)
    .bind(limit.gpus)
    .bind(next.map(sql))
    .bind(limit.projects)
    .bind(limit.endpoints)
    .execute(&mut **tx)
    .await?;
    Ok(())
}
