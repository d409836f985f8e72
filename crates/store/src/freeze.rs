//! Freezes of services, clusters and the platform: no writes to the cluster while one is active.
//!
//! Frozen units are still observed, and changes to them are accepted and applied after the freeze.

use sqlx::Row;
use sqlx::postgres::PgRow;
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::id::ClusterId;
use trueup_model::org::PLATFORM;

use crate::db::pool::Tx;
use crate::{App, Error, Worker};

impl App {
    /// The freeze of the whole platform, if there is one.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_platform_freeze(&self) -> Result<Option<Freeze>, Error> {
        let mut tx = self.begin(PLATFORM).await?;
        platform_freeze(&mut tx).await
    }
}

impl Worker {
    /// The freeze that applies to a cluster: the platform's, or its own.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_freeze(&self, cluster: ClusterId) -> Result<Option<Freeze>, Error> {
        let row = sqlx::query(
            "select o.frozen_at as platform_frozen_at, o.frozen_by as platform_frozen_by,
                    o.frozen_why as platform_frozen_why, c.frozen_at as cluster_frozen_at,
                    c.frozen_by as cluster_frozen_by, c.frozen_why as cluster_frozen_why
             from platform o left join clusters c on c.id = $1",
        )
        .bind(cluster.uuid())
        .fetch_one(self.pool())
        .await?;
        let platform = freeze(&row, FreezeScope::Platform)?;
        Ok(platform.or(freeze(&row, FreezeScope::Cluster)?))
    }
}

/// Reads the freeze of this scope from a row with its columns.
pub(crate) fn freeze(row: &PgRow, scope: FreezeScope) -> Result<Option<Freeze>, Error> {
    let prefix = match scope {
        FreezeScope::Platform => "platform_",
        FreezeScope::Cluster => "cluster_",
        FreezeScope::Service => "",
    };
    let column = |name: &str| format!("{prefix}frozen_{name}");
    let since: Option<jiff_sqlx::Timestamp> = row.try_get(column("at").as_str())?;
    let by: Option<String> = row.try_get(column("by").as_str())?;
    let why: Option<String> = row.try_get(column("why").as_str())?;
    Ok(match (since, by, why) {
        (Some(since), Some(by), Some(why)) => {
            Some(Freeze { scope, by, why, since: since.to_jiff() })
        }
        (_, _, _) => None,
    })
}

/// The freeze of the whole platform.
pub(crate) async fn platform_freeze(tx: &mut Tx) -> Result<Option<Freeze>, Error> {
    let row = sqlx::query(
        "select frozen_at as platform_frozen_at, frozen_by as platform_frozen_by,
                frozen_why as platform_frozen_why from platform",
    )
    .fetch_one(&mut **tx)
    .await?;
    freeze(&row, FreezeScope::Platform)
}

/// The freeze of a cluster alone, by its name.
pub(crate) async fn cluster_freeze(tx: &mut Tx, name: &str) -> Result<Option<Freeze>, Error> {
    let row = sqlx::query(
        "select frozen_at as cluster_frozen_at, frozen_by as cluster_frozen_by,
                frozen_why as cluster_frozen_why from clusters where name = $1",
    )
    .bind(name)
    .fetch_one(&mut **tx)
    .await?;
    freeze(&row, FreezeScope::Cluster)
}
