//! Connection pools for the two database roles: [`App`] for one org at a time, and [`Worker`].

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{Connection, Postgres, Transaction};
use tokio::time::timeout;
use trueup_model::{ClusterId, OrgId, ProjectId, crash};
use trueup_rules::access::Reach;
use trueup_rules::fair_queue::Turns;

use crate::Error;
use crate::db::begin::begin;
use crate::door::dry_run::{self, Seen};

/// Connections of a process for requests. The API divides them among its callers.
pub const APP_CONNECTIONS: usize = 30;
/// Connections of a process for its loops.
const WORKER_CONNECTIONS: usize = 12;

/// How long a request waits for a connection before the database counts as unavailable.
const ACQUIRE: Duration = Duration::from_secs(3);
/// A connection that was idle for longer is pinged before use. Under load none is.
const IDLE: Duration = Duration::from_secs(1);
/// Timeout of that ping. The rest of [`ACQUIRE`] is left for another connection.
const ALIVE: Duration = Duration::from_secs(1);
/// How long a released connection may take to finish its last statement.
const RELEASE: Duration = Duration::from_secs(5);

/// Serves API requests. Each transaction sees the rows of one org, or of some of its projects.
#[derive(Debug, Clone)]
pub struct App {
    pool: PgPool,
    /// The only projects that it sees; none means the whole org.
    projects: Option<Arc<BTreeSet<ProjectId>>>,
    /// Receives the result of a write if this is a dry run.
    dry_run: Option<Seen>,
}

/// Serves the control loops.
#[derive(Debug, Clone)]
pub struct Worker {
    pool: PgPool,
    /// Fair-queueing state by cluster.
    turns: Arc<Mutex<BTreeMap<ClusterId, Turns>>>,
}

/// A transaction; it never leaves this crate.
pub(crate) type Tx = Transaction<'static, Postgres>;

/// Continues the transaction in another org (row-level security). Its projects stay as they are.
pub(crate) async fn enter(tx: &mut Tx, org: OrgId) -> Result<(), Error> {
    sqlx::query("select set_config('trueup.org', $1, true)")
        .bind(org.uuid().to_string())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

impl App {
    /// A pool for the app role. Connects when first used.
    ///
    /// # Errors
    /// The URL cannot be parsed.
    pub fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_within(url, ACQUIRE)
    }

    /// Like [`Self::connect`], with this timeout for acquiring a connection.
    ///
    /// # Errors
    /// The URL cannot be parsed.
    pub fn connect_within(url: &str, wait: Duration) -> Result<Self, Error> {
        let pool = pool(url, "trueup-app", APP_CONNECTIONS, wait)?;
        Ok(Self { pool, projects: None, dry_run: None })
    }

    /// A transaction in an org, for reads: what depends on the time is that of the database.
    pub(crate) async fn begin(&self, org: OrgId) -> Result<Tx, Error> {
        let mut tx = begin(&self.pool).await?;
        sqlx::query(
            "select set_config('trueup.org', $1, true), set_config('trueup.projects', $2, true)",
        )
        .bind(org.uuid().to_string())
        .bind(self.projects())
        .execute(&mut *tx)
        .await?;
        self.prepare(tx).await
    }

    /// A transaction in an org that decides at the time of its request: `trueup_now()` in SQL.
    pub(crate) async fn begin_at(&self, org: OrgId, now: Timestamp) -> Result<Tx, Error> {
        let mut tx = begin(&self.pool).await?;
        sqlx::query(
            "select set_config('trueup.org', $1, true), set_config('trueup.projects', $2, true),
                    set_config('trueup.now', $3, true)",
        )
        .bind(org.uuid().to_string())
        .bind(self.projects())
        .bind(now.to_string())
        .execute(&mut *tx)
        .await?;
        self.prepare(tx).await
    }

    async fn prepare(&self, mut tx: Tx) -> Result<Tx, Error> {
        if self.dry_run.is_some() {
            dry_run::begin(&mut tx).await?;
        }
        Ok(tx)
    }

    /// Commits a write, or rolls it back in a dry run.
    ///
    /// A committed change stands even if the caller never receives the answer.
    pub(crate) async fn end(&self, tx: Tx) -> Result<(), Error> {
        match &self.dry_run {
            None => {
                crash::point("door.recorded").await;
                tx.commit().await.map_err(|error| match Error::from(error) {
                    // The connection was lost before the answer to COMMIT arrived.
                    Error::Unavailable(source) => Error::CommitUnknown(source),
                    error => error,
                })?;
                crash::point("door.accepted").await;
                Ok(())
            }
            Some(seen) => dry_run::end(tx, seen).await,
        }
    }

    /// The same app, rolling its writes back and recording their result.
    pub(crate) fn in_dry_run(&self, seen: Seen) -> Self {
        Self { dry_run: Some(seen), ..self.clone() }
    }

    /// The same app, seeing only what this reach includes. It never sees more than before.
    #[must_use]
    pub fn within(&self, reach: &Reach) -> Self {
        let projects = match (&self.projects, reach) {
            (before, Reach::Org) => before.clone(),
            (None, Reach::Projects(only)) => Some(Arc::new(only.clone())),
            (Some(before), Reach::Projects(only)) => {
                Some(Arc::new(before.intersection(only).copied().collect()))
            }
        };
        Self { projects, ..self.clone() }
    }

    /// The only projects that it sees; `None` means the whole org.
    #[must_use]
    pub fn visible_projects(&self) -> Option<Arc<BTreeSet<ProjectId>>> {
        self.projects.clone()
    }

    /// The setting that row-level security reads: `*`, or the list of the projects that are seen.
    fn projects(&self) -> String {
        match &self.projects {
            None => "*".to_owned(),
            Some(only) => {
                let ids: Vec<String> = only.iter().map(|id| id.uuid().to_string()).collect();
                format!("{{{}}}", ids.join(","))
            }
        }
    }

    /// For the few queries that run before the org is known.
    pub(crate) const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Checks that the database answers.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn ping(&self) -> Result<(), Error> {
        sqlx::query("select 1").execute(&self.pool).await?;
        Ok(())
    }
}

impl Worker {
    /// A pool for the worker role. Connects when first used.
    ///
    /// # Errors
    /// The URL cannot be parsed.
    pub fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_within(url, ACQUIRE)
    }

    /// Like [`Self::connect`], with this timeout for acquiring a connection.
    ///
    /// # Errors
    /// The URL cannot be parsed.
    pub fn connect_within(url: &str, wait: Duration) -> Result<Self, Error> {
        Ok(Self {
            pool: pool(url, "trueup-worker", WORKER_CONNECTIONS, wait)?,
            turns: Arc::default(),
        })
    }

    pub(crate) fn turns(&self, cluster: ClusterId) -> Turns {
        let turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.get(&cluster).cloned().unwrap_or_default()
    }

    pub(crate) fn note_turns(&self, cluster: ClusterId, now: Turns) {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).insert(cluster, now);
    }

    pub(crate) async fn begin(&self) -> Result<Tx, Error> {
        Ok(begin(&self.pool).await?)
    }

    pub(crate) const fn pool(&self) -> &PgPool {
        &self.pool
    }
}

fn pool(url: &str, name: &str, size: usize, wait: Duration) -> Result<PgPool, Error> {
    let options = PgConnectOptions::from_str(url)?
        .application_name(name)
        // A process paused inside a transaction would keep its row locks, also on the lease, and
        // stall the sealer. No transaction here idles between two statements.
        .options([("idle_in_transaction_session_timeout", "5s"), ("statement_timeout", "30s")]);
    let pool = PgPoolOptions::new()
        .max_connections(u32::try_from(size).unwrap_or(u32::MAX))
        .acquire_timeout(wait)
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            let idle = meta.idle_for;
            Box::pin(async move { Ok(idle < IDLE || answers(connection, ALIVE).await) })
        })
        // A cancelled caller releases a connection whose statement is still in flight. Without this
        // timeout a connection whose server vanished would occupy the pool for a quarter of an
        // hour.
        .after_release(|connection, _| Box::pin(async { Ok(answers(connection, RELEASE).await) }))
        .connect_lazy_with(options);
    Ok(pool)
}

/// Whether the server answers a ping on this connection within the limit.
async fn answers(connection: &mut PgConnection, limit: Duration) -> bool {
    matches!(timeout(limit, connection.ping()).await, Ok(Ok(())))
}
