//! `trueup completions`: prints a shell completion script.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::command::Cli;
use trueup_cli::connect::context::Context;
use trueup_cli::failure::Exit;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "trueup", &mut script);
    context.terminal.raw(&script)?;
    Ok(Exit::Ok)
}
