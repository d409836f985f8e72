//! The log: JSON lines in a file of the data directory.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Mutex;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

/// Starts logging into this file; `TRUEUP_LOG` sets the filter.
pub(crate) fn start(path: &Path) -> anyhow::Result<()> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot write the log {}", path.display()))?;
    let filter = EnvFilter::try_from_env("TRUEUP_LOG")
        .unwrap_or_else(|_| EnvFilter::new("info,sqlx=warn,kube=warn,hyper=warn"));
    tracing_subscriber::fmt()
        .json()
        .with_current_span(true)
        .with_span_list(false)
        .with_env_filter(filter)
        .with_writer(Mutex::new(file))
        .try_init()
        .map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}
