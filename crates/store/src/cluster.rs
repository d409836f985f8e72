//! Clusters: their registration, freshness and routing.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Row};
use trueup_model::cluster::{Freshness, Routing};
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::id::{ClusterId, OrgId};
use trueup_model::name::Name;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{freshness, json, read_json};
use crate::freeze::freeze;
use crate::work::lease::{Lease, fence};
use crate::{App, Error, Worker};

/// A cluster and its freshness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterRow {
    /// Its id.
    pub id: ClusterId,
    /// Its name.
    pub name: String,
    /// A note on its current state, such as the progress of building it.
    pub note: Option<String>,
    /// When all of its watches were last known to be alive.
    pub heard_at: Option<Timestamp>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// The freeze of this cluster alone.
    pub frozen: Option<Freeze>,
}

/// An org's usage of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterUsage {
    /// The number of projects.
    pub projects: i64,
    /// The number of services whose deletion is not verified.
    pub services: i64,
}

/// The columns of a cluster that every caller may see.
const COLUMNS: &str = "id, name, note, heard_at, created_at, frozen_at as cluster_frozen_at,
                       frozen_by as cluster_frozen_by, frozen_why as cluster_frozen_why";

fn row(found: &PgRow) -> Result<ClusterRow, Error> {
    let heard_at: Option<jiff_sqlx::Timestamp> = found.try_get("heard_at")?;
    Ok(ClusterRow {
        id: ClusterId::from_uuid(found.try_get("id")?),
        name: found.try_get("name")?,
        note: found.try_get("note")?,
        heard_at: heard_at.map(jiff_sqlx::Timestamp::to_jiff),
        created_at: found.try_get::<jiff_sqlx::Timestamp, _>("created_at")?.to_jiff(),
        frozen: freeze(found, FreezeScope::Cluster)?,
    })
}

impl App {
    /// Every cluster.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_clusters(&self) -> Result<Vec<ClusterRow>, Error> {
        let statement = format!("select {COLUMNS} from clusters order by name");
        let rows = sqlx::query(AssertSqlSafe(statement)).fetch_all(self.pool()).await?;
        rows.iter().map(row).collect()
    }

    /// A cluster by name or id, and the org's usage of it.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_cluster(
        &self,
        org: OrgId,
        wanted: &str,
    ) -> Result<Option<(ClusterRow, ClusterUsage)>, Error> {
        let id = wanted.parse::<ClusterId>().ok().map(ClusterId::uuid);
        // Text that is not a valid name matches nothing, and Postgres does not accept all of it.
        let name = wanted.parse::<Name>().ok();
        let mut tx = self.begin(org).await?;
        let statement = format!("select {COLUMNS} from clusters where name = $1 or id = $2");
        let found = sqlx::query(AssertSqlSafe(statement))
            .bind(name.as_ref().map(Name::as_str))
            .bind(id)
            .fetch_optional(&mut *tx)
            .await?;
        let Some(cluster) = found.as_ref().map(row).transpose()? else {
            return Ok(None);
        };
        let (projects, services): (i64, i64) = sqlx::query_as(
            "select (select count(*) from projects where cluster_id = $1 and deleted_at is null),
                    (select count(*) from services where cluster_id = $1 and deleted_at is null)",
        )
        .bind(cluster.id.uuid())
        .fetch_one(&mut *tx)
        .await?;
        Ok(Some((cluster, ClusterUsage { projects, services })))
    }

    /// The routing of a cluster.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_routing(&self, cluster: ClusterId) -> Result<Routing, Error> {
        let (routing,): (Json<Value>,) =
            sqlx::query_as("select routing from clusters where id = $1")
                .bind(cluster.uuid())
                .fetch_one(self.pool())
                .await?;
        read_json("routing", routing)
    }
}

impl Worker {
    /// Sets the note of a cluster, such as the progress of building it.
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

    /// When the last watch event of each kind of a cluster arrived, at any lease holder.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn freshness(&self, cluster: ClusterId) -> Result<Freshness, Error> {
        let (watches,): (Json<Value>,) =
            sqlx::query_as("select watches from clusters where id = $1")
                .bind(cluster.uuid())
                .fetch_one(self.pool())
                .await?;
        freshness(watches)
    }

    /// Records when the lease holder received the last watch event of each kind.
    ///
    /// The cluster as a whole is as fresh as the stalest kind that plans are made from. One row per
    /// cluster, never one per object.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost: the new holder has newer watch
    /// events.
    pub async fn record_watches(&self, lease: Lease, freshness: &Freshness) -> Result<(), Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        record_freshness(&mut tx, lease.scope, freshness).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Records that a watch event of every kind of a cluster arrived.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn record_heartbeat(&self, cluster: ClusterId, at: Timestamp) -> Result<(), Error> {
        let mut tx = self.begin().await?;
        record_freshness(&mut tx, cluster, &Freshness::all_at(at)).await?;
        tx.commit().await?;
        Ok(())
    }
}

async fn record_freshness(
    tx: &mut Tx,
    cluster: ClusterId,
    freshness: &Freshness,
) -> Result<(), Error> {
    sqlx::query(
        "update clusters set watches = watches || $2, heard_at = greatest(heard_at, $3) where id = $1",
    )
    .bind(cluster.uuid())
    .bind(json(&freshness.heard))
    .bind(freshness.oldest().map(sql))
    .execute(&mut **tx)
    .await?;
    Ok(())
}
