//! Deletions that take too long, for the alarm.

use jiff::Timestamp;
use trueup_model::id::ClusterId;
use trueup_model::order::Unit;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::row::unit;
use crate::{Error, Worker};

impl Worker {
    /// The units of a cluster whose deletion was accepted before this time and is not verified yet.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn overdue_deletes(
        &self,
        cluster: ClusterId,
        before: Timestamp,
    ) -> Result<Vec<Unit>, Error> {
        let rows: Vec<(String, Uuid)> = sqlx::query_as(
            "select 'service', id from services
             where cluster_id = $1 and desired = 'deleted' and deleted_at is null and accepted_at < $2
             union all
             select 'project', id from projects
             where cluster_id = $1 and deleting_at < $2 and deleted_at is null
             order by 2",
        )
        .bind(cluster.uuid())
        .bind(sql(before))
        .fetch_all(self.pool())
        .await?;
        rows.into_iter().map(|(kind, id)| unit(&kind, id)).collect()
    }
}
