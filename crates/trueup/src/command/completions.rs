//! `trueup completions`: prints a script for a shell, which asks this program for what can follow.
//!
//! The values of arguments are read when they are needed, so that names of services are offered, too.

use std::ffi::OsStr;

use clap::{Command, CommandFactory};
use clap_complete::env::Shells;
use clap_complete::{ArgValueCompleter, CompleteEnv, CompletionCandidate, Shell};
use trueup_cli::complete::Values;
use trueup_cli::connect::context::{Context, Globals};
use trueup_cli::failure::{Exit, Failure};

use crate::command::Cli;

/// The variable with which the script asks.
const VARIABLE: &str = "COMPLETE";

/// Print a completion script for a shell, such as `source <(trueup completions bash)`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// The commands, each with an argument and what its value may be.
const VALUES: &[(&str, &str, Values)] = &[
    ("describe", "name", Values::Services),
    ("compare", "name", Values::Services),
    ("history", "name", Values::Services),
    ("why", "name", Values::Services),
    ("watch", "name", Values::Services),
    ("logs", "name", Values::Services),
    ("run", "name", Values::Services),
    ("events", "name", Values::Services),
    ("drift", "service", Values::Services),
    ("delete", "names", Values::Services),
    ("pause", "names", Values::Services),
    ("resume", "names", Values::Services),
    ("restart", "names", Values::Services),
    ("scale", "names", Values::Services),
    ("resize", "names", Values::Services),
    ("rollback", "names", Values::Services),
    ("get", "what", Values::KindsAndServices),
    ("explain", "what", Values::Explained),
    ("resize", "plan", Values::Plans),
    ("watch", "until", Values::Conditions),
    ("events", "kind", Values::EventTypes),
];

/// Answers a question of the script, and ends the process then. Otherwise it does nothing.
pub(crate) fn answer() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// The command line with what the values of its arguments may be.
fn command() -> Command {
    let command = with_values(Cli::command(), "project", Values::Projects);
    VALUES.iter().fold(command, |command, (name, argument, values)| {
        command.mut_subcommand(name, |inner| with_values(inner, argument, *values))
    })
}

/// In its place: the order of arguments is what tells positional ones apart.
fn with_values(command: Command, wanted: &str, values: Values) -> Command {
    command.mut_args(|argument| match argument.get_id() == wanted {
        true => argument.add(completer(values)),
        false => argument,
    })
}

fn completer(values: Values) -> ArgValueCompleter {
    ArgValueCompleter::new(move |typed: &OsStr| {
        let context =
            || Globals::from_environment().into_context(trueup_local::layout::default_data_dir);
        let found = values.starting_with(&typed.to_string_lossy(), context);
        found.into_iter().map(CompletionCandidate::new).collect()
    })
}

pub(crate) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let shells = Shells::builtins();
    let name = args.shell.to_string();
    let shell = shells
        .completer(&name)
        .ok_or_else(|| Failure::new(Exit::Usage, format!("there is no script for {name}")))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "trueup", "trueup", "trueup", &mut script)?;
    context.terminal.raw(&script)?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use clap_complete::engine::complete;

    use super::*;

    #[test]
    fn every_named_argument_exists() {
        command().debug_assert();
        let command = Cli::command();
        for (name, argument, _) in VALUES {
            let inner = command.find_subcommand(name);
            let found =
                inner.is_some_and(|it| it.get_arguments().any(|it| it.get_id() == *argument));
            assert!(found, "{name} has no argument {argument}");
        }
    }

    #[test]
    fn values_of_a_condition_are_offered() {
        let words = ["trueup", "watch", "web", "--until", "sett"].map(Into::into).to_vec();
        let offered = complete(&mut command(), words, 4, None).unwrap();
        let offered: Vec<_> = offered.iter().map(CompletionCandidate::get_value).collect();
        assert_eq!(offered, ["settled"]);
    }
}
