//! The client commands: everything that talks to a Trueup server over its API.
//!
//! Commands neither print nor exit on their own. They write through [`output::terminal::Terminal`]
//! and return an exit code or an error, so that colour, pipes, hints and exit codes are each
//! handled in one place. The `trueup` binary adds the commands that run a server.

pub mod clock;
pub mod command;
pub mod complete;
pub mod confirm;
pub mod connect;
pub mod dry_run;
pub mod failure;
pub mod manifest;
pub mod output;
mod wait;

pub use command::Command;
