//! Tables of plans, quota and releases for `trueup get`.

use jiff::Timestamp;
use trueup_api::plan::Plan;
use trueup_api::quota::Quota;
use trueup_api::release::Release;

use crate::output::human::age;
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
            Cell::plain(&format!("{} m", plan.cpu_millis)),
            Cell::plain(&format!("{} MiB", plan.memory_mib)),
            Cell::plain(&plan.gpus.to_string()),
            Cell::plain(plan.nodes.as_deref().unwrap_or("any")),
            Cell::plain(&plan.hourly.text),
            Cell::plain(&plan.monthly.text),
            Cell::new(Paint::Faint, &plan.summary),
        ]);
    }
    table
}

pub fn quota(quota: &Quota) -> Table {
    let mut table = Table::new(&["RESOURCE", "USED", "LIMIT", "LEFT"]);
    let Quota { limit, used, left } = quota;
    let rows = [
        ("services", used.services, limit.services, left.services),
        ("CPU (thousandths of a core)", used.cpu_millis, limit.cpu_millis, left.cpu_millis),
        ("memory (MiB)", used.memory_mib, limit.memory_mib, left.memory_mib),
        ("disk (GiB)", used.storage_gib, limit.storage_gib, left.storage_gib),
        ("GPUs", used.gpus, limit.gpus, left.gpus),
    ];
    for (name, used, limit, left) in rows {
        let paint = if left <= 0 { Paint::Bad } else { Paint::Plain };
        table.row(vec![
            Cell::plain(name),
            Cell::plain(&used.to_string()),
            Cell::plain(&limit.to_string()),
            Cell::new(paint, &left.to_string()),
        ]);
    }
    table
}

pub fn releases(items: &[Release], now: Timestamp) -> Table {
    let mut table =
        Table::new(&["GENERATION", "ACTION", "TEMPLATE", "PLAN", "DESIRED", "BY", "AGE"]);
    for release in items {
        table.row(vec![
            Cell::plain(&release.generation.to_string()),
            Cell::plain(&release.action),
            Cell::plain(&release.template),
            Cell::plain(release.plan.as_deref().unwrap_or("-")),
            Cell::plain(release.desired.into_str()),
            Cell::plain(&release.principal),
            Cell::plain(&age(now, release.accepted_at)),
        ]);
    }
    table
}
