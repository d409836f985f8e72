//! `trueup man`: manual pages, generated from the same text as `--help`.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::command::Cli;
use trueup_cli::connect::context::Context;
use trueup_cli::failure::{Exit, Failure};

/// Print the manual page, or write one page for each command
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write `trueup.1`, `trueup-get.1` … into this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        context.terminal.raw(&page)?;
        return Ok(Exit::Ok);
    };
    let written =
        std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
    written.map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot write into {}: {error}", dir.display()))
            .hint("choose a folder that you may write to")
    })?;
    context.terminal.note(&format!("read them with `man -l {}/trueup.1`", dir.display()))?;
    Ok(Exit::Ok)
}
