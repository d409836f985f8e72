//! A thousand services of four objects on an empty cluster, beside a bare loop over the same objects.
//!
//! Twice: from the first request on, which is what users wait for; and from the moment on that
//! everything is promised and nothing may be done about it yet (a platform that is frozen, and let go),
//! which is what convergence takes by itself.

use std::time::{Duration, Instant};

use crate::floor::Objects;
use crate::install::{Cluster, Install};
use crate::load::{Made, declare, projects};
use crate::sight::Sight;
use crate::table::Row;
use crate::usage::{cpu_seconds, family_cpu_seconds, memory_mb};

const SERVICES: usize = 1000;

/// One way to get there.
struct Course {
    applied: f64,
    healthy: f64,
    /// How long answers to requests took.
    accepts: Vec<Duration>,
    cpu: f64,
    cpu_postgres: f64,
    cpu_kube: f64,
    memory: f64,
}

impl Course {
    /// Between two courses over the same ground.
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
    let (mut asked, objects) = ours(false).await?;
    let first = floor(&objects).await?;
    let (let_go, _) = ours(true).await?;
    // A machine is not as fast now as it was a minute ago: the floor lies around what it is a floor of.
    let bare = first.mean(&floor(&objects).await?);
    let row = |work: &str, ours: f64, floor: f64, course: &Course| Row {
        cpu_s: Some(course.cpu),
        rss_mb: Some(course.memory),
        note: format!(
            "CPU of Postgres {:.1} s, of Kubernetes {:.1} s (floor {:.1} s)",
            course.cpu_postgres, course.cpu_kube, bare.cpu_kube
        ),
        ..Row::beside(work, "s", ours, floor)
    };
    let wanted = "≤ 1.3";
    Ok(vec![
        Row { wanted, ..row("converge, let go: applied", let_go.applied, bare.applied, &let_go) },
        row("converge, let go: healthy", let_go.healthy, bare.healthy, &let_go),
        row("converge, from the first request: applied", asked.applied, bare.applied, &asked)
            .with_times(&mut asked.accepts),
        row("converge, from the first request: healthy", asked.healthy, bare.healthy, &asked),
    ])
}

/// Trueup does it; answers what it wrote, too.
async fn ours(frozen: bool) -> anyhow::Result<(Course, Objects)> {
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
    let sight = Sight::start(&cluster.kube).await?;
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
    let (sight, healthy) = tokio::join!(sight.wait(SERVICES), healthy);
    let ((applied, _), healthy) = (sight?, healthy?);
    let after = cpu()?;
    let [cpu, cpu_postgres, cpu_kube] = [0, 1, 2].map(|part| after[part] - before[part]);
    let course = Course {
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
    Ok((course, objects))
}

/// A bare loop does it.
async fn floor(objects: &Objects) -> anyhow::Result<Course> {
    let cluster = Cluster::start("floor").await?;
    objects.lay_out(&cluster.kube).await?;
    let course = bare(&cluster, objects).await?;
    cluster.stop().await?;
    Ok(course)
}

async fn bare(cluster: &Cluster, objects: &Objects) -> anyhow::Result<Course> {
    let sight = Sight::start(&cluster.kube).await?;
    let before = family_cpu_seconds(cluster.pid())?;
    let began = Instant::now();
    objects.apply(&cluster.kube).await?;
    let applied = began.elapsed().as_secs_f64();
    let (_, observed) = sight.wait(SERVICES).await?;
    Ok(Course {
        applied,
        healthy: observed.duration_since(began).as_secs_f64(),
        accepts: Vec::new(),
        cpu: 0.0,
        cpu_postgres: 0.0,
        cpu_kube: family_cpu_seconds(cluster.pid())? - before,
        memory: 0.0,
    })
}
