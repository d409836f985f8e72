//! `trueup billing`: in which currency, time zone and at which tax rate an org is billed.

use trueup_api::billing::BillingAccount;

use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::clean;

/// Show how the org is billed, or set it (operators)
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
    let current = context.wait("reading the account", client.billing_account_get()).await?;
    let Some(Command::Set(args)) = args.command else { return show(&current, context) };
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
