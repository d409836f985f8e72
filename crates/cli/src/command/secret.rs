//! `trueup secret`: values go in through a pipe or a file, and never come out.
//!
//! A value is no argument: arguments are in the shell's history and in the list of processes.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use trueup_api::secret::{SecretBody, SecretText};

use crate::clock;
use crate::command::get::show;
use crate::connect::context::{Connection, Context};
use crate::connect::place::{Of, place};
use crate::dry_run::DryRun;
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
    /// Set a secret to what is piped in; the services that read it roll
    Set {
        /// Which
        name: String,
        /// Read the value from this file instead; it is taken as it is
        #[arg(long, value_name = "FILE")]
        from_file: Option<PathBuf>,
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        dry: DryRun,
    },
    /// List secrets, without their values
    List {
        #[command(flatten)]
        of: Of,
    },
    /// Take a secret away
    Delete {
        /// Which
        name: String,
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        dry: DryRun,
    },
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        Command::Set { name, from_file, of, dry } => {
            let connection = context.connect()?;
            let body = SecretBody { value: value(from_file.as_deref())? };
            set(&name, &body, &of, dry, context, &connection).await
        }
        Command::List { of } => list(of.service.as_deref(), context, &context.connect()?).await,
        Command::Delete { name, of, dry } => {
            delete(&name, &of, dry, context, &context.connect()?).await
        }
    }
}

/// What is piped in, without the line end that a shell adds; or a file as it is.
fn value(from_file: Option<&Path>) -> anyhow::Result<SecretText> {
    if let Some(path) = from_file {
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot read {}: {error}", path.display()))
                .hint("a secret is a text file; binary values must be encoded")
        })?;
        return Ok(SecretText::new(text));
    }
    if io::stdin().is_terminal() {
        return Err(Failure::new(Exit::Usage, "the value is read from a pipe")
            .hint("printf %s \"$VALUE\" | trueup secret set NAME, or pass --from-file FILE")
            .into());
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text).map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot read the value: {error}"))
            .hint("pipe a text in; binary values must be encoded")
    })?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(SecretText::new(text.strip_suffix('\r').unwrap_or(text).to_owned()))
}

async fn set(
    name: &str,
    body: &SecretBody,
    of: &Of,
    dry: DryRun,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let place = place(of.service.as_deref(), context, connection).await?;
    let writing = dry.begin(&connection.client);
    let client = writing.client();
    let setting = async {
        match &place.service {
            Some(service) => client.service_secret_put(&place.project, service, name, body).await,
            None => client.secret_put(&place.project, name, body).await,
        }
    };
    let secret = context.ask("setting the secret", setting).await?;
    if writing.previewed(&format!("secret/{name}"), context)? {
        return Ok(Exit::Ok);
    }
    if !context.output.print(context.terminal, &secret)? {
        let line = format!("secret/{} version {}", secret.name, secret.version);
        context.terminal.line(&format!("{line}, {}", place.words()))?;
    }
    Ok(Exit::Ok)
}

/// Also behind `trueup get secrets`.
pub async fn list(
    service: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let place = place(service, context, connection).await?;
    let client = &connection.client;
    let reading = async {
        match &place.service {
            Some(service) => client.service_secret_list(&place.project, service).await,
            None => client.secret_list(&place.project).await,
        }
    };
    let list = context.ask("reading the secrets", reading).await?;
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
    let things = format!("secrets of {}", place.words());
    show(
        &table,
        list.items.is_empty(),
        context,
        &things,
        || "set one with `trueup secret set NAME`",
    )
}

async fn delete(
    name: &str,
    of: &Of,
    dry: DryRun,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let place = place(of.service.as_deref(), context, connection).await?;
    let writing = dry.begin(&connection.client);
    let client = writing.client();
    let deleting = async {
        match &place.service {
            Some(service) => client.service_secret_delete(&place.project, service, name).await,
            None => client.secret_delete(&place.project, name).await,
        }
    };
    context.ask("deleting the secret", deleting).await?;
    if writing.previewed(&format!("secret/{name}"), context)? {
        return Ok(Exit::Ok);
    }
    context.terminal.line(&format!("secret/{name} deleted, {}", place.words()))?;
    Ok(Exit::Ok)
}
