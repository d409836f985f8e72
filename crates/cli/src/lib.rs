//! The command line of people who use Trueup: everything that talks to a server over its API.
//!
//! Commands never print by themselves and never exit by themselves. They write through
//! [`output::terminal::Terminal`] and return an exit code or an error, so that colour, pipes, hints and
//! exit codes are decided in one place each. The binary adds the commands that run a server.

pub mod clock;
pub mod command;
pub mod connect;
pub mod dry_run;
pub mod failure;
pub mod manifest;
pub mod output;
pub mod secret;
mod wait;

pub use command::Command;
