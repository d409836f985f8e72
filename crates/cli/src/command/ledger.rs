//! `trueup ledger`: what was posted, the sums of accounts, and whether it is all still true.

use trueup_api::Client;
use trueup_api::client::ClientError;
use trueup_api::ledger::{LedgerEntry, LedgerPage};

use crate::command::get::show;
use crate::connect::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::human::{count, moment};
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// List what was posted to the org's ledger; sum up its accounts; verify it
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Show every posting of every entry
    #[arg(long)]
    postings: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the sum of every account
    Accounts,
    /// Compute usage and costs again from transitions, and name the first difference
    Verify,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        None => list(args.postings, context).await,
        Some(Command::Accounts) => accounts(context).await,
        Some(Command::Verify) => verify(context).await,
    }
}

async fn list(postings: bool, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let page = context.wait("reading the ledger", every_entry(&client)).await?;
    if context.output.print(context.terminal, &page)? {
        return Ok(Exit::Ok);
    }
    let mut table = if postings { posting_table(&page.items) } else { entry_table(&page.items) };
    table.shorten(&["ACCOUNT", "ITEM", "SERVICE"]);
    let hint = || "usage is posted once an hour; `trueup cost` shows what it costs so far";
    show(&table, page.items.is_empty(), context, "entries", hint)?;
    Ok(Exit::Ok)
}

async fn every_entry(client: &Client) -> Result<LedgerPage, ClientError> {
    let mut all = LedgerPage { items: Vec::new(), next: None };
    loop {
        let page = client.ledger_list(all.next, Some(1000)).await?;
        all.items.extend(page.items);
        all.next = page.next;
        if all.next.is_none() {
            return Ok(all);
        }
    }
}

fn entry_table(entries: &[LedgerEntry]) -> Table {
    let mut table = Table::new(&["SEQ", "POSTED", "KIND", "ITEM", "RECEIVABLE"]);
    for entry in entries {
        let due = entry.postings.iter().find(|it| it.account.starts_with("receivable:"));
        table.row(vec![
            Cell::plain(&entry.seq.to_string()),
            Cell::plain(&moment(entry.posted_at)),
            Cell::plain(&entry.kind),
            Cell::plain(entry.item.as_deref().or(entry.reference.as_deref()).unwrap_or("-")),
            Cell::plain(due.map_or("-", |posting| posting.amount.text.as_str())),
        ]);
    }
    table
}

fn posting_table(entries: &[LedgerEntry]) -> Table {
    let mut table = Table::new(&["SEQ", "ACCOUNT", "SERVICE", "AMOUNT"]);
    for (entry, posting) in entries.iter().flat_map(|it| it.postings.iter().map(move |p| (it, p))) {
        table.row(vec![
            Cell::plain(&entry.seq.to_string()),
            Cell::plain(&posting.account),
            Cell::plain(posting.service.as_deref().unwrap_or("-")),
            Cell::plain(&posting.amount.text),
        ]);
    }
    table
}

async fn accounts(context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let list = context.wait("reading the accounts", client.ledger_accounts()).await?;
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["ACCOUNT", "SUM"]);
    for one in &list.items {
        table.row(vec![Cell::plain(&one.account), Cell::plain(&one.sum.text)]);
    }
    show(&table, list.items.is_empty(), context, "accounts", || "nothing was posted yet")?;
    Ok(Exit::Ok)
}

async fn verify(context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let found = context.wait("computing everything again", client.ledger_verify()).await?;
    if context.output.print_item(context.terminal, &found)? {
        return Ok(if found.difference.is_some() { Exit::Failed } else { Exit::Ok });
    }
    if let Some(difference) = &found.difference {
        let hint = "nothing was changed; an operator decides what to correct";
        return Err(Failure::new(Exit::Failed, difference.clone()).hint(hint).into());
    }
    let size = |number: u64, thing| count(usize::try_from(number).unwrap_or(usize::MAX), thing);
    let style = context.terminal.style();
    context.terminal.line(&format!(
        "{}: {} metered and {} rated again, {} entries checked",
        style.paint(Paint::Good, "the ledger is true"),
        size(found.objects, "object"),
        size(found.lines, "line"),
        found.entries,
    ))?;
    if found.pending > 0 {
        let pending = size(found.pending, "line");
        context.terminal.note(&format!("{pending} changed since usage was last posted"))?;
    }
    Ok(Exit::Ok)
}
