//! `trueup variable`: environment variables beyond those in the manifest.

use std::collections::BTreeMap;

use trueup_api::Client;
use trueup_api::client::ClientError;
use trueup_api::variable::{VariableList, VariablePatchBody};

use crate::clock;
use crate::command::entry_preview::{AffectedServices, WriteArgs};
use crate::command::get::show;
use crate::connect::context::{Connection, Context};
use crate::connect::scope::{Scope, ServiceArg, resolve_scope};
use crate::failure::{Exit, Failure};
use crate::output::human::age;
use crate::output::table::{Cell, Table};

/// Set, list and delete variables of a project or of one service
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Set variables, all or none, and roll the services that read them
    Set {
        /// NAME=VALUE
        #[arg(required = true, value_name = "NAME=VALUE")]
        pairs: Vec<String>,
        #[command(flatten)]
        target: ServiceArg,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// List variables with their values
    List {
        #[command(flatten)]
        target: ServiceArg,
    },
    /// Delete variables, all or none, and roll the services that read them
    Delete {
        /// Name of the environment variable
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        target: ServiceArg,
        #[command(flatten)]
        write: WriteArgs,
    },
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    match args.command {
        Command::Set { pairs, target, write } => {
            set(&pairs, &target, write, context, &connection).await
        }
        Command::List { target } => list(target.service.as_deref(), context, &connection).await,
        Command::Delete { names, target, write } => {
            delete(names, &target, write, context, &connection).await
        }
    }
}

fn pair(text: &str) -> Result<(&str, &str), Failure> {
    text.split_once('=').ok_or_else(|| {
        Failure::new(Exit::Usage, format!("`{text}` is not NAME=VALUE"))
            .hint("an empty value is NAME=")
    })
}

/// The values by name.
fn values(pairs: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let mut values = BTreeMap::new();
    for text in pairs {
        let (name, value) = pair(text)?;
        if values.insert(name.to_owned(), value.to_owned()).is_some() {
            let message = format!("`{name}` is given twice");
            return Err(Failure::new(Exit::Usage, message).hint("give each name one value"));
        }
    }
    Ok(values)
}

async fn set(
    pairs: &[String],
    target: &ServiceArg,
    write: WriteArgs,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let patch = VariablePatchBody { set: values(pairs)?, delete: Vec::new() };
    let scope = resolve_scope(target.service.as_deref(), context, connection).await?;
    let Some(mut list) = change(&patch, &scope, write, context, connection).await? else {
        return Ok(Exit::Ok);
    };
    list.items.retain(|variable| patch.set.contains_key(&variable.name));
    if !context.output.print(context.terminal, &list)? {
        for variable in &list.items {
            let line = format!("variable/{} version {}", variable.name, variable.version);
            context.terminal.line(&format!("{line}, {}", scope.words()))?;
        }
    }
    Ok(Exit::Ok)
}

async fn delete(
    names: Vec<String>,
    target: &ServiceArg,
    write: WriteArgs,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let patch = VariablePatchBody { set: BTreeMap::new(), delete: names };
    let scope = resolve_scope(target.service.as_deref(), context, connection).await?;
    if change(&patch, &scope, write, context, connection).await?.is_some() {
        for name in &patch.delete {
            context.terminal.line(&format!("variable/{name} deleted, {}", scope.words()))?;
        }
    }
    Ok(Exit::Ok)
}

/// Changes variables in one request, so that each service rolls once. Returns those there are
/// afterwards; `None` in a dry run.
async fn change(
    patch: &VariablePatchBody,
    scope: &Scope,
    write: WriteArgs,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Option<VariableList>> {
    if write.counts(scope) {
        let affected = AffectedServices::new(connection);
        let counting = send(patch, scope, affected.client());
        context.wait("counting the affected services", counting).await?;
        affected.confirm(write, context.terminal)?;
    }
    let writing = write.dry.begin(&connection.client);
    let changing = send(patch, scope, writing.client());
    let list = context.wait("changing the variables", changing).await?;
    let names = patch.set.keys().chain(&patch.delete);
    let subject: Vec<String> = names.map(|name| format!("variable/{name}")).collect();
    Ok((!writing.previewed(&subject.join(", "), context)?).then_some(list))
}

async fn send(
    patch: &VariablePatchBody,
    scope: &Scope,
    client: &Client,
) -> Result<VariableList, ClientError> {
    match &scope.service {
        Some(service) => client.service_variable_patch(&scope.project, service, patch).await,
        None => client.variable_patch(&scope.project, patch).await,
    }
}

/// Lists variables; also used by `trueup get variables`.
pub async fn list(
    service: Option<&str>,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let scope = resolve_scope(service, context, connection).await?;
    let client = &connection.client;
    let reading = async {
        match &scope.service {
            Some(service) => client.service_variable_list(&scope.project, service).await,
            None => client.variable_list(&scope.project).await,
        }
    };
    let list = context.wait("reading the variables", reading).await?;
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["NAME", "VALUE", "VERSION", "BY", "AGE"]);
    for variable in &list.items {
        table.row(vec![
            Cell::plain(&variable.name),
            Cell::plain(&short(&variable.value)),
            Cell::plain(&variable.version.to_string()),
            Cell::plain(&variable.updated_by),
            Cell::plain(&age(clock::now(), variable.updated_at)),
        ]);
    }
    let nouns = format!("variables of {}", scope.words());
    show(
        &table,
        list.items.is_empty(),
        context,
        &nouns,
        || "set one with `trueup variable set NAME=VALUE`",
    )
}

/// The value, cut after 60 characters; `-o json` shows all of it.
fn short(value: &str) -> String {
    const MAX: usize = 60;
    match value.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", value.get(..end).unwrap_or_default()),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_splits_at_the_first_equals_sign() {
        assert_eq!(pair("A=b=c").unwrap(), ("A", "b=c"));
        assert_eq!(pair("A=").unwrap(), ("A", ""));
        assert!(pair("A").is_err());
    }

    #[test]
    fn name_with_two_values_is_refused() {
        let pairs = |texts: &[&str]| {
            values(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(pairs(&["A=1", "B=2"]).unwrap().len(), 2);
        let refused = pairs(&["A=1", "B=2", "A=3"]).unwrap_err().to_string();
        assert!(refused.contains("`A` is given twice"), "{refused}");
    }

    #[test]
    fn long_values_are_cut_at_a_character_boundary() {
        assert_eq!(short("short"), "short");
        assert_eq!(short(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
    }
}
