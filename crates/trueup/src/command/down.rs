//! `trueup down`: stops what `trueup up` started, including what a killed one left running.

use std::time::Duration;

use rustix::process::Signal;
use trueup_local::{kube, layout, postgres, supervise};

use crate::install::Install;
use trueup_cli::connect::connection::ClientFile;
use trueup_cli::connect::context::Context;
use trueup_cli::failure::Exit;

/// Stop Trueup on this machine; its data directory stays
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

const STOP_SIGNALS: [(Signal, Duration); 1] = [(Signal::TERM, Duration::from_secs(40))];

pub(crate) async fn run(_args: &Args, context: &Context) -> anyhow::Result<Exit> {
    if !context.data_dir.exists() {
        context.terminal.note("There is no Trueup in this data directory.")?;
        return Ok(Exit::Ok);
    }
    let install = Install::open(&context.data_dir)?;
    let trueup = supervise::adopt(&install.pid_file())?;
    let mut stopped = trueup.is_some();
    if let Some(process) = trueup {
        context.wait("stopping Trueup", process.stop(&STOP_SIGNALS)).await?;
    }
    // A killed one leaves it.
    ClientFile::remove(install.dir());
    stopped |= context
        .wait("stopping Kubernetes", kube::stop_left(&layout::cache_dir(), &install.kube()))
        .await?;
    stopped |= context.wait("stopping Postgres", postgres::stop_left(&install.postgres())).await?;
    context.terminal.note(if stopped { "Trueup is down." } else { "Trueup was not up." })?;
    Ok(Exit::Ok)
}
