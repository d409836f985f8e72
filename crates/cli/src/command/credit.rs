//! `trueup credit`: what an org was granted, and what is left of it.

use jiff::Timestamp;
use trueup_api::credit::{Credit, CreditGrantBody};

use crate::clock;
use crate::command::get::show;
use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::{age, clean, moment};
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

const DAY: i64 = 86_400;

/// List the org's credit, or grant some (operators)
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Grant credit, which pays the next invoices (operators)
    Grant(GrantArgs),
}

#[derive(Debug, clap::Args)]
struct GrantArgs {
    /// How much, such as 25 or 12.50
    #[arg(value_parser = micros)]
    amount: i64,
    /// The currency; default: that of the org
    #[arg(long)]
    currency: Option<String>,
    /// Why
    #[arg(long)]
    reason: String,
    /// After how many days the rest expires; default: never
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u16).range(1..=3650))]
    expires_in: Option<u16>,
    #[command(flatten)]
    dry: DryRun,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        None => list(context).await,
        Some(Command::Grant(args)) => grant(args, context).await,
    }
}

/// Lists them.
pub async fn list(context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let list = context.wait("reading the credit", client.credit_list()).await?;
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let now = clock::now();
    let mut table = Table::new(&["ID", "AGE", "GRANTED", "LEFT", "EXPIRES", "REASON"]);
    for one in &list.items {
        let left = if one.left.micros > 0 { Paint::Good } else { Paint::Plain };
        table.row(vec![
            Cell::plain(&one.id),
            Cell::plain(&age(now, one.granted_at)),
            Cell::plain(&one.granted.text),
            Cell::new(left, &one.left.text),
            Cell::plain(&one.expires_at.map_or_else(|| "never".to_owned(), moment)),
            Cell::plain(&clean(&one.reason)),
        ]);
    }
    table.shorten(&["REASON"]);
    let hint = || "an operator grants it with `trueup credit grant 25 --reason welcome --org NAME`";
    show(&table, list.items.is_empty(), context, "credits", hint)?;
    Ok(Exit::Ok)
}

async fn grant(args: GrantArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let currency = match args.currency {
        Some(currency) => currency,
        None => context.wait("reading the account", client.billing_account_get()).await?.currency,
    };
    let end = |days: u16| clock::now().as_second().saturating_add(DAY.saturating_mul(days.into()));
    let expires_at = args.expires_in.and_then(|days| Timestamp::from_second(end(days)).ok());
    let body = CreditGrantBody { micros: args.amount, currency, reason: args.reason, expires_at };
    let writing = args.dry.begin(&client);
    let credit = context.wait("granting credit", writing.client().credit_grant(&body)).await?;
    if writing.previewed("the credit", context)? {
        return Ok(Exit::Ok);
    }
    if !context.output.print_item(context.terminal, &credit)? {
        context.terminal.line(&granted(&credit))?;
    }
    Ok(Exit::Ok)
}

fn granted(credit: &Credit) -> String {
    let end = credit.expires_at.map(|end| format!(", until {}", moment(end))).unwrap_or_default();
    format!("granted {}{end} ({})", credit.granted.text, credit.id)
}

/// Reads an amount of money as millionths: `25`, `12.50`.
pub(super) fn micros(text: &str) -> Result<i64, String> {
    let wrong = || format!("`{text}` is not an amount; write it like 25 or 12.50");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || fraction.len() > 6 {
        return Err(wrong());
    }
    let fraction: i64 = format!("{fraction:0<6}").parse().map_err(|_| wrong())?;
    let whole: i64 = whole.parse().map_err(|_| wrong())?;
    whole.checked_mul(1_000_000).and_then(|sum| sum.checked_add(fraction)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        for (text, expected) in [("25", 25_000_000), ("12.50", 12_500_000), ("0.000001", 1)] {
            assert_eq!(micros(text), Ok(expected), "{text}");
        }
        for bad in ["", ".5", "-1", "1.0000001", "1e3", "9999999999999"] {
            assert!(micros(bad).is_err(), "{bad}");
        }
    }
}
