//! The embedded Postgres: one unmodified server per data directory, reached over its Unix socket
//! only.
//!
//! The order of a start makes it crash-safe: lock the folder, adopt a server that still runs,
//! otherwise clean up after a killed one, and only then start.

mod account;
mod answer;
mod cluster;
mod error;
mod fetch;
mod socket;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::files::{self, Lock};
use crate::progress::Progress;
use crate::supervise::{self, Process};
use account::Account;
use cluster::Cluster;
pub use error::Error;
use socket::Socket;

pub(crate) const PART: &str = "postgres";

/// Recovery with a lot of WAL to replay takes a while; an empty data directory takes a second.
const START_LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// In the folder of each server.
pub(crate) const PID_FILE: &str = "pid.json";

/// SIGINT is a fast shutdown with a checkpoint; after SIGQUIT the next start must recover.
const STOP: [(Signal, Duration); 2] =
    [(Signal::INT, Duration::from_secs(15)), (Signal::QUIT, Duration::from_secs(6))];

/// Which server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder that holds everything about this server.
    pub dir: PathBuf,
    /// False trades durability for speed, in tests.
    pub durable: bool,
}

/// A running server. Dropping it leaves the server running, for the next start to adopt.
#[derive(Debug)]
pub struct Postgres {
    process: Process,
    socket: Socket,
    password: String,
    pid_file: PathBuf,
}

impl Postgres {
    /// Adopts the server of this folder if it runs, or starts it; returns once it accepts
    /// connections.
    pub async fn adopt_or_start(options: &Options, progress: &Progress) -> Result<Self, Error> {
        let started = Self::start(options, progress).await;
        progress.finish(PART);
        started
    }

    async fn start(options: &Options, progress: &Progress) -> Result<Self, Error> {
        let account = Account::choose(&options.dir)?;
        files::make_dir(&options.dir, account.dir_mode())?;
        let dir = options
            .dir
            .canonicalize()
            .map_err(|source| Error::Folder { path: options.dir.clone(), source })?;
        account.check_reachable(&dir)?;
        let _lock = Lock::take(&dir.join("lock"), || {
            progress.begin(PART, "waiting for another trueup process that uses this folder");
        })
        .await?;

        let cluster = Cluster::new(dir, options.durable, account);
        cluster.socket().prepare(cluster.account())?;
        let pid_file = cluster.pid_file();
        let process = match adopt(&cluster, &pid_file, progress).await? {
            Some(process) => process,
            None => {
                let programs = fetch::programs(&crate::layout::cache_dir(), progress).await?;
                cluster.account().check_reachable(&programs)?;
                cluster.initialise(&programs, progress).await?;
                clear_leftovers(&cluster).await?;
                progress.begin(PART, "starting");
                supervise::spawn(cluster.command(&programs)?, &pid_file)?
            }
        };
        wait_until_ready(&cluster, &process).await?;
        let password = cluster.password()?;
        Ok(Self { process, socket: cluster.socket().clone(), password, pid_file })
    }

    /// The superuser's URL, which every start keeps.
    pub fn admin_url(&self) -> String {
        self.socket.admin_url(&self.password)
    }

    /// The pid of the postmaster.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether the server still runs.
    pub fn is_alive(&self) -> bool {
        self.process.is_alive()
    }

    /// Stops the server, escalating signals if it takes too long. A stopped server is a success.
    pub async fn stop(self) -> Result<(), Error> {
        self.process.stop(&STOP).await?;
        Ok(files::remove_if_there(&self.pid_file)?)
    }

    /// Kills the postmaster with SIGKILL, for crash tests. Every file stays as it is.
    pub async fn kill(self) -> Result<(), Error> {
        Ok(self.process.stop(&[]).await?)
    }
}

/// Stops the server that a killed trueup left running in this folder, if any.
pub async fn stop_left(dir: &Path) -> Result<bool, Error> {
    supervise::stop_left(&dir.join(PID_FILE), &STOP).await.map_err(Error::from)
}

/// The running server. One that listens elsewhere is stopped instead: an earlier version of trueup
/// started it with a TCP port.
async fn adopt(
    cluster: &Cluster,
    pid_file: &Path,
    progress: &Progress,
) -> Result<Option<Process>, Error> {
    let Some(process) = running(cluster, pid_file)? else {
        return Ok(None);
    };
    let socket = cluster.socket().path();
    let listens_elsewhere = answer::postmaster(&cluster.data())?
        .filter(|found| found.pid == process.pid())
        .is_some_and(|found| found.tcp || found.socket.is_some_and(|found| found != socket));
    if !listens_elsewhere {
        progress.begin(PART, "adopting the running server");
        return Ok(Some(process));
    }
    progress.begin(PART, "restarting a server that listens elsewhere");
    process.stop(&STOP).await?;
    files::remove_if_there(pid_file)?;
    Ok(None)
}

/// The server that runs on this data directory. Our pid file may be missing if trueup was killed
/// right after the start; then the server's own lock file and its working folder identify it.
fn running(cluster: &Cluster, pid_file: &Path) -> Result<Option<Process>, Error> {
    if let Some(process) = supervise::adopt(pid_file)? {
        return Ok(Some(process));
    }
    let data = cluster.data();
    let found = answer::postmaster(&data)?
        .filter(|postmaster| supervise::works_in(postmaster.pid, &data))
        .and_then(|postmaster| Process::find(postmaster.pid));
    if let Some(process) = &found {
        supervise::record(process, pid_file)?;
    }
    Ok(found)
}

/// Cleans up after a `kill -9` of the postmaster.
///
/// Its children may live for a moment, and its lock files name a pid that may have been reused,
/// which makes Postgres refuse to start. The lock files protect against two servers, so they are
/// removed only when no process works in the data directory any more.
async fn clear_leftovers(cluster: &Cluster) -> Result<(), Error> {
    let data = cluster.data();
    for orphan in supervise::working_in(&data) {
        tracing::info!(
            pid = orphan.pid(),
            "waiting for a child process of a killed Postgres to end"
        );
        if !orphan.gone_within(Duration::from_secs(5)).await {
            orphan.stop(&[]).await?;
        }
    }
    files::remove_if_there(&answer::lock_file(&data))?;
    Ok(files::remove_if_there(&cluster.socket().lock_file())?)
}

async fn wait_until_ready(cluster: &Cluster, process: &Process) -> Result<(), Error> {
    let socket = cluster.socket().path();
    let answered = async {
        while !answer::accepts(&socket).await {
            if !process.is_alive() {
                return Err(Error::Ended { tail: files::tail(&cluster.log()), log: cluster.log() });
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    };
    match tokio::time::timeout(START_LIMIT, answered).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::Silent { limit: START_LIMIT, log: cluster.log() }),
    }
}
