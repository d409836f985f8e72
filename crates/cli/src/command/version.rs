//! `trueup version`.

use serde::Serialize;

use crate::connect::context::Context;
use crate::failure::Exit;

/// Print the version
#[derive(Debug, clap::Args)]
pub struct Args {}

#[derive(Debug, Serialize)]
struct Version {
    version: &'static str,
}

pub fn run(_args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let version = Version { version: env!("CARGO_PKG_VERSION") };
    if !context.output.print(context.terminal, &version)? {
        context.terminal.line(&format!("trueup {}", version.version))?;
    }
    Ok(Exit::Ok)
}
