//! Tables of plans, prices, quota and releases for `trueup get`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use trueup_api::plan::{Plan, PlanPrice};
use trueup_api::quota::Quota;
use trueup_api::release::Release;

use crate::output::human::{age, cores, json_text, memory, moment};
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

pub fn plans(items: &[Plan]) -> Table {
    let mut table =
        Table::new(&["NAME", "CPU", "MEMORY", "GPUS", "NODES", "PER HOUR", "PER MONTH", "SUMMARY"]);
    for plan in items {
        let paint = if plan.retired { Paint::Faint } else { Paint::Plain };
        let name =
            if plan.retired { format!("{} (retired)", plan.name) } else { plan.name.clone() };
        table.row(vec![
            Cell::new(paint, &name),
            Cell::plain(&cores(plan.cpu_millis.into())),
            Cell::plain(&memory(plan.memory_mib.into())),
            Cell::plain(&plan.gpus.to_string()),
            Cell::plain(plan.nodes.as_deref().unwrap_or("any")),
            Cell::plain(&plan.hourly.text),
            Cell::plain(&plan.monthly.text),
            Cell::new(Paint::Faint, &plan.summary),
        ]);
    }
    table
}

/// The prices of a plan. The one that holds now stands out; former ones are faint.
pub fn prices(items: &[PlanPrice], now: Timestamp) -> Table {
    let mut table = Table::new(&["FROM", "UNTIL", "PER HOUR", "DISK PER GIB AND HOUR", "BY", "ID"]);
    for price in items {
        let is_over = price.until.is_some_and(|until| until <= now);
        let paint = match (is_over, price.from <= now) {
            (true, _) => Paint::Faint,
            (false, true) => Paint::Good,
            (false, false) => Paint::Plain,
        };
        // What Trueup came with holds from the epoch.
        let from = if price.from == Timestamp::UNIX_EPOCH {
            "the beginning".to_owned()
        } else {
            moment(price.from)
        };
        let until = price.until.map_or_else(|| "-".to_owned(), moment);
        table.row(vec![
            Cell::new(paint, &from),
            Cell::new(paint, &until),
            Cell::new(paint, &price.hourly.text),
            Cell::new(paint, &price.disk_gib_hourly.text),
            Cell::plain(&price.created_by),
            Cell::new(Paint::Faint, &price.id),
        ]);
    }
    table
}

/// Writes an amount with its unit.
type Unit = fn(i64) -> String;

pub fn quota(quota: &Quota) -> Table {
    let mut table = Table::new(&["RESOURCE", "USED", "LIMIT", "LEFT"]);
    let Quota { limit, used, left, source: _ } = quota;
    let number = |value: i64| value.to_string();
    let gib = |value: i64| format!("{value} GiB");
    let rows: [(&str, [i64; 3], Unit); 7] = [
        ("projects", [used.projects, limit.projects, left.projects], number),
        ("services", [used.services, limit.services, left.services], number),
        ("endpoints", [used.endpoints, limit.endpoints, left.endpoints], number),
        ("CPU", [used.cpu_millis, limit.cpu_millis, left.cpu_millis], cores),
        ("memory", [used.memory_mib, limit.memory_mib, left.memory_mib], memory),
        ("disk", [used.storage_gib, limit.storage_gib, left.storage_gib], gib),
        ("GPUs", [used.gpus, limit.gpus, left.gpus], number),
    ];
    for (name, [used, limit, left], text) in rows {
        let paint = if left <= 0 { Paint::Bad } else { Paint::Plain };
        table.row(vec![
            Cell::plain(name),
            Cell::plain(&text(used)),
            Cell::plain(&text(limit)),
            Cell::new(paint, &text(left)),
        ]);
    }
    table
}

/// Releases, newest first, each with what it changed.
pub fn releases(items: &[Release], now: Timestamp) -> Table {
    let mut table = Table::new(&["GEN", "ACTION", "CHANGES", "TEMPLATE", "PLAN", "BY", "AGE"]);
    for (at, release) in items.iter().enumerate() {
        let former = items.get(at.saturating_add(1));
        table.row(vec![
            Cell::plain(&release.generation.to_string()),
            Cell::plain(&release.action),
            Cell::plain(&changes(former, release)),
            Cell::plain(&release.template),
            Cell::plain(release.plan.as_deref().unwrap_or("-")),
            Cell::plain(&release.principal),
            Cell::plain(&age(now, release.accepted_at)),
        ]);
    }
    table
}

/// What differs from the former release; of the first one, its image and its number of pods.
fn changes(former: Option<&Release>, release: &Release) -> String {
    let Some(former) = former else {
        let shown = ["image", "replicas"].into_iter().filter_map(|name| {
            release.parameters.get(name).map(|value| format!("{name} {}", json_text(value)))
        });
        return shown.collect::<Vec<_>>().join(", ");
    };
    let mut found = Vec::new();
    let mut differs = |name: &str, before: String, after: String| {
        if before != after {
            found.push(format!("{name} {before} → {after}"));
        }
    };
    differs("state", former.desired.to_string(), release.desired.to_string());
    differs("template", former.template.clone(), release.template.clone());
    let plan = |release: &Release| release.plan.clone().unwrap_or_else(|| "none".to_owned());
    differs("plan", plan(former), plan(release));
    let names: BTreeSet<&String> =
        former.parameters.keys().chain(release.parameters.keys()).collect();
    let value = |of: &Release, name: &str| {
        of.parameters.get(name).map_or_else(|| "default".to_owned(), json_text)
    };
    for name in names {
        differs(name, value(former, name), value(release, name));
    }
    found.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::style::Style;

    #[test]
    fn prices_list_their_validity_and_who_published_them() {
        let amount = |text: &str| json!({"micros": 1, "currency": "EUR", "text": text});
        let items: Vec<PlanPrice> = serde_json::from_value(json!([
            {"id": "prc_2", "from": "2026-03-01T00:00:00Z", "until": null,
             "hourly": amount("0.007 EUR"), "disk_gib_hourly": amount("0.0002 EUR"),
             "created_by": "op", "created_at": "2026-02-01T00:00:00Z"},
            {"id": "prc_1", "from": "1970-01-01T00:00:00Z", "until": "2026-03-01T00:00:00Z",
             "hourly": amount("0.006 EUR"), "disk_gib_hourly": amount("0.00013 EUR"),
             "created_by": "Trueup", "created_at": "2026-01-01T00:00:00Z"},
        ]))
        .unwrap();
        let now: Timestamp = "2026-04-01T00:00:00Z".parse().unwrap();
        let shown = prices(&items, now).render(Style::new(false));
        let words: Vec<Vec<&str>> =
            shown.lines().map(|line| line.split("   ").map(str::trim).collect()).collect();
        let filled = |row: &[&str]| -> Vec<String> {
            row.iter().filter(|word| !word.is_empty()).map(|word| (*word).to_owned()).collect()
        };
        assert_eq!(
            filled(&words[1]),
            ["2026-03-01 00:00:00Z", "-", "0.007 EUR", "0.0002 EUR", "op", "prc_2"]
        );
        assert_eq!(filled(&words[2])[..2], ["the beginning", "2026-03-01 00:00:00Z"]);
    }
}
