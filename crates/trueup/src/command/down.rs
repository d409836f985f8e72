//! `trueup down`: stop what `trueup up` started, also what a killed one left behind.

use std::time::Duration;

use rustix::process::Signal;
use trueup_local::{kube, layout, postgres, supervise};

use crate::install::Install;
use trueup_cli::connect::context::Context;
use trueup_cli::failure::Exit;

/// Stop Trueup on this machine; what it keeps stays in its data directory
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

const PATIENCE: [(Signal, Duration); 1] = [(Signal::TERM, Duration::from_secs(40))];

pub(crate) async fn run(_args: &Args, context: &Context) -> anyhow::Result<Exit> {
    if !context.data_dir.exists() {
        context.terminal.note("There is no Trueup here.")?;
        return Ok(Exit::Ok);
    }
    let install = Install::open(&context.data_dir)?;
    let trueup = supervise::adopt(&install.pid_file())?;
    let mut stopped = trueup.is_some();
    if let Some(process) = trueup {
        context.ask("Trueup to stop", process.stop(&PATIENCE)).await?;
    }
    stopped |= context
        .ask("Kubernetes to stop", kube::stop_left(&layout::cache_dir(), &install.kube()))
        .await?;
    stopped |= context.ask("Postgres to stop", postgres::stop_left(&install.postgres())).await?;
    context.terminal.note(if stopped { "Trueup is down." } else { "Trueup was not up." })?;
    Ok(Exit::Ok)
}
