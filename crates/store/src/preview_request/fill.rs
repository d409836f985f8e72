//! Filling plan requests: for the planner of the cluster whose lease is held.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::freeze::FreezeScope;
use trueup_model::id::{ClusterId, PreviewRequestId, ServiceId};
use trueup_model::order::{Order, Unit};
use trueup_model::preview_request::{ExactPreview, Standing};
use trueup_rules::preview;
use trueup_rules::preview::exact;
use uuid::Uuid;

use super::planned;
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{json, read_json};
use crate::freeze::freeze;
use crate::work::lease::{Lease, fence};
use crate::work::order;
use crate::{Error, Worker};

/// How long a request is shown as expired before it is forgotten.
const SHOWN_FOR: SignedDuration = SignedDuration::from_hours(1);
/// How many are forgotten at once.
const BATCH: i64 = 500;

/// A request that waits to be filled.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingPreview {
    /// Which.
    pub id: PreviewRequestId,
    /// What would be ordered, its secrets still sealed; or why that cannot be said any more.
    pub order: Result<Box<Order>, String>,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum PreviewResult {
    /// This would happen.
    Filled(ExactPreview),
    /// Nobody will fill it, for this reason.
    Failed(String),
    /// It cannot be filled now, for this reason.
    Waits(String),
}

impl Worker {
    /// Requests that wait to be filled, the oldest first.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn asked_plans(
        &self,
        cluster: ClusterId,
        limit: i64,
        now: Timestamp,
    ) -> Result<Vec<PendingPreview>, Error> {
        let mut tx = self.begin().await?;
        let rows = sqlx::query(
            "select r.id, r.service, r.order_digest, p.namespace, s.frozen_at, s.frozen_by, s.frozen_why
             from preview_requests r join projects p on p.id = r.project_id
             left join services s on s.id = r.service_id
             where r.cluster_id = $1 and r.state = 'waiting' and r.deadline_at > $2
             order by r.created_at limit $3",
        )
        .bind(cluster.uuid())
        .bind(sql(now))
        .bind(limit)
        .fetch_all(&mut *tx)
        .await?;
        let mut asked = Vec::new();
        for row in &rows {
            let id = PreviewRequestId::from_uuid(row.try_get("id")?);
            let order = match order(&mut tx, row).await {
                Err(error) if error.is_defect() => Err(error.told()),
                order => order?,
            };
            asked.push(PendingPreview { id, order });
        }
        Ok(asked)
    }

    /// Writes down what came of a request that waits.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease is over.
    pub async fn end_plan(
        &self,
        lease: Lease,
        id: PreviewRequestId,
        end: &PreviewResult,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        match end {
            PreviewResult::Filled(plan) => fill(&mut tx, lease, id, plan, now).await?,
            PreviewResult::Failed(why) => tell(&mut tx, lease, id, "failed", why).await?,
            PreviewResult::Waits(why) => tell(&mut tx, lease, id, "waiting", why).await?,
        }
        tx.commit().await?;
        Ok(())
    }

    /// Plans that are filled and can still be gone by: what each stands on.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn open_plans(
        &self,
        cluster: ClusterId,
        now: Timestamp,
    ) -> Result<Vec<(PreviewRequestId, Unit, Vec<Standing>)>, Error> {
        let rows: Vec<(Uuid, Uuid, Json<Value>)> = sqlx::query_as(
            "select id, service_id, preview -> 'footing' from preview_requests
             where cluster_id = $1 and state = 'filled' and expires_at > $2 order by created_at",
        )
        .bind(cluster.uuid())
        .bind(sql(now))
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|(id, service, footing)| {
                let unit = Unit::Service(ServiceId::from_uuid(service));
                Ok((PreviewRequestId::from_uuid(id), unit, read_json("footing", footing)?))
            })
            .collect()
    }

    /// Writes down which plans were seen to hold, and which do not any more and why.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease is over.
    pub async fn note_plans(
        &self,
        lease: Lease,
        holding: &[PreviewRequestId],
        broken: &[(PreviewRequestId, String)],
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        sqlx::query(
            "update preview_requests set checked_at = $3
             where id = any($2) and cluster_id = $1 and state = 'filled'",
        )
        .bind(lease.cluster.uuid())
        .bind(holding.iter().map(|id| id.uuid()).collect::<Vec<_>>())
        .bind(sql(now))
        .execute(&mut *tx)
        .await?;
        for (id, why) in broken {
            sqlx::query(
                "update preview_requests set state = 'void', why = $3
                 where id = $2 and cluster_id = $1 and state = 'filled'",
            )
            .bind(lease.cluster.uuid())
            .bind(id.uuid())
            .bind(why)
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Forgets requests that expired some time ago, a batch at a time; answers how many.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn forget_plans(&self, now: Timestamp) -> Result<u64, Error> {
        let gone = sqlx::query(
            "delete from preview_requests where id in (
                 select id from preview_requests where expires_at <= $1 order by expires_at limit $2)",
        )
        .bind(sql(now.checked_sub(SHOWN_FOR).unwrap_or(Timestamp::MIN)))
        .bind(BATCH)
        .execute(self.pool())
        .await?;
        Ok(gone.rows_affected())
    }
}

/// What a request would order now, if that is still what it was asked for.
async fn order(tx: &mut Tx, row: &PgRow) -> Result<Result<Box<Order>, String>, Error> {
    let (service, namespace) = (planned(row)?, row.try_get("namespace")?);
    let frozen = freeze(row, FreezeScope::Service)?;
    let order = order::would_be(tx, service, namespace, frozen).await?;
    let asked: String = row.try_get("order_digest")?;
    Ok(if preview::digest(&order) == asked {
        Ok(Box::new(order))
    } else {
        Err("a variable, secret, endpoint or domain of the service changed since it was asked for; ask \
             again"
            .to_owned())
    })
}

async fn fill(
    tx: &mut Tx,
    lease: Lease,
    id: PreviewRequestId,
    plan: &ExactPreview,
    now: Timestamp,
) -> Result<(), Error> {
    let waiting: Option<(String, i64)> = sqlx::query_as(
        "select order_digest, generation from preview_requests
         where id = $2 and cluster_id = $1 and state = 'waiting' for update",
    )
    .bind(lease.cluster.uuid())
    .bind(id.uuid())
    .fetch_optional(&mut **tx)
    .await?;
    let Some((digest, generation)) = waiting else { return Ok(()) };
    sqlx::query(
        "update preview_requests set state = 'filled', why = null, preview = $2, hash = $3, checked_at = $4
         where id = $1",
    )
    .bind(id.uuid())
    .bind(json(plan))
    .bind(exact::hash(&digest, generation, &plan.footing))
    .bind(sql(now))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn tell(
    tx: &mut Tx,
    lease: Lease,
    id: PreviewRequestId,
    state: &str,
    why: &str,
) -> Result<(), Error> {
    sqlx::query(
        "update preview_requests set state = $3, why = $4
         where id = $2 and cluster_id = $1 and state = 'waiting'
           and (state, why) is distinct from ($3, $4)",
    )
    .bind(lease.cluster.uuid())
    .bind(id.uuid())
    .bind(state)
    .bind(why)
    .execute(&mut **tx)
    .await?;
    Ok(())
}
