//! Errors of the local Kubernetes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::files::FileError;
use crate::supervise;

/// The local Kubernetes could not be built, started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation failed.
    #[error("cannot use a file of the local Kubernetes")]
    File(#[from] FileError),
    /// The supervisor process could not be started or stopped.
    #[error("cannot start or stop the supervisor process")]
    Process(#[from] supervise::Error),
    /// Go is not installed.
    #[error(
        "the local Kubernetes is built with Go {needed} or newer, and there is no `go` on PATH; \
         install it from https://go.dev/dl/, or use another cluster with --cluster KUBECONFIG"
    )]
    GoMissing {
        /// The oldest version that works.
        needed: &'static str,
    },
    /// The installed Go is too old.
    #[error(
        "the local Kubernetes needs Go {needed} or newer ({output}); \
         install it from https://go.dev/dl/, or use another cluster with --cluster KUBECONFIG"
    )]
    GoTooOld {
        /// The oldest version that works.
        needed: &'static str,
        /// What Go printed.
        output: String,
    },
    /// Go does not run.
    #[error("cannot run `go`; try `go version`")]
    Go(#[source] io::Error),
    /// The build failed.
    #[error(
        "building {program} failed; check the network and the disk and start again; \
         the build resumes where it stopped:\n{output}"
    )]
    Build {
        /// The program.
        program: &'static str,
        /// The last lines that Go printed.
        output: String,
    },
    /// The supervisor ended while it was starting.
    #[error("the local Kubernetes exited during startup; the log {log} ends with:\n{tail}")]
    Ended {
        /// The log.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// The supervisor runs and the cluster does not serve.
    #[error("the local Kubernetes was not ready within {limit:?}; see {log}")]
    Silent {
        /// How long we waited.
        limit: Duration,
        /// The log.
        log: PathBuf,
    },
    /// Containers of a real node are left.
    #[error("cannot clean up the real node; stop its containers by hand: {why}")]
    Clean {
        /// What the supervisor printed.
        why: String,
    },
}
