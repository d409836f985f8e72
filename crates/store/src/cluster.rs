//! Clusters: their registration, freshness and routing.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Row};
use trueup_model::cluster::{Freshness, Routing};
use trueup_model::event::{ClusterReachable, ClusterUnreachable, EventType, Fact, Source};
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::id::{ClusterId, OrgId};
use trueup_model::name::Name;
use trueup_model::org::PLATFORM;
use trueup_model::subject::Subject;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{freshness, json, read_json};
use crate::freeze::freeze;
use crate::work::lease::{Lease, fence};
use crate::{App, Error, Worker, event};

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

/// A change of a cluster's reachability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReachabilityChange {
    /// Nothing was heard of it for too long.
    Unreachable {
        /// The last error.
        why: String,
        /// The last time that something was heard of it.
        since: Timestamp,
    },
    /// It answers again.
    Reachable {
        /// For how many seconds nothing was heard of it.
        after_s: i64,
    },
}

impl ReachabilityChange {
    /// Since when the cluster is unreachable after this change.
    #[must_use]
    pub const fn unreachable_since(&self) -> Option<Timestamp> {
        match self {
            Self::Unreachable { since, .. } => Some(*since),
            Self::Reachable { .. } => None,
        }
    }

    fn fact(&self) -> Fact {
        match self.clone() {
            Self::Unreachable { why, since } => {
                Fact::ClusterUnreachable(ClusterUnreachable { why, since })
            }
            Self::Reachable { after_s } => Fact::ClusterReachable(ClusterReachable { after_s }),
        }
    }
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

    /// Since when a cluster is unreachable, as the last event says; none while it is reachable.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn unreachable_since(&self, cluster: ClusterId) -> Result<Option<Timestamp>, Error> {
        let mut tx = self.begin().await?;
        unreachable_since(&mut tx, cluster).await
    }

    /// Records a change of a cluster's reachability with an event; nothing if it was recorded before.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn record_reachability(
        &self,
        lease: Lease,
        change: &ReachabilityChange,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        // One writer at a time: a call whose answer was lost may still be under way.
        sqlx::query("select from clusters where id = $1 for no key update")
            .bind(lease.scope.uuid())
            .execute(&mut *tx)
            .await?;
        let known = unreachable_since(&mut tx, lease.scope).await?;
        if known.is_some() == change.unreachable_since().is_some() {
            return Ok(());
        }
        let (subject, source) = (Subject::Cluster(lease.scope), Source::K8sWatch);
        let changed = event::about(PLATFORM, subject, 0, change.fact(), source, now);
        event::record(&mut tx, &[changed]).await?;
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

/// Reads the last event about the cluster's reachability, sealed or not.
async fn unreachable_since(tx: &mut Tx, cluster: ClusterId) -> Result<Option<Timestamp>, Error> {
    let types = [EventType::ClusterUnreachable, EventType::ClusterReachable];
    let last: Option<(Json<Value>,)> = sqlx::query_as(
        "select body from events
         where type = any($3) and id in (
             select event_id from event_queue where org_id = $1 and subject_id = $2
             union all
             (select event_id from event_seals
              where org_id = $1 and subject_id = $2 and type = any($3)
              order by position desc limit 1))
         order by id desc limit 1",
    )
    .bind(PLATFORM.uuid())
    .bind(cluster.uuid())
    .bind(types.map(|of| of.into_str()).to_vec())
    .fetch_optional(&mut **tx)
    .await?;
    let Some((body,)) = last else { return Ok(None) };
    let Fact::ClusterUnreachable(ClusterUnreachable { since, .. }) =
        read_json::<Fact>("event", body)?
    else {
        return Ok(None);
    };
    Ok(Some(since))
}
