//! CPU, memory and writes while ten thousand converged services are idle, and a thousand.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::install::{Cluster, Install};
use crate::load::{Made, declare, projects};
use crate::table::Row;
use crate::usage::{cpu_seconds, memory_mb};
use crate::watch::versions;

const FEW: usize = 1000;
const MANY: usize = 10_000;
const FEW_LAST: Duration = Duration::from_secs(60);
const MANY_LAST: Duration = Duration::from_secs(120);
/// Postgres updates its row statistics with a delay.
const STATS_DELAY: Duration = Duration::from_secs(2);
const WRITES: [&str; 3] = ["apply", "patch", "delete"];

/// What was measured while nothing should happen.
struct Rest {
    services: usize,
    seconds: f64,
    /// Percent of one core.
    cpu: f64,
    cpu_seconds: f64,
    memory: f64,
    /// The larger of: objects whose version changed, and write calls as Trueup counts them.
    writes: usize,
    rows: BTreeMap<String, i64>,
}

pub(crate) async fn run() -> anyhow::Result<Vec<Row>> {
    let cluster = Cluster::start("idle").await?;
    let install = Install::start("idle", &cluster).await?;
    projects(&install, MANY).await?;
    let few = rest(&install, &cluster, 0..FEW, FEW_LAST).await?;
    let many = rest(&install, &cluster, FEW..MANY, MANY_LAST).await?;
    install.stop().await?;
    cluster.stop().await?;
    Ok([few, many].iter().map(row).collect())
}

fn row(rest: &Rest) -> Row {
    let Rest { services, writes, rows, .. } = rest;
    let tables: Vec<String> = rows.iter().map(|(name, count)| format!("{name} {count}")).collect();
    Row {
        wanted: "< 3 % of a core, < 250 MB, 0 writes",
        cpu_s: Some(rest.cpu_seconds),
        rss_mb: Some(rest.memory),
        note: format!(
            "{:.0} s; {writes} Kubernetes writes; rows written: {}",
            rest.seconds,
            if tables.is_empty() { "none".to_owned() } else { tables.join(", ") }
        ),
        ..Row::alone(format!("idle, {services} services"), "% of a core", rest.cpu)
    }
}

/// Declares these services, waits until everything has converged, and measures for a while.
async fn rest(
    install: &Install,
    cluster: &Cluster,
    numbers: std::ops::Range<usize>,
    last: Duration,
) -> anyhow::Result<Rest> {
    let services = numbers.end;
    declare(&install.client, Made::Unaddressed, numbers).await?;
    install.healthy(services).await?;
    install.quiet().await?;
    tokio::time::sleep(STATS_DELAY).await;
    let (objects, rows, calls) =
        (versions(&cluster.kube).await?, rows(install).await?, install.calls(&WRITES).await?);
    let before = cpu_seconds(install.pid)?;
    tokio::time::sleep(last).await;
    let cpu = cpu_seconds(install.pid)? - before;
    let written = install.calls(&WRITES).await?.saturating_sub(calls);
    let mut rows_now = self::rows(install).await?;
    rows_now.retain(|name, count| {
        *count -= rows.get(name).copied().unwrap_or_default();
        *count > 0
    });
    let changed = versions(&cluster.kube).await?.difference(&objects).count();
    let seconds = last.as_secs_f64();
    Ok(Rest {
        services,
        seconds,
        cpu: cpu / seconds * 100.0,
        cpu_seconds: cpu,
        memory: memory_mb(install.pid)?.0,
        writes: changed.max(written),
        rows: rows_now,
    })
}

/// Rows written so far, by table.
async fn rows(install: &Install) -> anyhow::Result<BTreeMap<String, i64>> {
    let rows: Vec<(String, i64)> = sqlx::query_as(
        "select relname::text, (n_tup_ins + n_tup_upd + n_tup_del)::bigint from pg_stat_user_tables",
    )
    .fetch_all(&install.db)
    .await?;
    Ok(rows.into_iter().collect())
}
