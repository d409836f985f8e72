//! Latency of lists with a hundred thousand services.

use std::time::{Duration, Instant};

use anyhow::ensure;
use sqlx::AssertSqlSafe;

use crate::install::{Cluster, Install};
use crate::table::{Row, percentile};

const SERVICES: u32 = 100_000;
const TIMES: usize = 100;

const LISTS: [(&str, &str); 6] = [
    ("list, first page of 100,000", "/v1/services"),
    ("list, one project", "/v1/services?project=p77"),
    ("list, a name searched", "/v1/services?search=s99999"),
    ("list, health=error", "/v1/services?health=error"),
    ("list, phase and template", "/v1/services?phase=running&template=web"),
    ("one service", "/v1/projects/p77/services/s77"),
];

/// The owner of the inserted rows.
pub(crate) struct Ids {
    pub(crate) org: String,
    pub(crate) cluster: String,
}

pub(crate) async fn run() -> anyhow::Result<Vec<Row>> {
    let cluster = Cluster::start("list").await?;
    let install = Install::start("list", &cluster).await?;
    install.stand_by().await?;
    let ids = fill_projects(&install).await?;
    fill_services(&install, &ids, SERVICES).await?;
    let mut rows = Vec::new();
    for (work, path) in LISTS {
        let mut times = measure(&install, path).await?;
        let median = percentile(&mut times, 50);
        rows.push(Row::alone(work, "ms", median).with_times(&mut times));
    }
    install.stop().await?;
    cluster.stop().await?;
    Ok(rows)
}

async fn measure(install: &Install, path: &str) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let began = Instant::now();
        let answer = install.client.raw("GET", path, &[], None).await?;
        times.push(began.elapsed());
        ensure!(answer.status == 200, "{path} answered {}", answer.status);
    }
    Ok(times)
}

/// Inserts a hundred projects, as `store::door` would record them.
pub(crate) async fn fill_projects(install: &Install) -> anyhow::Result<Ids> {
    let id = |statement: &'static str| sqlx::query_scalar(statement).fetch_one(&install.db);
    let org: String = id("select id::text from orgs where name = 'demo'").await?;
    let cluster: String = id("select id::text from clusters where name = 'local'").await?;
    run_all(
        install,
        &[format!(
            "insert into projects (id, org_id, name, cluster_id, namespace, generation, created_at)
         select md5('p' || n)::uuid, '{org}', 'p' || n, '{cluster}', 'p' || n, 1, now()
         from generate_series(0, 99) n"
        )],
    )
    .await?;
    Ok(Ids { org, cluster })
}

/// Inserts services as `store::door` would record them, one in a thousand in error.
pub(crate) async fn fill_services(install: &Install, ids: &Ids, count: u32) -> anyhow::Result<()> {
    let Ids { org, cluster } = ids;
    run_all(
        install,
        &[
            format!(
                "insert into services (id, org_id, project_id, name, cluster_id, object_name, template_name,
                     template_version, parameters, spec, desired, generation, accepted_at, created_at, plan_name)
                 select md5('s' || n)::uuid, '{org}', md5('p' || n % 100)::uuid, 's' || n, '{cluster}', 's' || n,
                     'web', 1, '{{\"image\": \"shop:1\"}}',
                     '{{\"workload\": \"deployment\", \"image\": \"shop:1\", \"replicas\": 1, \"ports\": [],
                       \"plan\": \"small\", \"resources\": {{\"cpu_millis\": 250, \"memory_mib\": 256}}}}',
                     'active', 1, now(), now(), 'small'
                 from generate_series(0, {count} - 1) n"
            ),
            format!(
                "insert into statuses (subject_kind, subject_id, org_id, phase, health, status, as_of, rules_version)
                 select 'service', md5('s' || n)::uuid, '{org}', 'running', h,
                     jsonb_build_object('phase', 'running', 'since', '2026-01-01T00:00:00Z', 'health', h,
                                        'conditions', '[]'::jsonb), now(), 1
                 from (select n, case when n % 1000 = 0 then 'error' else 'healthy' end h
                       from generate_series(0, {count} - 1) n) s"
            ),
            // Statuses are shown as they are while the cluster's watches are fresh.
            format!(
                "update clusters set heard_at = now() + interval '1 hour',
                     watches = jsonb_build_object('Pod', now() + interval '1 hour', 'Deployment', now() + interval '1 hour')
                 where id = '{cluster}'"
            ),
            "vacuum analyze".to_owned(),
        ],
    )
    .await
}

async fn run_all(install: &Install, statements: &[String]) -> anyhow::Result<()> {
    for statement in statements {
        sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(&install.db).await?;
    }
    Ok(())
}
