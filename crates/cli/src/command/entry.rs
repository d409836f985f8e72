//! What `trueup variable` and `trueup secret` have in common: both delete a named value of a project
//! or of one service. They differ in how values are given and shown.

use trueup_api::Client;
use trueup_api::client::ClientError;

use crate::command::entry_preview::{AffectedServices, WriteArgs};
use crate::connect::context::{Connection, Context};
use crate::connect::scope::{Scope, ServiceArg, resolve_scope};
use crate::failure::Exit;

/// Arguments of `trueup variable delete` and `trueup secret delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteArgs {
    /// Name of the environment variable
    pub name: String,
    #[command(flatten)]
    target: ServiceArg,
    #[command(flatten)]
    write: WriteArgs,
}

/// Deletes a variable or secret with this request, or shows what that would do.
pub async fn delete(
    noun: &str,
    args: &DeleteArgs,
    context: &Context,
    connection: &Connection,
    request: impl AsyncFn(&Client, &Scope) -> Result<(), ClientError>,
) -> anyhow::Result<Exit> {
    let scope = resolve_scope(args.target.service.as_deref(), context, connection).await?;
    if args.write.counts(&scope) {
        let mut affected = AffectedServices::new(connection);
        let counting = request(affected.client(), &scope);
        context.wait("counting the affected services", counting).await?;
        affected.add_last();
        affected.confirm(args.write, context.terminal)?;
    }
    let writing = args.write.dry.begin(&connection.client);
    let deleting = request(writing.client(), &scope);
    context.wait(&format!("deleting the {noun}"), deleting).await?;
    let entry = format!("{noun}/{}", args.name);
    if !writing.previewed(&entry, context)? {
        context.terminal.line(&format!("{entry} deleted, {}", scope.words()))?;
    }
    Ok(Exit::Ok)
}
