//! `trueup version`.

use serde::Serialize;

use super::context::Context;
use super::failure::Exit;

/// Print the version
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[derive(Debug, Serialize)]
struct Version {
    version: &'static str,
}

pub(crate) fn run(_args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let version = Version { version: env!("CARGO_PKG_VERSION") };
    if !context.output.print(context.terminal, &version)? {
        context.terminal.line(&format!("trueup {}", version.version))?;
    }
    Ok(Exit::Ok)
}
