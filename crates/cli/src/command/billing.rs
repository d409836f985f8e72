//! `trueup billing`: in which currency, time zone and at which tax rate an org is billed, and its
//! charges as a file.

use std::path::PathBuf;

use anyhow::Context as _;
use trueup_api::Client;
use trueup_api::billing::BillingAccount;

use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::clean;

/// Show how the org is billed, set it (operators), or export its charges
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Set how the org is billed; what is not given stays (operators)
    Set(Box<SetArgs>),
    /// Save the charges of a month as CSV with the columns of FOCUS 1.4, for cost tools
    Export {
        /// The month, such as 2030-01; default: the current one
        #[arg(long, value_name = "MONTH")]
        period: Option<String>,
        /// Where to; default: `focus-MONTH.csv`
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
struct SetArgs {
    /// The currency: three capital letters
    #[arg(long)]
    currency: Option<String>,
    /// The time zone of billing periods, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// The tax on invoices in per cent, such as 19
    #[arg(long, value_name = "PERCENT")]
    tax: Option<String>,
    /// The name of the customer, as printed on invoices
    #[arg(long, value_name = "NAME")]
    legal_name: Option<String>,
    /// The address of the customer, as printed on invoices
    #[arg(long)]
    address: Option<String>,
    #[command(flatten)]
    dry: DryRun,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let args = match args.command {
        Some(Command::Export { period, to }) => return export(&client, period, to, context).await,
        Some(Command::Set(args)) => Some(args),
        None => None,
    };
    let current = context.wait("reading the account", client.billing_account_get()).await?;
    let Some(args) = args else { return show(&current, context) };
    let wanted = BillingAccount {
        currency: args.currency.unwrap_or(current.currency),
        time_zone: args.time_zone.unwrap_or(current.time_zone),
        tax_percent: args.tax.unwrap_or(current.tax_percent),
        legal_name: args.legal_name.unwrap_or(current.legal_name),
        address: args.address.unwrap_or(current.address),
    };
    let writing = args.dry.begin(&client);
    let put = writing.client().billing_account_put(&wanted);
    let account = context.wait("setting the account", put).await?;
    if writing.previewed("the billing account", context)? {
        return Ok(Exit::Ok);
    }
    show(&account, context)
}

async fn export(
    client: &Client,
    period: Option<String>,
    to: Option<PathBuf>,
    context: &Context,
) -> anyhow::Result<Exit> {
    let month = period.as_deref().unwrap_or("current");
    let to = to.unwrap_or_else(|| PathBuf::from(format!("focus-{month}.csv")));
    let reading = client.billing_export(period.as_deref());
    let file = context.wait("reading the charges", reading).await?;
    std::fs::write(&to, &file).with_context(|| format!("cannot write {}", to.display()))?;
    context.terminal.line(&format!("saved {}", to.display()))?;
    Ok(Exit::Ok)
}

fn show(account: &BillingAccount, context: &Context) -> anyhow::Result<Exit> {
    if context.output.print_item(context.terminal, account)? {
        return Ok(Exit::Ok);
    }
    let rows = [
        ("CURRENCY", account.currency.as_str()),
        ("TIME ZONE", &account.time_zone),
        ("TAX", &format!("{} %", account.tax_percent)),
        ("NAME", &account.legal_name),
        ("ADDRESS", &account.address.replace('\n', ", ")),
    ];
    for (label, text) in rows {
        let text = if text.is_empty() { "-".to_owned() } else { clean(text) };
        context.terminal.line(&format!("{label:<11}{text}"))?;
    }
    Ok(Exit::Ok)
}
