//! `trueup subscription`: the offer that the org has, what is included in it, and its changes.

use serde_json::Value;
use trueup_api::subscription::{
    LimitChange, Offer, OfferManifest, Subscribed, Subscription, SubscriptionBody,
    SubscriptionChange,
};

use crate::command::get::show;
use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::{Exit, Failure};
use crate::output::human::{clean, moment};
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// Show what the org subscribed to and what is used of it; change it (owners)
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List what orgs can subscribe to
    Offers,
    /// Change the subscription; what held before stays on record (owners)
    Change(ChangeArgs),
    /// Publish an offer, or another version of it (operators)
    Publish {
        /// A YAML file with one offer; `-` is stdin
        #[arg(short = 'f', long = "file", value_name = "FILE")]
        file: String,
        #[command(flatten)]
        dry: DryRun,
    },
}

#[derive(Debug, clap::Args)]
struct ChangeArgs {
    /// The offer
    offer: String,
    /// Its version; default: the newest one
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(u32).range(1..))]
    offer_version: Option<u32>,
    /// When it begins: at once, or with the next month in the org's time zone
    #[arg(long, value_parser = ["now", "next-period"], default_value = "next-period")]
    at: String,
    #[command(flatten)]
    dry: DryRun,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        None => present(context).await,
        Some(Command::Offers) => offers(context).await,
        Some(Command::Change(args)) => change(args, context).await,
        Some(Command::Publish { file, dry }) => publish(&file, dry, context).await,
    }
}

async fn present(context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let found = context.wait("reading the subscription", client.subscription_get()).await?;
    if context.output.print_item(context.terminal, &found)? {
        return Ok(Exit::Ok);
    }
    let Some(current) = &found.current else {
        context.terminal.line("no subscription")?;
        later(&found, context)?;
        context.terminal.note("list the offers with `trueup subscription offers`")?;
        return Ok(Exit::Ok);
    };
    let offer = &current.offer;
    let rows = [
        ("OFFER", format!("{} version {}", offer.name, offer.version)),
        ("SUMMARY", clean(&offer.summary)),
        ("FEE", format!("{} a month", offer.fee.text)),
        ("SINCE", moment(current.from)),
        ("AT ZERO", at_zero(offer)),
        ("BALANCE", found.balance.text.clone()),
    ];
    for (label, text) in rows {
        let label = context.terminal.style().paint(Paint::Strong, label);
        context.terminal.line(&format!("{label:<10}{text}"))?;
    }
    later(&found, context)?;
    if !found.included.is_empty() {
        let mut table = Table::new(&["INCLUDED", "UNITS", "USED", "CHARGED", "UNIT"]);
        for one in &found.included {
            table.row(vec![
                Cell::plain(&one.item),
                Cell::plain(&one.units),
                Cell::plain(&one.used),
                Cell::plain(&one.charged),
                Cell::plain(&one.unit),
            ]);
        }
        context.table(&table)?;
    }
    context.terminal.note("`trueup quota` shows the limits")?;
    Ok(Exit::Ok)
}

/// The change that is recorded for later.
fn later(found: &Subscription, context: &Context) -> anyhow::Result<()> {
    if let Some(next) = &found.next {
        let text = format!("{} from {} on", named(next), moment(next.from));
        let label = context.terminal.style().paint(Paint::Strong, "NEXT");
        context.terminal.line(&format!("{label:<10}{text}"))?;
    }
    Ok(())
}

fn named(one: &Subscribed) -> String {
    format!("{} version {}", one.offer.name, one.offer.version)
}

fn at_zero(offer: &Offer) -> String {
    match offer.at_zero {
        Some(at_zero) => format!("{at_zero}: it is paid in advance"),
        None => "nothing: usage is invoiced afterwards".to_owned(),
    }
}

async fn offers(context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let list = context.wait("reading the offers", client.offer_list()).await?;
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["NAME", "VERSION", "FEE", "SERVICES", "AT ZERO", "SUMMARY"]);
    for offer in &list.items {
        let paint = if offer.retired { Paint::Faint } else { Paint::Plain };
        let at_zero = offer.at_zero.map_or_else(|| "-".to_owned(), |it| it.to_string());
        table.row(vec![
            Cell::new(paint, &offer.name),
            Cell::new(paint, &offer.version.to_string()),
            Cell::new(paint, &offer.fee.text),
            Cell::new(paint, &offer.limits.services.to_string()),
            Cell::new(paint, &at_zero),
            Cell::new(paint, &clean(&offer.summary)),
        ]);
    }
    table.shorten(&["SUMMARY"]);
    let hint = || "an operator publishes one with `trueup subscription publish -f offer.yaml`";
    show(&table, list.items.is_empty(), context, "offers", hint)
}

async fn change(args: ChangeArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let at = args.at.replace('-', "_");
    let body = SubscriptionBody { offer: args.offer, version: args.offer_version, at };
    let writing = args.dry.begin(&client);
    let changing = writing.client().subscription_put(&body);
    let change = context.wait("changing the subscription", changing).await?;
    if context.output.print_item(context.terminal, &change)? {
        return Ok(Exit::Ok);
    }
    print(&change, context)?;
    let said = if args.dry.is_dry() { "a dry run: nothing was changed" } else { "recorded" };
    context.terminal.note(said)?;
    Ok(Exit::Ok)
}

/// What a change does: when, what it costs, and which limits it sets.
fn print(change: &SubscriptionChange, context: &Context) -> anyhow::Result<()> {
    let before = change.before.as_ref().map_or_else(|| "none".to_owned(), named);
    let terminal = context.terminal;
    terminal.line(&format!(
        "{before} → {} from {} on",
        named(&change.after),
        moment(change.after.from)
    ))?;
    let more = if change.monthly_difference.micros > 0 { "+" } else { "" };
    terminal.line(&format!(
        "a month of what runs now, with the fee: {} → {} ({more}{})",
        change.monthly_before.text, change.monthly_after.text, change.monthly_difference.text
    ))?;
    let mut table = Table::new(&["LIMIT", "USED", "BEFORE", "AFTER"]);
    for LimitChange { resource, used, before, after } in &change.limits {
        let paint = if used > after { Paint::Bad } else { Paint::Plain };
        table.row(vec![
            Cell::plain(&resource.to_string()),
            Cell::plain(&used.to_string()),
            Cell::plain(&before.to_string()),
            Cell::new(paint, &after.to_string()),
        ]);
    }
    context.table(&table)?;
    for one in &change.after.offer.included {
        terminal.line(&format!("included in a month: {} of {}", one.units, clean(&one.item)))?;
    }
    for warning in &change.warnings {
        terminal.line(&clean(warning))?;
    }
    Ok(())
}

async fn publish(file: &str, dry: DryRun, context: &Context) -> anyhow::Result<Exit> {
    let manifest = read(file)?;
    let Some(name) = manifest.name.clone() else {
        return Err(wrong(file, "has no `name`", "add the name of the offer").into());
    };
    let client = context.connect()?.client;
    let writing = dry.begin(&client);
    let publishing = writing.client().offer_put(&name, &manifest);
    let offer = context.wait("publishing the offer", publishing).await?;
    if writing.previewed(&format!("offer/{name}"), context)? {
        return Ok(Exit::Ok);
    }
    if !context.output.print_item(context.terminal, &offer)? {
        context.terminal.line(&format!("offer/{} version {}", offer.name, offer.version))?;
        context.terminal.note("orgs that have a former version keep it until they change")?;
    }
    Ok(Exit::Ok)
}

fn wrong(file: &str, what: &str, hint: &str) -> Failure {
    Failure::new(Exit::Failed, format!("{file}: {what}")).hint(hint)
}

fn read(file: &str) -> Result<OfferManifest, Failure> {
    let text = if file == "-" {
        std::io::read_to_string(std::io::stdin().lock())
    } else {
        std::fs::read_to_string(file)
    };
    let text =
        text.map_err(|error| wrong(file, &format!("cannot be read: {error}"), "check the path"))?;
    let document: Value = serde_saphyr::from_str(&text).map_err(|error| {
        let what = format!("is not one YAML document: {}", error.without_snippet());
        wrong(file, &what, "fix the syntax")
    })?;
    serde_json::from_value(document).map_err(|error| {
        let what = format!("is not an offer: {error}");
        wrong(file, &what, "see docs/guides/billing.md for its fields")
    })
}
