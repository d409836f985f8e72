//! The command line: one file per command, and this one that lists them.
//!
//! Commands never print by themselves and never exit by themselves. They write through
//! [`terminal::Terminal`] and return an exit code or an error, so that colour, pipes, hints and
//! exit codes are decided in one place each.

pub(crate) mod clock;
pub(crate) mod connection;
pub(crate) mod context;
pub(crate) mod contexts;
pub(crate) mod failure;
pub(crate) mod human;
pub(crate) mod manifest;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod secret;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod terminal;

mod act;
mod api;
mod apply;
mod audit;
mod cluster;
mod completions;
mod context_command;
mod delete;
mod describe;
mod domain;
mod down;
mod endpoint;
mod env;
mod event_line;
mod events;
mod exact;
mod explain;
mod findings;
mod follow;
mod freeze;
mod get;
mod history;
mod local;
mod logs;
mod man;
mod org;
mod place;
mod plan;
mod preview;
mod receipt;
mod rehearse;
mod run;
mod secret_command;
mod selling;
mod services;
mod spelling;
mod status;
mod steps;
mod target;
mod template;
mod token;
mod until;
mod up;
mod variable;
mod version;
mod volume;
mod wakes;
mod watch;
mod why;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::context::{Context, Globals};
use self::failure::{Exit, Failure};

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
    // Running Trueup itself.
    Up(up::Args),
    Down(down::Args),
    Status(status::Args),
    Local(local::Args),

    // Using it.
    Plan(plan::Args),
    Apply(apply::Args),
    Get(get::Args),
    Describe(describe::Args),
    History(history::Args),
    Why(why::Args),
    Watch(watch::Args),
    Logs(logs::Args),
    Pause(act::PauseArgs),
    Resume(act::ResumeArgs),
    Restart(act::RestartArgs),
    Scale(act::ScaleArgs),
    Resize(act::ResizeArgs),
    Rollback(act::RollbackArgs),
    Reconcile(freeze::ReconcileArgs),
    Freeze(freeze::FreezeArgs),
    Unfreeze(freeze::UnfreezeArgs),
    Run(run::Args),
    Delete(delete::Args),
    Events(events::Args),
    Audit(audit::Args),
    Api(api::Args),
    Explain(explain::Args),
    Template(template::Args),

    // Who may use it.
    Whoami(token::WhoamiArgs),
    Token(token::Args),
    Org(org::Args),
    Wakes(wakes::Args),
    Findings(findings::Args),
    Cluster(cluster::Args),
    Context(context_command::Args),

    Env(env::Args),
    Variable(variable::Args),
    Secret(secret_command::Args),
    Domain(domain::Args),
    Endpoint(endpoint::Args),
    Completions(completions::Args),
    Man(man::Args),
    Version(version::Args),
}

/// Runs a command to its end.
pub(crate) fn main(cli: Cli) -> ExitCode {
    let context = cli.globals.into_context();
    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            anyhow::Error::from(Failure::new(Exit::Failed, format!("cannot start: {error}")))
        })
        .and_then(|runtime| runtime.block_on(run(cli.command, &context)));
    result.unwrap_or_else(|error| failure::report(&error, context.terminal).into())
}

#[expect(clippy::cognitive_complexity, reason = "a table of commands, however many")]
async fn run(command: Command, context: &Context) -> anyhow::Result<ExitCode> {
    let exit = match command {
        Command::Up(args) => Box::pin(up::run(args, context)).await?,
        Command::Down(args) => Box::pin(down::run(&args, context)).await?,
        Command::Status(args) => Box::pin(status::run(&args, context)).await?,
        Command::Local(args) => Box::pin(local::run(&args, context)).await?,
        Command::Plan(args) => Box::pin(plan::run(args, context)).await?,
        Command::Pause(args) => Box::pin(act::pause(args, context)).await?,
        Command::Resume(args) => Box::pin(act::resume(args, context)).await?,
        Command::Restart(args) => Box::pin(act::restart(args, context)).await?,
        Command::Scale(args) => Box::pin(act::scale(args, context)).await?,
        Command::Resize(args) => Box::pin(act::resize(args, context)).await?,
        Command::Rollback(args) => Box::pin(act::rollback(args, context)).await?,
        Command::Apply(args) => Box::pin(apply::run(args, context)).await?,
        Command::Get(args) => Box::pin(get::run(args, context)).await?,
        Command::Describe(args) => Box::pin(describe::run(args, context)).await?,
        Command::History(args) => Box::pin(history::run(args, context)).await?,
        Command::Why(args) => Box::pin(why::run(args, context)).await?,
        Command::Watch(args) => Box::pin(watch::run(args, context)).await?,
        Command::Logs(args) => Box::pin(logs::run(args, context)).await?,
        Command::Reconcile(args) => Box::pin(freeze::reconcile(args, context)).await?,
        Command::Freeze(args) => Box::pin(freeze::freeze(args, context)).await?,
        Command::Unfreeze(args) => Box::pin(freeze::unfreeze(args, context)).await?,
        Command::Run(args) => Box::pin(run::run(args, context)).await?,
        Command::Delete(args) => Box::pin(delete::run(args, context)).await?,
        Command::Events(args) => Box::pin(events::run(args, context)).await?,
        Command::Audit(args) => Box::pin(audit::run(args, context)).await?,
        Command::Api(args) => Box::pin(api::run(args, context)).await?,
        Command::Whoami(args) => Box::pin(token::whoami(&args, context)).await?,
        Command::Token(args) => Box::pin(token::run(args, context)).await?,
        Command::Wakes(args) => Box::pin(wakes::run(args, context)).await?,
        Command::Findings(args) => Box::pin(findings::run(args, context)).await?,
        Command::Cluster(args) => Box::pin(cluster::run(args, context)).await?,
        Command::Org(args) => Box::pin(org::run(args, context)).await?,
        Command::Context(args) => Box::pin(context_command::run(args, context)).await?,
        Command::Env(args) => env::run(&args, context)?,
        Command::Explain(args) => Box::pin(explain::run(args, context)).await?,
        Command::Template(args) => Box::pin(template::run(args, context)).await?,
        Command::Variable(args) => Box::pin(variable::run(args, context)).await?,
        Command::Secret(args) => Box::pin(secret_command::run(args, context)).await?,
        Command::Domain(args) => Box::pin(domain::run(args, context)).await?,
        Command::Endpoint(args) => Box::pin(endpoint::run(args, context)).await?,
        Command::Completions(args) => completions::run(&args, context)?,
        Command::Man(args) => man::run(&args, context)?,
        Command::Version(args) => version::run(&args, context)?,
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
