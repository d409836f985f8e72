//! `trueup conflicts`: fields that two writers fight over, until a person decides.

use jiff::Timestamp;
use trueup_api::conflict::{Conflict, ConflictList, ConflictSettleBody, ConflictSettlement};

use crate::clock;
use crate::command::drift::subject;
use crate::command::get::show;
use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::drift::{place, short_object};
use crate::output::format::Output;
use crate::output::human::{age, clean, duration, moment};
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

const HOUR: u64 = 3600;

/// List fields that two writers fight over, and settle who wins
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Include settled conflicts
    #[arg(long)]
    all: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Settle a conflict: enforce our value, adopt theirs, or ignore the field (owners)
    Settle {
        /// cft_…
        conflict: String,
        /// Whose value holds
        #[arg(value_parser = ["ours", "adopt", "ignore"])]
        decision: String,
        /// How long the decision holds, in whole hours, such as 8h; default: for ever
        #[arg(long = "for", value_name = "TIME", value_parser = hours)]
        for_hours: Option<u32>,
        /// Decide anew: the decision that this one replaces
        #[arg(long, value_name = "DECISION", value_parser = ["ours", "ignore"])]
        instead_of: Option<String>,
        #[command(flatten)]
        dry: DryRun,
    },
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        Some(Command::Settle { conflict, decision, for_hours, instead_of, dry }) => {
            let body = ConflictSettleBody { decision, for_hours, instead_of };
            settle(&conflict, &body, dry, context).await
        }
        None => list(args.all, context).await,
    }
}

async fn list(all: bool, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let mut list = ConflictList { items: Vec::new(), next: None };
    let mut after: Option<String> = None;
    loop {
        let reading = client.conflict_list(all, after.as_deref());
        let page = context.wait("reading the conflicts", reading).await?;
        list.items.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    if let Some(project) = &context.project {
        list.items.retain(|conflict| conflict.project == *project);
    }
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let table = table(&list.items, clock::now(), context.output == Output::Wide);
    let hint = || "no field is fought over; `--all` lists what was settled";
    show(&table, list.items.is_empty(), context, "conflicts", hint)?;
    if list.items.iter().any(|conflict| conflict.settled.is_none()) {
        let hint = "settle one with `trueup conflicts settle ID ours|adopt|ignore [--for 8h]`";
        context.terminal.note(hint)?;
    }
    Ok(Exit::Ok)
}

fn table(items: &[Conflict], now: Timestamp, wide: bool) -> Table {
    let mut table = Table::new(&["ID", "AGE", "SERVICE", "FIELD", "BY", "STATE"]);
    for conflict in items {
        let field = match (wide, conflict.field.as_str()) {
            (true, field) => place(&conflict.object, field),
            (false, "") => short_object(&conflict.object),
            (false, field) => field.to_owned(),
        };
        let (paint, state) = match &conflict.settled {
            Some(settled) if wide => (Paint::Plain, words(settled)),
            Some(settled) => (Paint::Plain, settled.decision.to_string()),
            None => (Paint::Bad, "open".to_owned()),
        };
        table.row(vec![
            Cell::plain(&conflict.id),
            Cell::plain(&age(now, conflict.raised_at)),
            Cell::plain(&subject(&conflict.project, conflict.service.as_deref())),
            Cell::plain(&field),
            Cell::plain(conflict.by.as_deref().unwrap_or("unknown")),
            Cell::new(paint, &state),
        ]);
    }
    table.shorten(&["SERVICE", "FIELD", "BY"]);
    table
}

/// Whose value holds, who decided it, and until when.
fn words(settled: &ConflictSettlement) -> String {
    let ConflictSettlement { decision, by, until, .. } = settled;
    let until = until.map(|until| format!(" until {}", moment(until))).unwrap_or_default();
    format!("{decision} by {by}{until}")
}

async fn settle(
    conflict: &str,
    body: &ConflictSettleBody,
    dry: DryRun,
    context: &Context,
) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let writing = dry.begin(&client);
    let settling = writing.client().conflict_settle(conflict, body);
    let settled = context.wait("settling the conflict", settling).await?;
    if writing.previewed(&format!("conflict/{conflict}"), context)? {
        return Ok(Exit::Ok);
    }
    if !context.output.print(context.terminal, &settled)? {
        context.terminal.line(&decided(&settled))?;
    }
    Ok(Exit::Ok)
}

/// What was decided about a conflict, in one line.
fn decided(conflict: &Conflict) -> String {
    clean(&format!(
        "{} settled: {}, {}",
        subject(&conflict.project, conflict.service.as_deref()),
        place(&conflict.object, &conflict.field),
        conflict.settled.as_ref().map(words).unwrap_or_default()
    ))
}

/// Reads a whole number of hours: `8h`, `2d`.
fn hours(text: &str) -> Result<u32, String> {
    let seconds = duration(text)?.as_secs();
    let hours = u32::try_from(seconds / HOUR).ok().filter(|hours| *hours > 0);
    hours
        .filter(|_| seconds % HOUR == 0)
        .ok_or_else(|| format!("`{text}` is not a whole number of hours; write it like 8h or 2d"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::output::style::Style;

    fn conflict(settled: &Value) -> Conflict {
        serde_json::from_value(json!({
            "id": "cft_01h455vb4pex5vsknk084sn02q", "subject": "svc_1", "project": "shop",
            "service": "web", "object": "Deployment/shop-1/web-1", "field": "spec.replicas",
            "by": "argocd", "raised_at": "2026-01-01T00:00:00Z", "settled": settled,
        }))
        .unwrap()
    }

    #[test]
    fn table_keeps_the_id_and_fits_a_terminal() {
        let settled = json!({
            "decision": "ours", "by": "ann", "at": "2026-01-01T00:00:30Z",
            "until": "2026-01-01T08:00:30Z",
        });
        let items = [conflict(&Value::Null), conflict(&settled)];
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(
            table(&items, now, false).render(Style::new(false)),
            "\
ID                               AGE   SERVICE    FIELD           BY       STATE
cft_01h455vb4pex5vsknk084sn02q   1m    shop/web   spec.replicas   argocd   open
cft_01h455vb4pex5vsknk084sn02q   1m    shop/web   spec.replicas   argocd   ours"
        );
        let wide = table(&items, now, true).render(Style::new(false));
        assert!(wide.contains("spec.replicas of Deployment/web-1   argocd   open"), "{wide}");
        assert_eq!(
            decided(&items[1]),
            "shop/web settled: spec.replicas of Deployment/web-1, ours by ann until 2026-01-01 \
             08:00:30Z"
        );
    }

    #[test]
    fn decisions_hold_for_whole_hours() {
        assert_eq!(hours("8h"), Ok(8));
        assert_eq!(hours("2d"), Ok(48));
        for text in ["90m", "0h", "0", "h", "1000d"] {
            assert!(hours(text).is_err(), "{text}");
        }
    }
}
