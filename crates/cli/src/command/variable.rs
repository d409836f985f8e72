//! `trueup variable`: environment variables beyond those in the manifest.

use trueup_api::Client;
use trueup_api::variable::{Variable, VariableBody, VariableList};

use crate::clock;
use crate::command::entry::{self, DeleteArgs};
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
    /// Set variables and roll the services that read them
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
    /// Delete a variable
    Delete(DeleteArgs),
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    match args.command {
        Command::Set { pairs, target, write } => {
            set(&pairs, &target, write, context, &connection).await
        }
        Command::List { target } => list(target.service.as_deref(), context, &connection).await,
        Command::Delete(args) => delete(&args, context, &connection).await,
    }
}

fn pair(text: &str) -> Result<(&str, &str), Failure> {
    text.split_once('=').ok_or_else(|| {
        Failure::new(Exit::Usage, format!("`{text}` is not NAME=VALUE"))
            .hint("an empty value is NAME=")
    })
}

async fn set(
    pairs: &[String],
    target: &ServiceArg,
    write: WriteArgs,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let pairs = pairs.iter().map(|text| pair(text)).collect::<Result<Vec<_>, _>>()?;
    let scope = resolve_scope(target.service.as_deref(), context, connection).await?;
    if write.counts(&scope) {
        let mut affected = AffectedServices::new(connection);
        for (name, value) in &pairs {
            let body = VariableBody { value: (*value).to_owned() };
            let counting = put(&scope, name, &body, affected.client());
            context.wait("counting the affected services", counting).await?;
            affected.add_last();
        }
        affected.confirm(write, context.terminal)?;
    }
    let (writing, mut done) = (write.dry.begin(&connection.client), Vec::new());
    for (name, value) in pairs {
        let body = VariableBody { value: value.to_owned() };
        let setting = put(&scope, name, &body, writing.client());
        done.push(context.wait("setting the variable", setting).await?);
        writing.previewed(&format!("variable/{name}"), context)?;
    }
    if write.dry.is_dry() {
        return Ok(Exit::Ok);
    }
    let list = VariableList { items: done };
    if !context.output.print(context.terminal, &list)? {
        for variable in &list.items {
            let line = format!("variable/{} version {}", variable.name, variable.version);
            context.terminal.line(&format!("{line}, {}", scope.words()))?;
        }
    }
    Ok(Exit::Ok)
}

async fn put(
    scope: &Scope,
    name: &str,
    body: &VariableBody,
    client: &Client,
) -> anyhow::Result<Variable> {
    Ok(match &scope.service {
        Some(service) => client.service_variable_put(&scope.project, service, name, body).await?,
        None => client.variable_put(&scope.project, name, body).await?,
    })
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
    let things = format!("variables of {}", scope.words());
    show(
        &table,
        list.items.is_empty(),
        context,
        &things,
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

async fn delete(
    args: &DeleteArgs,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<Exit> {
    let request = async |client: &Client, scope: &Scope| match &scope.service {
        Some(service) => client.service_variable_delete(&scope.project, service, &args.name).await,
        None => client.variable_delete(&scope.project, &args.name).await,
    };
    entry::delete("variable", args, context, connection, request).await
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
    fn long_values_are_cut_at_a_character_boundary() {
        assert_eq!(short("short"), "short");
        assert_eq!(short(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
    }
}
