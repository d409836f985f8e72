//! The alarms of active hours: which services of a cluster have an edge that is due, and when the next is.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::types::Json;
use trueup_model::active_hours::ActiveHours;
use trueup_model::id::{ClusterId, OrgId, ServiceId};
use trueup_rules::active_hours::{is_on, next_edge};
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::row::read_json;
use crate::{Error, Worker};

impl Worker {
    /// When the active hours of a cluster's services change something next; none for never.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn next_schedule(&self, cluster: ClusterId) -> Result<Option<Timestamp>, Error> {
        let next: Option<jiff_sqlx::Timestamp> = sqlx::query_scalar(
            "select min(schedule_at) from services
             where cluster_id = $1 and schedule_at is not null and desired <> 'deleted'",
        )
        .bind(cluster.uuid())
        .fetch_one(self.pool())
        .await?;
        Ok(next.map(jiff_sqlx::Timestamp::to_jiff))
    }

    /// The services of a cluster with an edge that is due, the oldest first.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn due_schedules(
        &self,
        cluster: ClusterId,
        now: Timestamp,
        limit: i64,
    ) -> Result<Vec<(OrgId, ServiceId)>, Error> {
        let rows: Vec<(Uuid, Uuid)> = sqlx::query_as(
            "select org_id, id from services
             where cluster_id = $1 and schedule_at <= $2 and desired <> 'deleted'
             order by schedule_at, id limit $3",
        )
        .bind(cluster.uuid())
        .bind(sql(now))
        .bind(limit)
        .fetch_all(self.pool())
        .await?;
        let ids = |(org, id)| (OrgId::from_uuid(org), ServiceId::from_uuid(id));
        Ok(rows.into_iter().map(ids).collect())
    }

    /// Sets alarms that are too late, after the clock was set back; returns how many.
    ///
    /// A service that its hours paused by the wrong time is due at once. One that runs outside of its
    /// hours is left alone until the next edge: a person may have resumed it.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn rearm_schedules(
        &self,
        cluster: ClusterId,
        now: Timestamp,
    ) -> Result<usize, Error> {
        let rows: Vec<(Uuid, Json<Value>, bool)> = sqlx::query_as(
            "select id, active_hours, scheduled_off from services
             where cluster_id = $1 and schedule_at > $2 and desired <> 'deleted'",
        )
        .bind(cluster.uuid())
        .bind(sql(now))
        .fetch_all(self.pool())
        .await?;
        let (mut ids, mut times) = (Vec::new(), Vec::new());
        for (id, hours, scheduled_off) in rows {
            let hours: ActiveHours = read_json("active hours", hours)?;
            let is_wrong = scheduled_off && is_on(&hours, now);
            let at = if is_wrong { Some(now) } else { next_edge(&hours, now).map(|edge| edge.at) };
            if let Some(at) = at {
                ids.push(id);
                times.push(sql(at));
            }
        }
        let done = sqlx::query(
            "update services s set schedule_at = w.at
             from unnest($1::uuid[], $2::timestamptz[]) as w (id, at)
             where s.id = w.id and s.schedule_at > w.at",
        )
        .bind(ids)
        .bind(times)
        .execute(self.pool())
        .await?;
        Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
    }
}
