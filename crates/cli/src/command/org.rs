//! `trueup org`: creates and lists orgs, for operators.

use trueup_api::Client;
use trueup_api::org::{Org, OrgRequest};

use crate::clock;
use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::age;
use crate::output::table::{Cell, Table};

/// Create and list orgs (operators)
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create an org and print its first owner's token, once
    Create {
        /// Name of the org
        name: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// List every org
    List,
    /// Show one org
    Get {
        /// Name or id (org_…)
        #[arg(value_name = "ORG")]
        which: String,
    },
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    match args.command {
        Command::Create { name, dry } => {
            let (writing, wanted) = (dry.begin(&client), OrgRequest { name });
            let made =
                context.wait("creating the org", writing.client().org_create(&wanted)).await?;
            if writing.previewed(&format!("org/{}", wanted.name), context)? {
                return Ok(Exit::Ok);
            }
            if !context.output.print(context.terminal, &made)? {
                let Org { name, id, .. } = &made.org;
                let note = format!("created org `{name}` ({id}); owner token, shown only once:");
                context.terminal.note(&note)?;
                context.terminal.line(made.owner.secret.as_deref().unwrap_or_default())?;
                context.terminal.note(&format!(
                    "the owner starts with `trueup context add {name} --url {}` and this token",
                    client.base_url()
                ))?;
            }
        }
        Command::List => {
            return list(&client, context).await;
        }
        Command::Get { which } => {
            let org = context.wait("reading the org", client.org_get(&which)).await?;
            if !context.output.print(context.terminal, &org)? {
                context.table(&orgs(&[org]))?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// Lists the orgs of the platform.
pub async fn list(client: &Client, context: &Context) -> anyhow::Result<Exit> {
    let list = context.wait("reading the orgs", client.org_list()).await?;
    if !context.output.print(context.terminal, &list)? {
        context.table(&orgs(&list.items))?;
    }
    Ok(Exit::Ok)
}

fn orgs(items: &[Org]) -> Table {
    let mut table = Table::new(&["NAME", "STATE", "AGE", "ID"]);
    for org in items {
        table.row(vec![
            Cell::plain(&org.name),
            Cell::plain(if org.deleting_at.is_some() { "being deleted" } else { "active" }),
            Cell::plain(&age(clock::now(), org.created_at)),
            Cell::plain(&org.id),
        ]);
    }
    table
}
