//! `trueup cost`: what usage costs, from observation, with a forecast.

use trueup_api::cost::CostReport;

use crate::connect::context::Context;
use crate::failure::Exit;
use crate::output::bar::bar;
use crate::output::human::{clean, moment};
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// The widest bar of the chart by day.
const WIDEST: usize = 40;

/// Show what usage costs: so far, per hour and as a forecast; by service, item and day
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The month, such as 2030-01; default: the current one
    #[arg(long, value_name = "MONTH")]
    period: Option<String>,
    /// Show the costs by this
    #[arg(long, value_enum, default_value = "service")]
    by: By,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    Service,
    Project,
    Item,
    Day,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let reading = client.cost_get(args.period.as_deref());
    let mut report = context.wait("computing the costs", reading).await?;
    if let Some(project) = &context.project {
        report.services.retain(|service| service.project == *project);
    }
    if context.output.print(context.terminal, &report)? {
        return Ok(Exit::Ok);
    }
    let (terminal, style) = (context.terminal, context.terminal.style());
    for (label, text) in summary(&report) {
        terminal.line(&format!("{:<11}{text}", style.paint(Paint::Strong, label)))?;
    }
    terminal.line("")?;
    let table = match args.by {
        By::Service => services(&report),
        By::Project => projects(&report),
        By::Item => items(&report),
        By::Day => days(&report),
    };
    context.table(&table)?;
    for note in notes(&report) {
        terminal.note(&note)?;
    }
    Ok(Exit::Ok)
}

fn summary(report: &CostReport) -> Vec<(&'static str, String)> {
    let known = report
        .as_of
        .map_or_else(|| "no usage yet".to_owned(), |at| format!("known until {}", moment(at)));
    let simulated = match report.simulated.micros {
        0 => String::new(),
        _ => format!(" (of which {} simulated)", report.simulated.text),
    };
    vec![
        ("PERIOD", format!("{}, {known}", report.period.name)),
        ("SPENT", format!("{}{simulated}", report.spent.text)),
        ("NOW", format!("{} per hour", report.hourly.text)),
        ("FORECAST", format!("{}, if what runs now keeps running", report.forecast.amount.text)),
    ]
}

fn services(report: &CostReport) -> Table {
    let mut table = Table::new(&["PROJECT", "SERVICE", "SPENT", "SHARE"]);
    for one in &report.services {
        table.row(vec![
            Cell::plain(&one.project),
            Cell::plain(&one.service),
            Cell::plain(&one.spent.text),
            Cell::plain(&share(one.spent.micros, report.spent.micros)),
        ]);
    }
    table
}

fn projects(report: &CostReport) -> Table {
    let mut table = Table::new(&["PROJECT", "SERVICES", "SPENT", "SHARE"]);
    let mut names: Vec<&str> = report.services.iter().map(|one| one.project.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for project in names {
        let own = report.services.iter().filter(|one| one.project == project);
        let (mut count, mut micros) = (0_usize, 0_i64);
        for one in own {
            count = count.saturating_add(1);
            micros = micros.saturating_add(one.spent.micros);
        }
        table.row(vec![
            Cell::plain(project),
            Cell::plain(&count.to_string()),
            Cell::plain(&money(micros, &report.currency)),
            Cell::plain(&share(micros, report.spent.micros)),
        ]);
    }
    table
}

fn items(report: &CostReport) -> Table {
    let mut table = Table::new(&["ITEM", "QUANTITY", "UNIT", "SPENT"]);
    for one in &report.items {
        table.row(vec![
            Cell::plain(&one.item),
            Cell::plain(&one.quantity),
            Cell::plain(&one.unit),
            Cell::plain(&one.spent.text),
        ]);
    }
    table
}

fn days(report: &CostReport) -> Table {
    let mut table = Table::new(&["DAY", "SPENT", ""]);
    let most = report.days.iter().map(|day| day.spent.micros).max().unwrap_or(0);
    for one in &report.days {
        let drawn = bar(one.spent.micros, most, WIDEST);
        table.row(vec![
            Cell::plain(&one.day),
            Cell::plain(&one.spent.text),
            Cell::new(Paint::Good, &drawn),
        ]);
    }
    table
}

/// What a reader must know beside the numbers.
fn notes(report: &CostReport) -> Vec<String> {
    let mut notes = Vec::new();
    if report.gaps.count > 0 {
        notes.push(format!(
            "{} s of usage were not observed, in {} gaps; `trueup history SERVICE` shows them",
            report.gaps.seconds, report.gaps.count
        ));
    }
    if report.borne.under_delivered.micros > 0 {
        let amount = &report.borne.under_delivered.text;
        notes.push(format!("not charged: {amount} for pods on lost nodes"));
    }
    for one in &report.unpriced {
        let (item, reason) = (clean(&one.item), clean(&one.reason));
        notes.push(format!("not charged: {} {} of {item}; {reason}", one.quantity, one.unit));
    }
    notes
}

fn share(part: i64, whole: i64) -> String {
    match i128::from(part).saturating_mul(100).checked_div(i128::from(whole)) {
        Some(percent) => format!("{percent} %"),
        None => "-".to_owned(),
    }
}

fn money(micros: i64, currency: &str) -> String {
    let parsed = currency.parse().ok();
    parsed.map_or_else(String::new, |currency| {
        trueup_model::money::Money { micros, currency }.to_string()
    })
}
