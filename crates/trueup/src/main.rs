//! The `trueup` binary: parses the command line and runs the command.

mod command;
mod config;
mod demo;
mod install;
mod logging;
mod serve;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    command::completions::answer();
    command::main(command::Cli::parse())
}
