//! Fills preview requests, for the planner of the lease holder.

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

use super::previewed;
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{json, read_json};
use crate::freeze::freeze;
use crate::work::lease::{Lease, fence};
use crate::work::order;
use crate::{Error, Worker};

/// How long a request is shown as expired before it is deleted.
const SHOWN_FOR: SignedDuration = SignedDuration::from_hours(1);
/// The most requests deleted at once.
const BATCH: i64 = 500;

/// A request to be filled.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingPreview {
    /// Its id.
    pub id: PreviewRequestId,
    /// The order to preview, its secrets still encrypted; or why there is none.
    pub order: Result<Box<Order>, String>,
}

/// The result of a preview.
#[derive(Debug, Clone, PartialEq)]
pub enum PreviewResult {
    /// The preview.
    Filled(ExactPreview),
    /// It failed for good, for this reason.
    Failed(String),
    /// It cannot be filled now, for this reason; it will be retried.
    Waits(String),
}

impl Worker {
    /// Requests to be filled, the oldest first.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn pending_previews(
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
        let mut pending = Vec::new();
        for row in &rows {
            let id = PreviewRequestId::from_uuid(row.try_get("id")?);
            let order = match order(&mut tx, row, now).await {
                Err(error) if error.is_defect() => Err(error.describe()),
                order => order?,
            };
            pending.push(PendingPreview { id, order });
        }
        Ok(pending)
    }

    /// Records the result of a waiting request.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn finish_preview(
        &self,
        lease: Lease,
        id: PreviewRequestId,
        end: &PreviewResult,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        match end {
            PreviewResult::Filled(preview) => fill(&mut tx, lease, id, preview, now).await?,
            PreviewResult::Failed(why) => set_state(&mut tx, lease, id, "failed", why).await?,
            PreviewResult::Waits(why) => set_state(&mut tx, lease, id, "waiting", why).await?,
        }
        tx.commit().await?;
        Ok(())
    }

    /// Filled previews that have not expired, each with the objects it depends on.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn open_previews(
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

    /// Records which previews still hold, and which do not and why.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn record_preview_checks(
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
        .bind(lease.scope.uuid())
        .bind(holding.iter().map(|id| id.uuid()).collect::<Vec<_>>())
        .bind(sql(now))
        .execute(&mut *tx)
        .await?;
        for (id, why) in broken {
            sqlx::query(
                "update preview_requests set state = 'void', why = $3
                 where id = $2 and cluster_id = $1 and state = 'filled'",
            )
            .bind(lease.scope.uuid())
            .bind(id.uuid())
            .bind(why)
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Deletes a batch of requests that expired some time ago; returns how many.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn purge_previews(&self, now: Timestamp) -> Result<u64, Error> {
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

/// The order of a request, or why it differs from what was requested.
async fn order(
    tx: &mut Tx,
    row: &PgRow,
    now: Timestamp,
) -> Result<Result<Box<Order>, String>, Error> {
    let (service, namespace) = (previewed(row)?, row.try_get("namespace")?);
    let frozen = freeze(row, FreezeScope::Service)?;
    let order = order::would_be(tx, service, namespace, frozen, now).await?;
    let requested: String = row.try_get("order_digest")?;
    Ok(if preview::digest(&order) == requested {
        Ok(Box::new(order))
    } else {
        Err("a variable, secret, endpoint or domain of the service changed since the preview was \
             requested; request a new one"
            .to_owned())
    })
}

async fn fill(
    tx: &mut Tx,
    lease: Lease,
    id: PreviewRequestId,
    preview: &ExactPreview,
    now: Timestamp,
) -> Result<(), Error> {
    let waiting: Option<(String, i64)> = sqlx::query_as(
        "select order_digest, generation from preview_requests
         where id = $2 and cluster_id = $1 and state = 'waiting' for update",
    )
    .bind(lease.scope.uuid())
    .bind(id.uuid())
    .fetch_optional(&mut **tx)
    .await?;
    let Some((digest, generation)) = waiting else { return Ok(()) };
    sqlx::query(
        "update preview_requests set state = 'filled', why = null, preview = $2, hash = $3, checked_at = $4
         where id = $1",
    )
    .bind(id.uuid())
    .bind(json(preview))
    .bind(exact::hash(&digest, generation, &preview.footing))
    .bind(sql(now))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn set_state(
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
    .bind(lease.scope.uuid())
    .bind(id.uuid())
    .bind(state)
    .bind(why)
    .execute(&mut **tx)
    .await?;
    Ok(())
}
