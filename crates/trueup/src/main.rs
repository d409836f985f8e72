//! The one binary: reads the command line and hands over to the command.

mod command;
mod demo;
mod install;
mod logging;
mod serve;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    command::main(command::Cli::parse())
}
