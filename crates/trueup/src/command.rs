//! The whole command line: the commands that run Trueup here, and those of the `cli` crate that talk to it.

mod build_progress;
mod completions;
mod down;
mod local;
mod man;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use trueup_cli::connect::context::{Context, Globals};
use trueup_cli::failure::{self, Exit, Failure};

const EXIT_CODES: &str = "\
Exit codes:
  0  it is done, or what was waited for came true
  1  it failed; the error says why
  2  the command line cannot be understood
  3  there is no such thing
  4  what was waited for did not come true in time
  5  Trueup cannot be reached";

/// Trueup: say what shall run, and watch it become true.
#[derive(Debug, Parser)]
#[command(name = "trueup", version, after_help = EXIT_CODES, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Args),
    Down(down::Args),
    Local(local::Args),
    #[command(flatten)]
    Client(trueup_cli::Command),
    Completions(completions::Args),
    Man(man::Args),
}

/// Runs a command to its end.
pub(crate) fn main(cli: Cli) -> ExitCode {
    let context = cli.globals.into_context(trueup_local::layout::default_data_dir);
    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            anyhow::Error::from(Failure::new(Exit::Failed, format!("cannot start: {error}")))
        })
        .and_then(|runtime| runtime.block_on(run(cli.command, &context)));
    result.unwrap_or_else(|error| failure::report(&error, context.terminal).into())
}

async fn run(command: Command, context: &Context) -> anyhow::Result<ExitCode> {
    let exit = match command {
        Command::Up(args) => Box::pin(up::run(args, context)).await?,
        Command::Down(args) => Box::pin(down::run(&args, context)).await?,
        Command::Local(args) => Box::pin(local::run(&args, context)).await?,
        Command::Client(command) => Box::pin(trueup_cli::command::run(command, context)).await?,
        Command::Completions(args) => completions::run(&args, context)?,
        Command::Man(args) => man::run(&args, context)?,
    };
    Ok(exit.into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    /// clap would take one for the other: an argument of a command must not be called like a flag of all.
    #[test]
    fn no_command_reuses_the_name_of_a_global_flag() {
        fn look(command: &clap::Command, global: &[String], path: &str) {
            for inner in command.get_subcommands() {
                let path = format!("{path} {}", inner.get_name());
                for argument in inner.get_arguments() {
                    let name = argument.get_id().to_string();
                    assert!(!global.contains(&name), "{path}: {name}");
                }
                look(inner, global, &path);
            }
        }
        let command = Cli::command();
        let global: Vec<String> =
            command.get_arguments().map(|argument| argument.get_id().to_string()).collect();
        assert!(global.contains(&"token".to_owned()));
        look(&command, &global, "trueup");
    }

    #[test]
    fn global_flags_may_come_after_the_command() {
        let cli = Cli::try_parse_from(["trueup", "get", "-o", "json", "-p", "shop"]);
        assert!(cli.is_ok(), "{cli:?}");
        for wrong in [&["trueup"][..], &["trueup", "apply"], &["trueup", "watch", "a", "--until"]] {
            assert!(Cli::try_parse_from(wrong).is_err(), "{wrong:?}");
        }
    }
}
