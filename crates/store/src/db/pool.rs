//! The two ways into the database: as the app for one org, or as a worker.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{Connection, Postgres, Transaction};
use tokio::time::timeout;
use trueup_model::{ClusterId, OrgId, crash};
use trueup_rules::fair_queue::Turns;

use crate::Error;
use crate::db::begin::begin;
use crate::door::dry_run::{self, Seen};

/// How long a request waits for a connection before it is answered that the database is away.
const ACQUIRE: Duration = Duration::from_secs(3);
/// A connection that lay idle for longer is asked whether it still lives. Under load none does.
const IDLE: Duration = Duration::from_secs(1);
/// How long it has to say so. The rest of the wait is left for another one.
const ALIVE: Duration = Duration::from_secs(1);
/// How long a connection that is given back may take to be done with what it was asked last.
const RELEASE: Duration = Duration::from_secs(5);

/// Answers requests. Each transaction names the one org whose rows it can see.
#[derive(Debug, Clone)]
pub struct App {
    pool: PgPool,
    /// Where to leave what a write would do, if it is only rehearsed.
    rehearsal: Option<Seen>,
}

/// Serves the loops.
#[derive(Debug, Clone)]
pub struct Worker {
    pool: PgPool,
    /// Whose turn it is in each cluster.
    turns: Arc<Mutex<BTreeMap<ClusterId, Turns>>>,
}

/// A transaction of this room; it never leaves it.
pub(crate) type Tx = Transaction<'static, Postgres>;

/// From here on the transaction sees the rows of this org, and of no other.
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
    /// The URL cannot be read.
    pub fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_within(url, ACQUIRE)
    }

    /// The same, waiting so long for a connection before the database counts as away.
    ///
    /// # Errors
    /// The URL cannot be read.
    pub fn connect_within(url: &str, wait: Duration) -> Result<Self, Error> {
        Ok(Self { pool: pool(url, "trueup-app", 16, wait)?, rehearsal: None })
    }

    pub(crate) async fn begin(&self, org: OrgId) -> Result<Tx, Error> {
        let mut tx = begin(&self.pool).await?;
        enter(&mut tx, org).await?;
        if self.rehearsal.is_some() {
            dry_run::begin(&mut tx).await?;
        }
        Ok(tx)
    }

    /// Ends a write: makes it durable, or undoes it where it is only rehearsed. From here on it is
    /// promised, whether or not its context ever hears so.
    pub(crate) async fn end(&self, tx: Tx) -> Result<(), Error> {
        match &self.rehearsal {
            None => {
                crash::point("door.recorded").await;
                tx.commit().await.map_err(|error| match Error::from(error) {
                    // The connection is gone, and with it the only answer there would have been.
                    Error::Unavailable(source) => Error::CommitUnknown(source),
                    error => error,
                })?;
                crash::point("door.accepted").await;
                Ok(())
            }
            Some(seen) => dry_run::end(tx, seen).await,
        }
    }

    /// The same app, ending its writes as a rehearsal.
    pub(crate) fn in_dry_run(&self, seen: Seen) -> Self {
        Self { pool: self.pool.clone(), rehearsal: Some(seen) }
    }

    /// For the few questions that come before any org is known.
    pub(crate) const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// It does not.
    pub async fn ping(&self) -> Result<(), Error> {
        sqlx::query("select 1").execute(&self.pool).await?;
        Ok(())
    }
}

impl Worker {
    /// A pool for the worker role. Connects when first used.
    ///
    /// # Errors
    /// The URL cannot be read.
    pub fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_within(url, ACQUIRE)
    }

    /// The same, waiting so long for a connection before the database counts as away.
    ///
    /// # Errors
    /// The URL cannot be read.
    pub fn connect_within(url: &str, wait: Duration) -> Result<Self, Error> {
        Ok(Self { pool: pool(url, "trueup-worker", 12, wait)?, turns: Arc::default() })
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

fn pool(url: &str, name: &str, size: u32, wait: Duration) -> Result<PgPool, Error> {
    let options = PgConnectOptions::from_str(url)?
        .application_name(name)
        // Whoever is stopped in the middle of a transaction keeps its rows, the lease's among them, and
        // stalls the sealer. Nobody here pauses between two statements.
        .options([("idle_in_transaction_session_timeout", "5s"), ("statement_timeout", "30s")]);
    let pool = PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(wait)
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            let idle = meta.idle_for;
            Box::pin(async move { Ok(idle < IDLE || answers(connection, ALIVE).await) })
        })
        // Whoever asked may have gone away without an answer. Its connection keeps a place in the pool
        // until it answers, and one whose other side vanished would do so for a quarter of an hour.
        .after_release(|connection, _| Box::pin(async { Ok(answers(connection, RELEASE).await) }))
        .connect_lazy_with(options);
    Ok(pool)
}

/// Whether the other side of a connection is still there: it may have been restarted, or have vanished
/// without a word.
async fn answers(connection: &mut PgConnection, limit: Duration) -> bool {
    matches!(timeout(limit, connection.ping()).await, Ok(Ok(())))
}
