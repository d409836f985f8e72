//! The command line: commands that run Trueup on this machine, and the client commands.

mod build_progress;
pub(crate) mod completions;
mod config;
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
  0  success
  1  failed; the error says why
  2  invalid command line
  3  not found
  4  timed out waiting
  5  Trueup is unreachable";

/// Trueup: declare what should run, and watch it converge.
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
    Config(config::Args),
    #[command(flatten)]
    Client(trueup_cli::Command),
    #[command(alias = "completion")]
    Completions(completions::Args),
    Man(man::Args),
}

/// Runs a command and returns its exit code.
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
        Command::Config(args) => config::run(&args, context)?,
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
    fn command_line_definition_is_valid() {
        Cli::command().debug_assert();
    }

    /// clap identifies arguments by name: a command's argument must not share a global flag's name.
    #[test]
    fn no_command_reuses_the_name_of_a_global_flag() {
        fn check(command: &clap::Command, global: &[String], path: &str) {
            for inner in command.get_subcommands() {
                let path = format!("{path} {}", inner.get_name());
                for argument in inner.get_arguments() {
                    let name = argument.get_id().to_string();
                    assert!(!global.contains(&name), "{path}: {name}");
                }
                check(inner, global, &path);
            }
        }
        let command = Cli::command();
        let global: Vec<String> =
            command.get_arguments().map(|argument| argument.get_id().to_string()).collect();
        assert!(global.contains(&"token".to_owned()));
        check(&command, &global, "trueup");
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
