//! `trueup local`: the parts on this machine.

use super::context::Context;
use super::failure::{Exit, Failure};
use crate::install::Install;

/// Look at the parts that run on this machine
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the path of the local cluster's kubeconfig
    Kubeconfig,
}

pub(crate) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let Command::Kubeconfig = args.command;
    let path = Install::open(&context.data_dir)?.kubeconfig();
    if !path.exists() {
        let failure = Failure::new(Exit::NotFound, "there is no local cluster yet");
        return Err(failure
            .hint("run `trueup up`; `trueup status` shows how far it is")
            .into());
    }
    context.terminal.line(&path.display().to_string())?;
    Ok(Exit::Ok)
}
