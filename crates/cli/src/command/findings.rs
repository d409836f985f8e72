//! `trueup findings`: labelled objects without a record, found by sweeps.

use trueup_api::finding::{Finding, FindingList, FindingRemoveBody};

use crate::clock;
use crate::command::get::show;
use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::age;
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// List and remove orphans (operators)
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Include closed findings
    #[arg(long)]
    closed: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Remove the object of a finding, if its ownership proof is valid
    Remove {
        /// fnd_…
        finding: String,
        /// Number of this removal within the hour, if confirmation is required
        #[arg(long, value_name = "N")]
        confirm: Option<u64>,
        #[command(flatten)]
        dry: DryRun,
    },
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    if let Some(Command::Remove { finding, confirm, dry }) = args.command {
        let writing = dry.begin(&client);
        let body = FindingRemoveBody { confirm };
        let removing = writing.client().finding_remove(&finding, &body);
        let found = context.wait("requesting the removal", removing).await?;
        if writing.previewed(&format!("finding/{finding}"), context)? {
            return Ok(Exit::Ok);
        }
        if !context.output.print(context.terminal, &found)? {
            context.terminal.line(&format!("finding/{finding}: {}", state(&found).1))?;
        }
        return Ok(Exit::Ok);
    }
    let mut list = FindingList { items: Vec::new(), next: None };
    let mut after: Option<String> = None;
    loop {
        let reading = client.finding_list(args.closed, after.as_deref());
        let page = context.wait("reading the findings", reading).await?;
        list.items.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["ID", "CLASS", "OBJECT", "OF", "FOUND", "COST/H", "STATE"]);
    for found in &list.items {
        table.row(row(found));
    }
    let hint = || "every object with Trueup's label has a record";
    show(&table, list.items.is_empty(), context, "findings", hint)
}

fn state(found: &Finding) -> (Paint, String) {
    match (&found.closed_why, &found.remove_by, &found.kept_why) {
        (Some(why), _, _) => (Paint::Plain, why.clone()),
        (None, Some(by), _) => (Paint::Busy, format!("will be removed, requested by {by}")),
        (None, None, Some(why)) => (Paint::Bad, format!("kept: {why}")),
        (None, None, None) => (Paint::Busy, "open".to_owned()),
    }
}

fn row(found: &Finding) -> Vec<Cell> {
    let (paint, state) = state(found);
    vec![
        Cell::plain(&found.id),
        Cell::plain(found.class.into_str()),
        Cell::plain(&found.object),
        Cell::plain(found.subject.as_deref().unwrap_or_default()),
        Cell::plain(&age(clock::now(), found.found_at)),
        Cell::plain(found.hourly.as_ref().map_or("-", |cost| cost.text.as_str())),
        Cell::new(paint, &state),
    ]
}
