//! `trueup drift report`: what drift cost since a time.

use std::collections::BTreeMap;
use std::time::Duration;

use trueup_api::drift::DriftReport;
use trueup_model::money::Money;

use crate::clock;
use crate::command::get::show;
use crate::connect::context::Context;
use crate::failure::Exit;
use crate::output::human::{duration, duration_text, moment};
use crate::output::table::{Cell, Table};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How far back, such as 24h or 7d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = duration)]
    since: Duration,
}

pub(super) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let since = clock::now().checked_sub(args.since)?;
    let mut report = context.wait("reading the report", client.drift_report(since)).await?;
    if let Some(project) = &context.project {
        report.items.retain(|sum| sum.project == *project);
    }
    if context.output.print(context.terminal, &report)? {
        return Ok(Exit::Ok);
    }
    let hint = || "the clusters matched their desired state";
    show(&table(&report), report.items.is_empty(), context, "drift", hint)?;
    context.terminal.note(&summary(&report))?;
    Ok(Exit::Ok)
}

fn table(report: &DriftReport) -> Table {
    let mut table = Table::new(&["PROJECT", "CLASS", "BY", "COUNT", "TIME", "COST"]);
    for sum in &report.items {
        let seconds = u64::try_from(sum.seconds).unwrap_or(0);
        table.row(vec![
            Cell::plain(&sum.project),
            Cell::plain(sum.class.into_str()),
            Cell::plain(sum.by.as_deref().unwrap_or("unknown")),
            Cell::plain(&sum.count.to_string()),
            Cell::plain(&duration_text(Duration::from_secs(seconds))),
            Cell::plain(sum.cost.as_ref().map_or("-", |cost| cost.text.as_str())),
        ]);
    }
    table
}

/// The time that the report covers, and its total in each currency.
fn summary(report: &DriftReport) -> String {
    let mut totals: BTreeMap<&str, i64> = BTreeMap::new();
    for cost in report.items.iter().filter_map(|sum| sum.cost.as_ref()) {
        let total = totals.entry(&cost.currency).or_default();
        *total = total.saturating_add(cost.micros);
    }
    let totals: Vec<String> = totals
        .into_iter()
        .filter_map(|(currency, micros)| Some(Money { micros, currency: currency.parse().ok()? }))
        .map(|total| total.to_string())
        .collect();
    let total = if totals.is_empty() { "0".to_owned() } else { totals.join(" and ") };
    format!("total cost {total}, from {} to {}", moment(report.since), moment(report.until))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::style::Style;

    #[test]
    fn report_sums_up_by_project_class_and_writer() {
        let cost =
            |micros: i64, text: &str| json!({ "micros": micros, "currency": "EUR", "text": text });
        let report: DriftReport = serde_json::from_value(json!({
            "since": "2026-01-01T00:00:00Z", "until": "2026-01-08T00:00:00Z",
            "items": [
                { "project": "shop", "class": "edited", "by": "kubectl-scale", "count": 3,
                  "seconds": 5400, "cost": cost(20_550, "0.02055 EUR") },
                { "project": "shop", "class": "deleted", "count": 1, "seconds": 0,
                  "cost": cost(450, "0.00045 EUR") },
                { "project": "games", "class": "foreign_writer", "by": "argocd", "count": 1,
                  "seconds": 59 },
            ],
        }))
        .unwrap();
        assert_eq!(
            table(&report).render(Style::new(false)),
            "\
PROJECT   CLASS            BY              COUNT   TIME    COST
shop      edited           kubectl-scale   3       1h30m   0.02055 EUR
shop      deleted          unknown         1       0s      0.00045 EUR
games     foreign_writer   argocd          1       59s     -"
        );
        assert_eq!(
            summary(&report),
            "total cost 0.021 EUR, from 2026-01-01 00:00:00Z to 2026-01-08 00:00:00Z"
        );
    }
}
