//! What can go wrong with the local Kubernetes, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::files::FileError;
use crate::supervise;

/// The local Kubernetes cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is in the way.
    #[error("a file of the local Kubernetes cannot be used")]
    File(#[from] FileError),
    /// A process is in the way.
    #[error("the supervisor process cannot be handled")]
    Process(#[from] supervise::Error),
    /// There is no Go.
    #[error(
        "the local Kubernetes is built with Go {needed} or newer, and there is no `go` on PATH; \
         install it from https://go.dev/dl/, or name a cluster with --cluster KUBECONFIG"
    )]
    GoMissing {
        /// The oldest version that works.
        needed: &'static str,
    },
    /// The Go there is cannot build it.
    #[error(
        "the local Kubernetes needs Go {needed} or newer ({said}); \
         install it from https://go.dev/dl/, or name a cluster with --cluster KUBECONFIG"
    )]
    GoTooOld {
        /// The oldest version that works.
        needed: &'static str,
        /// What Go said.
        said: String,
    },
    /// Go does not run.
    #[error("`go` cannot be run; try `go version`")]
    Go(#[source] io::Error),
    /// The build failed.
    #[error(
        "building {program} failed; check the network and the disk and start again, \
         it goes on where it stopped:\n{said}"
    )]
    Build {
        /// The program.
        program: &'static str,
        /// Go's last words.
        said: String,
    },
    /// The supervisor ended while it was starting.
    #[error("the local Kubernetes ended while starting; the log {log} ends with:\n{tail}")]
    Ended {
        /// The log.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// The supervisor runs and the cluster does not serve.
    #[error("the local Kubernetes was not ready within {limit:?}; {log} says what it is doing")]
    Silent {
        /// How long we waited.
        limit: Duration,
        /// The log.
        log: PathBuf,
    },
    /// Containers of a real node are left.
    #[error("the real node could not be cleaned up; stop its containers by hand: {said}")]
    Clean {
        /// What the supervisor said.
        said: String,
    },
}
