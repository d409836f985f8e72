//! `make bench`: how fast the door accepts, beside pgbench with the same statements, and how fast
//! lists are at 100,000 services. Everything is measured in one run on one Postgres of its own.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench measures real time and tells people what it saw"
)]

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use prometheus_client::registry::Registry;
use sqlx::{AssertSqlSafe, PgPool};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use trueup_http::{Door, Doubts, NoLogs, Streams, router};
use trueup_model::Clock;
use trueup_model::principal::Role;
use trueup_rules::envelope::Keyring;
use trueup_store::{DbClock, Signals};
use trueup_testkit::test_db::TestDb;

const SERVICES: i64 = 100_000;
const CLIENTS: usize = 8;
const SECONDS: u64 = 10;
const TOKEN: &str = "bench";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/accept.sql");

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (db, postgres) = TestDb::durable().await;
    let owner = PgPool::connect(&db.urls.owner).await?;
    let door = door(&db).await?;
    println!("{:28} {:>10} {:>10} {:>10}", "work", "p50 ms", "p99 ms", "per s");
    fill(&owner, &db).await?;
    for (name, path) in LISTS {
        let times = list(&door, path).await?;
        row(name, times, None);
    }
    let (times, rate) = accept(&door).await?;
    row("accept, this door", times, Some(rate));
    match pgbench(&db.urls.app, &db) {
        Ok(floor) => {
            println!("{:28} {:>10} {:>10} {floor:>10.0}", "accept, pgbench", "", "");
            println!("ratio {:.2} (at least 0.50 is wanted)", rate / floor);
        }
        Err(error) => println!("no floor: {error:#}; pgbench comes with PostgreSQL's clients"),
    }
    postgres.stop().await?;
    Ok(())
}

const LISTS: [(&str, &str); 6] = [
    ("list, first page", "/v1/services"),
    ("list, one project", "/v1/services?project=p77"),
    ("list, a name searched", "/v1/services?search=s99999"),
    ("list, health=error", "/v1/services?health=error"),
    ("list, phase and template", "/v1/services?phase=running&template=web"),
    ("one service", "/v1/projects/p77/services/s77"),
];

async fn door(db: &TestDb) -> anyhow::Result<Router> {
    let clock: Arc<dyn Clock> = Arc::new(DbClock::unanchored());
    let now = clock.now();
    db.setup.ensure_token(TOKEN, TOKEN, Role::Owner, Some(db.org), now).await?;
    Ok(router(Door {
        app: db.app.clone(),
        signals: Signals::default(),
        clock,
        sealer: Keyring::new(&[7; 32]).sealer(),
        registry: Arc::new(Registry::default()),
        stop: CancellationToken::new(),
        streams: Streams::default(),
        doubts: Doubts::default(),
        logs: Arc::new(NoLogs),
    }))
}

/// Services as the door would have recorded them, one in a thousand in error.
async fn fill(owner: &PgPool, db: &TestDb) -> anyhow::Result<()> {
    let (org, cluster) = (db.org.uuid(), db.cluster.uuid());
    let statements = [
        format!("update clusters set heard_at = now() + interval '1 hour',
                 watches = jsonb_build_object('Pod', now() + interval '1 hour', 'Deployment', now() + interval '1 hour')
             where id = '{cluster}'"),
        "update quotas set services_limit = 10000000, cpu_millis_limit = 1e12, memory_mib_limit = 1e12"
            .to_owned(),
        format!(
            "insert into projects (id, org_id, name, cluster_id, namespace, generation, created_at)
             select md5('p' || n)::uuid, '{org}', 'p' || n, '{cluster}', 'p' || n, 1, now()
             from generate_series(0, 99) n"
        ),
        format!(
            "insert into services (id, org_id, project_id, name, cluster_id, object_name, template_name,
                 template_version, parameters, spec, desired, generation, accepted_at, created_at, plan_name)
             select md5('s' || n)::uuid, '{org}', md5('p' || n % 100)::uuid, 's' || n, '{cluster}', 's' || n,
                 'web', 1, '{{\"image\": \"shop:1\"}}',
                 '{{\"workload\": \"deployment\", \"image\": \"shop:1\", \"replicas\": 1, \"ports\": [],
                   \"plan\": \"small\", \"resources\": {{\"cpu_millis\": 250, \"memory_mib\": 256}}}}',
                 'active', 1, now(), now(), 'small'
             from generate_series(0, {SERVICES} - 1) n"
        ),
        format!(
            "insert into statuses (unit_kind, unit_id, org_id, phase, health, status, as_of, rules_version)
             select 'service', md5('s' || n)::uuid, '{org}', 'running', h,
                 jsonb_build_object('phase', 'running', 'since', '2026-01-01T00:00:00Z', 'health', h,
                                    'conditions', '[]'::jsonb), now(), 1
             from (select n, case when n % 1000 = 0 then 'error' else 'healthy' end h
                   from generate_series(0, {SERVICES} - 1) n) s"
        ),
        "analyze".to_owned(),
    ];
    for statement in statements {
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(owner).await?;
    }
    Ok(())
}

async fn call(door: &Router, method: &str, path: &str, body: String) -> anyhow::Result<u16> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {TOKEN}"))
        .body(Body::from(body))?;
    let reply = door.clone().oneshot(request).await?;
    let status = reply.status().as_u16();
    reply.into_body().collect().await?;
    Ok(status)
}

async fn list(door: &Router, path: &str) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..100 {
        let began = Instant::now();
        let status = call(door, "GET", path, String::new()).await?;
        times.push(began.elapsed());
        if status != 200 {
            bail!("{path} answered {status}");
        }
    }
    Ok(times)
}

/// New services, declared by several callers at once.
async fn accept(door: &Router) -> anyhow::Result<(Vec<Duration>, f64)> {
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let callers = (0..CLIENTS).map(|caller| {
        let door = door.clone();
        tokio::spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < until {
                let path = format!("/v1/projects/p{caller}/services/new-{}", times.len());
                let body = r#"{"template": "web@1", "parameters": {"image": "shop:1"}}"#.to_owned();
                let began = Instant::now();
                let status = call(&door, "PUT", &path, body).await?;
                times.push(began.elapsed());
                if status != 202 {
                    bail!("{path} answered {status}");
                }
            }
            Ok(times)
        })
    });
    let mut times = Vec::new();
    for caller in futures::future::join_all(callers).await {
        times.extend(caller??);
    }
    let rate = f64::from(u32::try_from(times.len())?) / Duration::from_secs(SECONDS).as_secs_f64();
    Ok((times, rate))
}

/// The same statements without a door: transactions per second.
fn pgbench(url: &str, db: &TestDb) -> anyhow::Result<f64> {
    // What follows the question mark is for our own driver.
    let url = url.split('?').next().unwrap_or(url);
    let define = |name: &str, id: uuid::Uuid| format!("-D{name}={id}");
    let output = Command::new(std::env::var("PGBENCH").unwrap_or_else(|_| "pgbench".to_owned()))
        .args(["--no-vacuum", "--protocol=prepared", "-f", SCRIPT])
        .args([format!("-c{CLIENTS}"), format!("-j{CLIENTS}"), format!("-T{SECONDS}")])
        .args([define("org", db.org.uuid()), define("cluster", db.cluster.uuid()), url.to_owned()])
        .output()
        .context("pgbench could not be started")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next());
    let rate = rate.with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok(rate.parse()?)
}

fn row(name: &str, mut times: Vec<Duration>, rate: Option<f64>) {
    times.sort();
    let at = |share: usize| {
        let index = (times.len() * share / 100).min(times.len().saturating_sub(1));
        times.get(index).copied().unwrap_or_default().as_secs_f64() * 1000.0
    };
    let rate = rate.map(|rate| format!("{rate:.0}")).unwrap_or_default();
    println!("{name:28} {:>10.2} {:>10.2} {rate:>10}", at(50), at(99));
}
