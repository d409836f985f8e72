//! `trueup secret`: write-only values, read from a pipe or a file.
//!
//! A value is never an argument: arguments are visible in the shell's history and the process list.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use trueup_api::Client;
use trueup_api::secret::{Secret, SecretBody};
use trueup_model::secret::SecretValue;

use crate::clock;
use crate::command::entry_preview::{AffectedServices, WriteArgs};
use crate::command::get::show;
use crate::connect::context::{Connection, Context};
use crate::connect::scope::{Scope, ServiceArg, resolve_scope};
use crate::failure::{Exit, Failure};
use crate::output::human::age;
use crate::output::table::{Cell, Table};

/// Set, list and delete secrets of a project or of one service
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Set a secret from stdin and roll the services that read it
    Set {
        /// Secret name
        name: String,
        /// Read the value from this file instead, unchanged
        #[arg(long, value_name = "FILE")]
        from_file: Option<PathBuf>,
        #[command(flatten)]
        target: ServiceArg,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// List secrets, without their values
    List {
        #[command(flatten)]
        target: ServiceArg,
    },
    /// Delete a secret and roll the services that read it
    Delete {
        /// Name of the environment variable
        name: String,
        #[command(flatten)]
        target: ServiceArg,
        #[command(flatten)]
        write: WriteArgs,
    },
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        Command::Set { name, from_file, target, write } => {
            let connection = context.connect()?;
            let body = SecretBody { value: value(from_file.as_deref())? };
            set(&name, &body, &target, write, context, &connection).await
        }
        Command::List { target } => {
            list(target.service.as_deref(), context, &context.connect()?).await
        }
        Command::Delete { name, target, write } => {
            delete(&name, &target, write, context, &context.connect()?).await
        }
    }
}

/// The value: stdin without its last line end, or the file unchanged.
fn value(from_file: Option<&Path>) -> anyhow::Result<SecretValue> {
    if let Some(path) = from_file {
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot read {}: {error}", path.display()))
                .hint("a secret is a text file; binary values must be encoded")
        })?;
        return Ok(SecretValue::new(text));
    }
    if io::stdin().is_terminal() {
        return Err(Failure::new(Exit::Usage, "the value must be piped in")
            .hint("printf %s \"$VALUE\" | trueup secret set NAME, or pass --from-file FILE")
            .into());
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text).map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot read the value: {error}"))
            .hint("pipe in text; binary values must be encoded")
    })?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(SecretValue::new(text.strip_suffix('\r').unwrap_or(text).to_owned()))
}

async fn set(
    name: &str,
    body: &SecretBody,
    target: &ServiceArg,
    write: WriteArgs,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let scope = resolve_scope(target.service.as_deref(), context, connection).await?;
    if write.counts(&scope) {
        let affected = AffectedServices::new(connection);
        let counting = put(&scope, name, body, affected.client());
        context.wait("counting the affected services", counting).await?;
        affected.confirm(write, context.terminal)?;
    }
    let writing = write.dry.begin(&connection.client);
    let setting = put(&scope, name, body, writing.client());
    let secret = context.wait("setting the secret", setting).await?;
    if writing.previewed(&format!("secret/{name}"), context)? {
        return Ok(Exit::Ok);
    }
    if !context.output.print(context.terminal, &secret)? {
        let line = format!("secret/{} version {}", secret.name, secret.version);
        context.terminal.line(&format!("{line}, {}", scope.words()))?;
    }
    Ok(Exit::Ok)
}

async fn put(
    scope: &Scope,
    name: &str,
    body: &SecretBody,
    client: &Client,
) -> anyhow::Result<Secret> {
    Ok(match &scope.service {
        Some(service) => client.service_secret_put(&scope.project, service, name, body).await?,
        None => client.secret_put(&scope.project, name, body).await?,
    })
}

/// Lists secrets; also used by `trueup get secrets`.
pub async fn list(
    service: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let scope = resolve_scope(service, context, connection).await?;
    let client = &connection.client;
    let reading = async {
        match &scope.service {
            Some(service) => client.service_secret_list(&scope.project, service).await,
            None => client.secret_list(&scope.project).await,
        }
    };
    let list = context.wait("reading the secrets", reading).await?;
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["NAME", "VERSION", "BY", "AGE"]);
    for secret in &list.items {
        table.row(vec![
            Cell::plain(&secret.name),
            Cell::plain(&secret.version.to_string()),
            Cell::plain(&secret.updated_by),
            Cell::plain(&age(clock::now(), secret.updated_at)),
        ]);
    }
    let nouns = format!("secrets of {}", scope.words());
    show(&table, list.items.is_empty(), context, &nouns, || "set one with `trueup secret set NAME`")
}

async fn delete(
    name: &str,
    target: &ServiceArg,
    write: WriteArgs,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let scope = resolve_scope(target.service.as_deref(), context, connection).await?;
    if write.counts(&scope) {
        let affected = AffectedServices::new(connection);
        let counting = remove(&scope, name, affected.client());
        context.wait("counting the affected services", counting).await?;
        affected.confirm(write, context.terminal)?;
    }
    let writing = write.dry.begin(&connection.client);
    let deleting = remove(&scope, name, writing.client());
    context.wait("deleting the secret", deleting).await?;
    if !writing.previewed(&format!("secret/{name}"), context)? {
        context.terminal.line(&format!("secret/{name} deleted, {}", scope.words()))?;
    }
    Ok(Exit::Ok)
}

async fn remove(scope: &Scope, name: &str, client: &Client) -> anyhow::Result<()> {
    match &scope.service {
        Some(service) => client.service_secret_delete(&scope.project, service, name).await?,
        None => client.secret_delete(&scope.project, name).await?,
    }
    Ok(())
}
