//! `trueup cluster capacity`: where the capacity of a cluster went.

use trueup_api::cluster::CapacityReport;
use trueup_model::usage::Meter;

use crate::command::get::show;
use crate::connect::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::human::moment;
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The cluster, by name or id; default: the only one
    cluster: Option<String>,
    /// How many days
    #[arg(long, default_value_t = 7)]
    days: u32,
}

pub(super) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let cluster = match args.cluster {
        Some(cluster) => cluster,
        None => {
            let list = context.wait("reading the clusters", client.cluster_list()).await?;
            let [only] = &list.items[..] else {
                let which = Failure::new(Exit::Usage, "there are several clusters");
                return Err(which.hint("name one: `trueup get clusters` lists them").into());
            };
            only.name.clone()
        }
    };
    let reading = client.cluster_capacity(&cluster, Some(args.days));
    let report = context.wait("reading the capacity", reading).await?;
    if context.output.print(context.terminal, &report)? {
        return Ok(exit(&report));
    }
    let hint = || "it is computed every five minutes from observed usage";
    show(&table(&report), report.items.is_empty(), context, "days", hint)?;
    for day in &report.items {
        for one in &day.costs {
            let why = one.why.to_string().replace('_', "-");
            context
                .terminal
                .note(&format!("{}: {why} capacity worth {}", day.day, one.cost.text))?;
        }
    }
    if let Some(newest) = report.items.first() {
        context.terminal.note(&format!("known until {}", moment(newest.known_until)))?;
    }
    if !report.holds {
        let message = "more was used on a day than the nodes had, so something is billed wrongly";
        let hint = "compare usage with its transitions: `trueup ledger verify`";
        return Err(Failure::new(Exit::Failed, message).hint(hint).into());
    }
    Ok(Exit::Ok)
}

const fn exit(report: &CapacityReport) -> Exit {
    if report.holds { Exit::Ok } else { Exit::Failed }
}

fn table(report: &CapacityReport) -> Table {
    let mut table = Table::new(&[
        "DAY",
        "METER",
        "CAPACITY",
        "DELIVERED",
        "IDLE",
        "ORPHAN",
        "GAP",
        "UNDER-DELIVERED",
        "UNEXPLAINED",
    ]);
    for day in &report.items {
        for one in day.meters.iter().filter(|one| one.capacity != "0") {
            let (unit, per_hour) = hours(one.meter);
            let cell = |quantity: &str| Cell::plain(&in_hours(quantity, per_hour));
            let unexplained = in_hours(&one.unexplained, per_hour);
            let paint = if one.unexplained == "0" { Paint::Plain } else { Paint::Bad };
            table.row(vec![
                Cell::plain(&day.day),
                Cell::plain(unit),
                cell(&one.capacity),
                cell(&one.delivered),
                cell(&one.idle),
                cell(&one.orphan),
                cell(&one.gap),
                cell(&one.under_delivered),
                Cell::new(paint, &unexplained),
            ]);
        }
    }
    table
}

/// What people count a meter in, and how many of its units that is.
const fn hours(meter: Meter) -> (&'static str, u128) {
    match meter {
        Meter::CpuMilliSeconds => ("core-hours", 3_600_000),
        Meter::MemoryMibSeconds => ("GiB-hours", 3600 * 1024),
        Meter::GpuSeconds => ("GPU-hours", 3600),
        Meter::PodSeconds => ("pod-hours", 3600),
        Meter::DiskGibSeconds => ("GiB-hours", 3600),
        Meter::EgressBytes => ("GB", 1_000_000_000),
    }
}

/// A quantity with two decimal places; JSON has all of them.
fn in_hours(quantity: &str, per_hour: u128) -> String {
    let whole: u128 = quantity.split('.').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let hundredths = whole.saturating_mul(100).checked_div(per_hour).unwrap_or(0);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_shown_in_hours() {
        let (_, cores) = hours(Meter::CpuMilliSeconds);
        for (quantity, shown) in [("0", "0.00"), ("3600000", "1.00"), ("5400000.25", "1.50")] {
            assert_eq!(in_hours(quantity, cores), shown);
        }
    }
}
