//! A database of its own for each test, on one real Postgres that all test processes share.
//!
//! The first test migrates a template database and publishes templates and plans in it; each test copies
//! it, which takes milliseconds.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::sync::OnceCell;
use trueup_local::Progress;
use trueup_local::layout::cache_dir;
use trueup_local::postgres::{Options, Postgres};
use trueup_model::name::Name;
use trueup_model::plan::Plan;
use trueup_model::principal::{Principal, Role};
use trueup_model::template::Template;
use trueup_model::{ClusterId, OrgId};
use trueup_store::{App, RolePasswords, Setup, Urls, Worker, bootstrap, schema_digest};

/// A database with one org, one cluster and one template.
#[derive(Debug)]
pub struct TestDb {
    /// As the app.
    pub app: App,
    /// As the loops.
    pub worker: Worker,
    /// For seeding more.
    pub setup: Setup,
    /// The org.
    pub org: OrgId,
    /// The cluster.
    pub cluster: ClusterId,
    /// Where each role connects.
    pub urls: Urls,
}

/// The ports that endpoints of a test get: few, so that a test can use them up.
pub const ENDPOINT_PORTS: RangeInclusive<u16> = 30_000..=30_007;

/// Longer than any other test holds a transaction open.
const PATIENCE: Duration = Duration::from_secs(120);

static SERVER: OnceCell<String> = OnceCell::const_new();
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The templates `web@1` and `minecraft@1`, as they are shipped.
const SHIPPED: [&str; 2] = [
    include_str!("../../../templates/web.yaml"),
    include_str!("../../../templates/minecraft.yaml"),
];
const PLANS: &str = include_str!("../../../plans/plans.yaml");

/// The admin URL of the Postgres that tests share. It is left running for the next test process.
pub async fn server() -> &'static str {
    SERVER
        .get_or_init(|| async {
            let options = Options { dir: cache_dir().join("test-postgres"), durable: false };
            let postgres = Postgres::adopt_or_start(&options, &Progress::new()).await;
            let url = postgres.expect("Postgres should start").admin_url();
            prepare(&url).await.expect("the template database should be made");
            url
        })
        .await
}

/// The passwords of the roles on that server.
#[must_use]
pub fn passwords() -> RolePasswords {
    let password = "only-for-tests".to_owned();
    RolePasswords { owner: password.clone(), app: password.clone(), worker: password }
}

/// Names the template database: changes with the schema and with what is seeded into it.
fn template_name() -> String {
    let mut seeds = DefaultHasher::new();
    (SHIPPED, PLANS).hash(&mut seeds);
    format!("template_{}_{:08x}", schema_digest(), seeds.finish() >> 32)
}

/// One process at a time makes the template or copies it: Postgres refuses to copy a database that
/// somebody is connected to.
const TEMPLATE_LOCK: i64 = 7_308_606;
/// One process at a time drops what dead ones left.
const CLEANING_LOCK: i64 = 7_308_607;

/// Makes the template of this schema, and begins to drop what dead test processes left.
async fn prepare(admin: &str) -> anyhow::Result<()> {
    make_template(admin).await?;
    // Beside the tests: each drop waits for a checkpoint, and there may be hundreds.
    let admin = admin.to_owned();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let cleaned = runtime.expect("a runtime").block_on(drop_abandoned(&admin));
        cleaned.expect("databases of dead test processes should be dropped");
    });
    Ok(())
}

/// Makes the template under another name and renames it when it is complete, so that a process that
/// ends in the middle leaves no half of one, and one that is complete is never connected to again.
async fn make_template(admin: &str) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(admin).await?;
    lock(&mut connection, TEMPLATE_LOCK).await?;
    let template = template_name();
    let complete: bool =
        sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
            .bind(&template)
            .fetch_one(&mut connection)
            .await?;
    if !complete {
        let draft = format!("draft_{template}");
        run(&mut connection, format!("drop database if exists {draft} with (force)")).await?;
        let urls = bootstrap(admin, &draft, &passwords()).await?;
        seed(&urls.owner).await?;
        // The owner's connection may take a moment to end, and nothing is renamed before.
        sqlx::query(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = $1",
        )
        .bind(&draft)
        .execute(&mut connection)
        .await?;
        run(&mut connection, format!("alter database {draft} rename to {template}")).await?;
    }
    connection.close().await?;
    Ok(())
}

/// What every test's database has, and no test changes the meaning of: templates and plans.
async fn seed(owner: &str) -> anyhow::Result<()> {
    let setup = Setup::connect(owner).await?;
    for text in SHIPPED {
        let template: Template = serde_saphyr::from_str(text)?;
        setup.ensure_template(&template).await?;
    }
    let plans: Vec<Plan> = serde_saphyr::from_str(PLANS)?;
    for plan in &plans {
        setup.ensure_plan(plan).await?;
    }
    Ok(())
}

/// Drops the databases of test processes that are no more, unless another process is doing so.
async fn drop_abandoned(admin: &str) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(admin).await?;
    let mine: bool = sqlx::query_scalar("select pg_try_advisory_lock($1)")
        .bind(CLEANING_LOCK)
        .fetch_one(&mut connection)
        .await?;
    if mine {
        let names: Vec<String> = sqlx::query_scalar(
            "select datname::text from pg_database where datname like 'test\\_%'",
        )
        .fetch_all(&mut connection)
        .await?;
        for name in names {
            let pid = name.split('_').nth(1).unwrap_or_default();
            if !std::path::Path::new("/proc").join(pid).exists() {
                run(&mut connection, format!("drop database if exists {name} with (force)"))
                    .await?;
            }
        }
    }
    connection.close().await?;
    Ok(())
}

/// Waits for a lock, which ends with the connection.
async fn lock(connection: &mut PgConnection, number: i64) -> anyhow::Result<()> {
    sqlx::query("select pg_advisory_lock($1)").bind(number).execute(connection).await?;
    Ok(())
}

async fn run(connection: &mut PgConnection, statement: String) -> anyhow::Result<()> {
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await?;
    Ok(())
}

impl TestDb {
    /// A fresh database, copied from the template.
    pub async fn new() -> Self {
        Self::on(server().await).await
    }

    /// A fresh database on a server of its own, which keeps what it says it keeps: for benches. The
    /// server is the caller's to stop.
    pub async fn durable() -> (Self, Postgres) {
        let options = Options { dir: cache_dir().join("bench-postgres"), durable: true };
        let postgres = Postgres::adopt_or_start(&options, &Progress::new()).await;
        let postgres = postgres.expect("Postgres should start");
        let url = postgres.admin_url();
        prepare(&url).await.expect("the template database should be made");
        (Self::on(&url).await, postgres)
    }

    async fn on(admin: &str) -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        copy_template(admin, &name).await.expect("the template should be copied");
        let urls = Urls::new(admin, &name, &passwords()).expect("the URLs should be made");
        let setup = Setup::connect(&urls.owner).await.expect("the owner should connect");
        let now = start();
        let cluster = setup.ensure_cluster("test", now).await.expect("a cluster should be made");
        let pool = setup.ensure_endpoint_pool(cluster, ENDPOINT_PORTS).await;
        pool.expect("a pool should be made");
        Self {
            app: App::connect_within(&urls.app, PATIENCE).expect("the app's URL should be read"),
            worker: Worker::connect_within(&urls.worker, PATIENCE)
                .expect("the worker's URL should be read"),
            org: setup.ensure_org("acme", now).await.expect("an org should be made"),
            cluster,
            setup,
            urls,
        }
    }

    /// Seals everything. Transactions of other tests on the same server may hold it up for a moment.
    pub async fn seal(&self) {
        let sealed = tokio::time::timeout(PATIENCE, async {
            while self.unsealed().await > 0 {
                self.worker.seal_events(start()).await.expect("events should be sealed");
                tokio::task::yield_now().await;
            }
        });
        sealed.await.expect("the sealer should come to an end");
    }

    /// How many events wait for the sealer.
    pub async fn unsealed(&self) -> i64 {
        self.worker.unsealed_events().await.expect("the queue should be counted").count
    }

    /// A transaction of somebody else that stays open: nothing that comes after it can be sealed.
    pub async fn long_transaction(&self) -> LongTransaction {
        let mut connection =
            PgConnection::connect(&self.urls.owner).await.expect("the owner should connect");
        sqlx::raw_sql("begin; select pg_current_xact_id()")
            .execute(&mut connection)
            .await
            .expect("a transaction should begin");
        LongTransaction { connection }
    }

    /// What waits, who holds the lease and what every connection does: for a test that gets no further.
    pub async fn under_way(&self) -> Vec<String> {
        let mut owner =
            PgConnection::connect(&self.urls.owner).await.expect("the owner should connect");
        let mut admin =
            PgConnection::connect(server().await).await.expect("the server should answer");
        let database = self.urls.owner.rsplit('/').next().unwrap_or_default();
        let of_ours = "select 'wake ' || to_jsonb(w) from wakes w
             union all select 'lease ' || to_jsonb(l) || to_jsonb(h) || to_jsonb(now())
                       from leases l join lease_heartbeats h using (cluster_id)";
        let ours = sqlx::query_scalar(of_ours).fetch_all(&mut owner).await;
        let of_server =
            "select concat_ws(' ', pid, usename, state, wait_event, now() - state_change, query)
             from pg_stat_activity where datname = $1";
        let server = sqlx::query_scalar(of_server).bind(database).fetch_all(&mut admin).await;
        let mut lines: Vec<String> = ours.expect("its rows should be read");
        lines.extend(server.expect("its connections should be read"));
        lines
    }

    /// An owner of the org.
    #[must_use]
    pub fn owner(&self) -> Principal {
        Principal {
            token: trueup_model::TokenId::from_parts(Timestamp::UNIX_EPOCH, [1; 10]),
            name: "owner".to_owned(),
            role: Role::Owner,
            org: Some(self.org),
            permissions: None,
            expires_at: None,
        }
    }
}

/// The moment at which every test's database is made.
fn start() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("this should be a time")
}

/// A transaction that is open until it is ended or dropped.
#[derive(Debug)]
pub struct LongTransaction {
    connection: PgConnection,
}

impl LongTransaction {
    /// Ends it.
    pub async fn end(mut self) {
        sqlx::raw_sql("commit")
            .execute(&mut self.connection)
            .await
            .expect("the transaction should end");
    }
}

async fn copy_template(admin: &str, name: &str) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(admin).await?;
    lock(&mut connection, TEMPLATE_LOCK).await?;
    let template = template_name();
    run(&mut connection, format!("drop database if exists {name} with (force)")).await?;
    let copy =
        format!("create database {name} template {template} owner trueup_owner strategy file_copy");
    run(&mut connection, copy).await?;
    connection.close().await?;
    Ok(())
}

/// A name that is known to be good.
#[must_use]
pub fn name(text: &str) -> Name {
    text.parse().expect("a test's name should be valid")
}
