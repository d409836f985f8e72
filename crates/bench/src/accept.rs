//! How many new services per second are accepted, beside pgbench with the same statements.
//!
//! The bench holds the cluster's lease meanwhile, so only `store::door` is measured, not
//! convergence. All clients are in one org, whose quota is one row: the worst case.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::process::Command;
use tokio::task::JoinSet;
use trueup_api::Client;
use trueup_api::client::Terms;
use trueup_api::service::ServiceManifest;

use crate::install::{Cluster, Install};
use crate::list::{Ids, fill_projects, fill_services};
use crate::load::CALLERS;
use crate::table::Row;
use crate::usage::{cpu_seconds, memory_mb};

const SECONDS: u64 = 15;
/// How many services exist before the run.
const SERVICES: u32 = 10_000;
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/accept.sql");

pub(crate) async fn run() -> anyhow::Result<Vec<Row>> {
    let cluster = Cluster::start("accept").await?;
    let install = Install::start("accept", &cluster).await?;
    install.stand_by().await?;
    let ids = fill_projects(&install).await?;
    // Postgres plans queries by table statistics; those of empty tables would be misleading.
    fill_services(&install, &ids, SERVICES).await?;

    let before = cpu_seconds(install.pid)?;
    let mut times = accept(&install.client).await?;
    let cpu = cpu_seconds(install.pid)? - before;
    let rate = per_second(times.len())?;
    let floor = pgbench(&install, &ids).await?;
    let row = Row {
        wanted: "≥ 0.5",
        cpu_s: Some(cpu),
        rss_mb: Some(memory_mb(install.pid)?.1),
        note: format!("{CALLERS} callers over HTTP, one org"),
        ..Row::beside("accept a new service", "per s", rate, floor)
    };
    install.stop().await?;
    cluster.stop().await?;
    Ok(vec![row.with_times(&mut times)])
}

/// Declares new services from several clients at once; returns how long each request took.
async fn accept(client: &Client) -> anyhow::Result<Vec<Duration>> {
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let client = client.clone();
        callers.spawn(async move {
            let body = r#"{"template": "web@1", "parameters": {"image": "shop:1"}}"#;
            let manifest: ServiceManifest = serde_json::from_str(body)?;
            let mut times = Vec::new();
            while Instant::now() < until {
                let (project, name) = (format!("p{caller}"), format!("new-{}", times.len()));
                let began = Instant::now();
                let answer = client.service_put(&project, &name, &manifest, &Terms::PLAIN).await?;
                times.push(began.elapsed());
                ensure!(answer.changed, "{project}/{name} existed already");
            }
            Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(caller) = callers.join_next().await {
        times.extend(caller??);
    }
    Ok(times)
}

fn per_second(count: usize) -> anyhow::Result<f64> {
    Ok(f64::from(u32::try_from(count)?) / Duration::from_secs(SECONDS).as_secs_f64())
}

/// The same statements without Trueup: transactions per second.
async fn pgbench(install: &Install, ids: &Ids) -> anyhow::Result<f64> {
    let output = Command::new(std::env::var("PGBENCH").unwrap_or_else(|_| "pgbench".to_owned()))
        .args(["--no-vacuum", "--protocol=prepared", "-f", SCRIPT])
        .args([format!("-c{CALLERS}"), format!("-j{CALLERS}"), format!("-T{SECONDS}")])
        .args([format!("-Dorg={}", ids.org), format!("-Dcluster={}", ids.cluster)])
        .arg(format!("{}/trueup", install.database))
        // Row-level security applies, as it does to Trueup.
        .env("PGOPTIONS", "-c role=trueup_app")
        .output()
        .await
        .context("cannot start pgbench; install the PostgreSQL client programs")?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let rate = stdout.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next());
    let rate = rate.with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok(rate.parse()?)
}
