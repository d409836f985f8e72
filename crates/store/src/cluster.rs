//! Clusters: what is known of their being there.

use jiff::Timestamp;
use trueup_model::id::ClusterId;
use uuid::Uuid;

use crate::clock::sql;
use crate::{App, Error, Worker};

/// A cluster and when it was last heard of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterRow {
    /// Its id.
    pub id: ClusterId,
    /// What people call it.
    pub name: String,
    /// What is going on with it.
    pub note: Option<String>,
    /// When every watch of it was last known to be alive.
    pub heard_at: Option<Timestamp>,
}

type Columns = (Uuid, String, Option<String>, Option<jiff_sqlx::Timestamp>);

fn row((id, name, note, heard_at): Columns) -> ClusterRow {
    ClusterRow {
        id: ClusterId::from_uuid(id),
        name,
        note,
        heard_at: heard_at.map(jiff_sqlx::Timestamp::to_jiff),
    }
}

impl App {
    /// Every cluster.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_clusters(&self) -> Result<Vec<ClusterRow>, Error> {
        let rows: Vec<Columns> =
            sqlx::query_as("select id, name, note, heard_at from clusters order by name")
                .fetch_all(self.pool())
                .await?;
        Ok(rows.into_iter().map(row).collect())
    }
}

impl Worker {
    /// Says what is going on with a cluster, such as the progress of building it.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn note_cluster(&self, cluster: ClusterId, note: Option<&str>) -> Result<(), Error> {
        sqlx::query("update clusters set note = $2 where id = $1 and note is distinct from $2")
            .bind(cluster.uuid())
            .bind(note)
            .execute(self.pool())
            .await?;
        Ok(())
    }

    /// Records when a cluster was last heard of: one row per cluster, never one per object.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn heard_cluster(&self, cluster: ClusterId, at: Timestamp) -> Result<(), Error> {
        sqlx::query("update clusters set heard_at = greatest(heard_at, $2) where id = $1")
            .bind(cluster.uuid())
            .bind(sql(at))
            .execute(self.pool())
            .await?;
        Ok(())
    }
}
