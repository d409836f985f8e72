//! A thousand services of four objects on an empty cluster, beside a bare loop over the same
//! objects.
//!
//! Measured twice: from the first request, which is what users wait for; and from the unfreeze of a
//! platform where all services are already accepted, which is the convergence time alone.

use std::time::{Duration, Instant};

use crate::floor::Objects;
use crate::install::{Cluster, Install};
use crate::load::{Made, declare, projects};
use crate::table::Row;
use crate::usage::{cpu_seconds, family_cpu_seconds, memory_mb};
use crate::watch::DeploymentWatch;

const SERVICES: usize = 1000;

/// Times and usage of one run.
struct Run {
    applied: f64,
    healthy: f64,
    /// How long requests took.
    accepts: Vec<Duration>,
    cpu: f64,
    cpu_postgres: f64,
    cpu_kube: f64,
    memory: f64,
}

impl Run {
    /// The mean of two runs.
    fn mean(&self, other: &Self) -> Self {
        let of = |one: f64, other: f64| f64::midpoint(one, other);
        Self {
            applied: of(self.applied, other.applied),
            healthy: of(self.healthy, other.healthy),
            accepts: Vec::new(),
            cpu: of(self.cpu, other.cpu),
            cpu_postgres: of(self.cpu_postgres, other.cpu_postgres),
            cpu_kube: of(self.cpu_kube, other.cpu_kube),
            memory: of(self.memory, other.memory),
        }
    }
}

pub(crate) async fn run() -> anyhow::Result<Vec<Row>> {
    let (mut from_request, objects) = ours(false).await?;
    let first = floor(&objects).await?;
    let (let_go, _) = ours(true).await?;
    // The speed of a machine varies over minutes: the floor is measured before and after.
    let bare = first.mean(&floor(&objects).await?);
    let row = |work: &str, ours: f64, floor: f64, run: &Run| Row {
        cpu_s: Some(run.cpu),
        rss_mb: Some(run.memory),
        note: format!(
            "CPU of Postgres {:.1} s, of Kubernetes {:.1} s (floor {:.1} s)",
            run.cpu_postgres, run.cpu_kube, bare.cpu_kube
        ),
        ..Row::beside(work, "s", ours, floor)
    };
    let wanted = "≤ 1.3";
    Ok(vec![
        Row { wanted, ..row("converge, let go: applied", let_go.applied, bare.applied, &let_go) },
        row("converge, let go: healthy", let_go.healthy, bare.healthy, &let_go),
        row(
            "converge, from the first request: applied",
            from_request.applied,
            bare.applied,
            &from_request,
        )
        .with_times(&mut from_request.accepts),
        row(
            "converge, from the first request: healthy",
            from_request.healthy,
            bare.healthy,
            &from_request,
        ),
    ])
}

/// Runs with Trueup; also returns the objects that it wrote.
async fn ours(frozen: bool) -> anyhow::Result<(Run, Objects)> {
    let cluster = Cluster::start("converge").await?;
    let install = Install::start("converge", &cluster).await?;
    projects(&install, SERVICES).await?;
    let mut accepts = Vec::new();
    if frozen {
        let why = serde_json::from_value(serde_json::json!({"reason": "a bench"}))?;
        install.operator.platform_freeze(&why).await?;
        accepts = declare(&install.client, Made::Addressed, 0..SERVICES).await?;
    }
    install.quiet().await?;
    let watch = DeploymentWatch::start(&cluster.kube).await?;
    let cpu = || -> anyhow::Result<[f64; 3]> {
        Ok([
            cpu_seconds(install.pid)?,
            family_cpu_seconds(install.postgres_pid)?,
            family_cpu_seconds(cluster.pid())?,
        ])
    };
    let before = cpu()?;
    let began = Instant::now();
    if frozen {
        install.operator.platform_unfreeze().await?;
    } else {
        accepts = declare(&install.client, Made::Addressed, 0..SERVICES).await?;
    }
    let healthy = async { install.healthy(SERVICES).await.map(|()| Instant::now()) };
    let (seen, healthy) = tokio::join!(watch.wait(SERVICES), healthy);
    let ((applied, _), healthy) = (seen?, healthy?);
    let after = cpu()?;
    let [cpu, cpu_postgres, cpu_kube] = [0, 1, 2].map(|part| after[part] - before[part]);
    let run = Run {
        applied: applied.duration_since(began).as_secs_f64(),
        healthy: healthy.duration_since(began).as_secs_f64(),
        accepts,
        cpu,
        cpu_postgres,
        cpu_kube,
        memory: memory_mb(install.pid)?.1,
    };
    let objects = Objects::of(&cluster.kube).await?;
    install.stop().await?;
    cluster.stop().await?;
    Ok((run, objects))
}

/// Runs with a bare loop.
async fn floor(objects: &Objects) -> anyhow::Result<Run> {
    let cluster = Cluster::start("floor").await?;
    objects.apply_surroundings(&cluster.kube).await?;
    let run = bare(&cluster, objects).await?;
    cluster.stop().await?;
    Ok(run)
}

async fn bare(cluster: &Cluster, objects: &Objects) -> anyhow::Result<Run> {
    let watch = DeploymentWatch::start(&cluster.kube).await?;
    let before = family_cpu_seconds(cluster.pid())?;
    let began = Instant::now();
    objects.apply(&cluster.kube).await?;
    let applied = began.elapsed().as_secs_f64();
    let (_, observed) = watch.wait(SERVICES).await?;
    Ok(Run {
        applied,
        healthy: observed.duration_since(began).as_secs_f64(),
        accepts: Vec::new(),
        cpu: 0.0,
        cpu_postgres: 0.0,
        cpu_kube: family_cpu_seconds(cluster.pid())? - before,
        memory: 0.0,
    })
}
