//! `trueup invoice explain`: a line of an invoice down to what was observed.

use trueup_api::Client;
use trueup_api::invoice::LineExplanation;

use crate::command::history;
use crate::connect::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::human::moment;
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// How many digits of a hash are shown; JSON has all of them.
const DIGITS: usize = 12;

pub(super) async fn run(
    client: &Client,
    invoice: &str,
    line: Option<String>,
    context: &Context,
) -> anyhow::Result<Exit> {
    let line = match line {
        Some(line) => line,
        None => first_line(client, invoice, context).await?,
    };
    let reading = client.invoice_explain(invoice, &line);
    let found = context.wait("computing the line again", reading).await?;
    if context.output.print_item(context.terminal, &found)? {
        return Ok(Exit::Ok);
    }
    let (terminal, style) = (context.terminal, context.terminal.style());
    let line = &found.line;
    let price = line.hourly.as_ref().map(|hourly| format!(" at {} per hour", hourly.text));
    let title = format!("{} {}", found.invoice, line.item);
    terminal.line(&format!(
        "{}: {} {}{} = {}",
        style.paint(Paint::Strong, &title),
        line.quantity,
        line.unit,
        price.unwrap_or_default(),
        line.amount.text,
    ))?;
    terminal.line("")?;
    context.table(&intervals(&found))?;
    terminal.line("")?;
    for transition in &found.transitions {
        terminal.line(&history::line(transition, style))?;
    }
    terminal.note(&verdict(&found))?;
    Ok(Exit::Ok)
}

async fn first_line(client: &Client, invoice: &str, context: &Context) -> anyhow::Result<String> {
    let found = context.wait("reading the invoice", client.invoice_get(invoice)).await?;
    let first = found.lines.first().map(|line| line.id.clone());
    let none = || Failure::new(Exit::Failed, format!("invoice {invoice} has no lines"));
    Ok(first.ok_or_else(none)?)
}

fn intervals(found: &LineExplanation) -> Table {
    let mut table = Table::new(&["OBJECT", "FROM", "UNTIL", "QUANTITY", "VALUE", "HASH"]);
    for one in &found.intervals {
        table.row(vec![
            Cell::plain(&short(&one.object)),
            Cell::plain(&moment(one.from)),
            Cell::plain(&moment(one.until)),
            Cell::plain(&one.quantity),
            Cell::plain(&one.value.text),
            Cell::plain(&short(&one.hash)),
        ]);
    }
    table
}

/// What the line consists of, and whether it is still true.
fn verdict(found: &LineExplanation) -> String {
    let entries: Vec<String> = found.entries.iter().map(|entry| entry.seq.to_string()).collect();
    let sum = format!(
        "ledger entries {}; rounding {}; evidence {}",
        entries.join(", "),
        found.rounding.text,
        short(&found.line.evidence)
    );
    if found.unchanged {
        format!("{sum}. Computed again from the transitions: the same")
    } else {
        format!("{sum}. Usage was added or corrected since; the next invoice has the difference")
    }
}

fn short(text: &str) -> String {
    text.chars().take(DIGITS).collect()
}
