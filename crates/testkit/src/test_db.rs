//! A separate database for each test, on one real Postgres that all test processes share.
//!
//! The first test migrates a template database and publishes templates and plans in it. Each test
//! copies that database, which takes milliseconds.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::sync::OnceCell;
use trueup_local::Progress;
use trueup_local::layout::cache_dir;
use trueup_local::postgres::{Options, Postgres};
use trueup_model::cluster::Freshness;
use trueup_model::name::Name;
use trueup_model::offer::Offer;
use trueup_model::plan::Plan;
use trueup_model::principal::{Principal, PrincipalId, Role};
use trueup_model::template::Template;
use trueup_model::{ClusterId, OrgId, TokenId, UserId};
use trueup_rules::password::{Cost, hash};
use trueup_store::{App, FirstUser, RolePasswords, Setup, Urls, Worker, bootstrap, schema_digest};

/// A database with one org, one cluster and one template.
#[derive(Debug)]
pub struct TestDb {
    /// Connected as the app role.
    pub app: App,
    /// Connected as the worker role, which the loops use.
    pub worker: Worker,
    /// Connected as the owner, to seed more data.
    pub setup: Setup,
    /// The org.
    pub org: OrgId,
    /// The cluster.
    pub cluster: ClusterId,
    /// The connection URL of each role.
    pub urls: Urls,
}

/// The endpoint ports of a test: few, so that a test can exhaust them.
pub const ENDPOINT_PORTS: RangeInclusive<u16> = 30_000..=30_007;

/// The least that a hash can cost: tests sign in often.
pub const CHEAP: Cost = Cost { memory_kib: 8, passes: 1 };

/// The password of every user of a test.
pub const PASSWORD: &str = "correct horse battery staple";

/// Longer than any other test holds a transaction open.
const TIMEOUT: Duration = Duration::from_secs(120);

static SERVER: OnceCell<String> = OnceCell::const_new();
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The shipped templates `web@1` and `minecraft@1`.
const SHIPPED: [&str; 2] = [
    include_str!("../../../templates/web.yaml"),
    include_str!("../../../templates/minecraft.yaml"),
];
const PLANS: &str = include_str!("../../../plans/plans.yaml");
const OFFERS: &str = include_str!("../../../plans/offers.yaml");

/// The admin URL of the shared Postgres, which stays up for the next test process.
pub async fn server() -> &'static str {
    SERVER
        .get_or_init(|| async {
            let options = Options { dir: cache_dir().join("test-postgres"), durable: false };
            let postgres = Postgres::adopt_or_start(&options, &Progress::new()).await;
            let url = postgres.expect("Postgres should start").admin_url();
            prepare(&url).await.expect("the template database should be created");
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

/// The name of the template database. It changes with the schema and the seed data.
fn template_name() -> String {
    let mut seeds = DefaultHasher::new();
    (SHIPPED, PLANS).hash(&mut seeds);
    format!("template_{}_{:08x}", schema_digest(), seeds.finish() >> 32)
}

/// One process at a time creates or copies the template: Postgres refuses to copy a database that
/// has other connections.
const TEMPLATE_LOCK: i64 = 7_308_606;
/// One process at a time drops the databases of dead test processes.
const CLEANING_LOCK: i64 = 7_308_607;

/// Creates the template of this schema; starts to drop databases of dead test processes.
async fn prepare(admin: &str) -> anyhow::Result<()> {
    make_template(admin).await?;
    // In the background: each drop waits for a checkpoint, and there may be hundreds.
    let admin = admin.to_owned();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let cleaned = runtime.expect("a runtime should be built").block_on(drop_abandoned(&admin));
        cleaned.expect("databases of dead test processes should be dropped");
    });
    Ok(())
}

/// Creates the template under a draft name and renames it once it is complete.
///
/// So a process that dies in between leaves no partial template, and nothing connects to a
/// complete one.
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
        // A database cannot be renamed while the owner's connection is still closing.
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

/// Seeds what every test database has: templates and plans.
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
    let offers: Vec<Offer> = serde_saphyr::from_str(OFFERS)?;
    for offer in &offers {
        setup.ensure_offer(offer).await?;
    }
    Ok(())
}

/// Drops databases of dead test processes, unless another process is doing so.
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

/// Waits for an advisory lock, which is held until the connection closes.
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

    /// A fresh database on a separate server with durable writes, for benchmarks. The caller stops
    /// the server.
    pub async fn durable() -> (Self, Postgres) {
        let options = Options { dir: cache_dir().join("bench-postgres"), durable: true };
        let postgres = Postgres::adopt_or_start(&options, &Progress::new()).await;
        let postgres = postgres.expect("Postgres should start");
        let url = postgres.admin_url();
        prepare(&url).await.expect("the template database should be created");
        (Self::on(&url).await, postgres)
    }

    async fn on(admin: &str) -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        copy_template(admin, &name).await.expect("the template should be copied");
        let urls = Urls::new(admin, &name, &passwords()).expect("the URLs should be valid");
        let setup = Setup::connect(&urls.owner).await.expect("the owner should connect");
        let now = start();
        let cluster = setup.ensure_cluster("test", now).await.expect("a cluster should be created");
        let pool = setup.ensure_endpoint_pool(cluster, ENDPOINT_PORTS).await;
        pool.expect("an endpoint pool should be created");
        Self {
            app: App::connect_within(&urls.app, TIMEOUT).expect("the app's URL should be read"),
            worker: Worker::connect_within(&urls.worker, TIMEOUT)
                .expect("the worker's URL should be read"),
            org: setup.ensure_org("acme", now).await.expect("an org should be created"),
            cluster,
            setup,
            urls,
        }
    }

    /// Seals all events. Open transactions of other tests on the same server may delay this.
    pub async fn seal(&self) {
        let sealed = tokio::time::timeout(TIMEOUT, async {
            while self.unsealed().await > 0 {
                self.worker.seal_events(start()).await.expect("events should be sealed");
                tokio::task::yield_now().await;
            }
        });
        sealed.await.expect("all events should be sealed in time");
    }

    /// The number of events that are not sealed yet.
    pub async fn unsealed(&self) -> i64 {
        self.worker.unsealed_events().await.expect("the queue should be counted").count
    }

    /// The number of queued and of running wakes.
    pub async fn count_wakes(&self) -> (i64, i64) {
        let loads = self.worker.lane_loads(self.cluster).await.expect("wakes should be counted");
        let queued = loads.iter().map(|load| load.queued).sum();
        (queued, loads.iter().map(|load| load.running).sum())
    }

    /// Records that a watch event of every kind arrived at this time, as a lease holder does.
    pub async fn record_heartbeat(&self, at: Timestamp) {
        let mut connection =
            PgConnection::connect(&self.urls.owner).await.expect("the owner should connect");
        let heard = Freshness::all_at(at).heard;
        let recorded = sqlx::query(
            "update clusters set watches = watches || $2,
                    heard_at = greatest(heard_at, $3::text::timestamptz)
             where id = $1",
        )
        .bind(self.cluster.uuid())
        .bind(Json(heard))
        .bind(at.to_string())
        .execute(&mut connection)
        .await;
        recorded.expect("the watches should be recorded");
    }

    /// Opens a transaction and keeps it open: no later event can be sealed until it ends.
    pub async fn long_transaction(&self) -> LongTransaction {
        let mut connection =
            PgConnection::connect(&self.urls.owner).await.expect("the owner should connect");
        sqlx::raw_sql("begin; select pg_current_xact_id()")
            .execute(&mut connection)
            .await
            .expect("a transaction should begin");
        LongTransaction { connection }
    }

    /// From now on no wake is recorded, whatever requests it; or wakes are recorded again.
    pub async fn lose_wakes(&self, lost: bool) {
        let mut connection =
            PgConnection::connect(&self.urls.owner).await.expect("the owner should connect");
        let change = if lost {
            "create function lose_wake() returns trigger language plpgsql
                 as $$ begin return null; end $$;
             create trigger lose_wake before insert on wakes
                 for each row execute function lose_wake()"
        } else {
            "drop trigger lose_wake on wakes; drop function lose_wake()"
        };
        let changed = sqlx::raw_sql(change).execute(&mut connection).await;
        changed.expect("the trigger should change");
    }

    /// Wakes, lease and the state of every connection, to diagnose a test that hangs.
    pub async fn under_way(&self) -> Vec<String> {
        let mut owner =
            PgConnection::connect(&self.urls.owner).await.expect("the owner should connect");
        let mut admin =
            PgConnection::connect(server().await).await.expect("the server should answer");
        let database = self.urls.owner.rsplit('/').next().unwrap_or_default();
        let of_ours = "select 'wake ' || to_jsonb(w) from wakes w
             union all select 'lease ' || to_jsonb(l) || to_jsonb(h) || to_jsonb(now())
                       from leases l join lease_heartbeats h using (scope_kind, scope_id)";
        let ours = sqlx::query_scalar(of_ours).fetch_all(&mut owner).await;
        let of_server =
            "select concat_ws(' ', pid, usename, state, wait_event, now() - state_change, query)
             from pg_stat_activity where datname = $1";
        let server = sqlx::query_scalar(of_server).bind(database).fetch_all(&mut admin).await;
        let mut lines: Vec<String> = ours.expect("wakes and leases should be read");
        lines.extend(server.expect("connections should be read"));
        lines
    }

    /// Creates a user with [`PASSWORD`] and this role in an org.
    pub async fn user(&self, email: &str, role: Role, org: OrgId) -> UserId {
        let email = email.parse().expect("a test's address should be valid");
        let hash = hash(PASSWORD, &[7; 16], CHEAP).expect("the cost should be valid");
        let user = FirstUser { email: &email, name: "Ada", password_hash: &hash };
        let user = self.setup.ensure_user(&user, start()).await;
        let user = user.expect("a user should be created");
        let member = self.setup.ensure_member(org, user, role, start()).await;
        member.expect("a member should be added");
        user
    }

    /// A principal with the owner role in the org.
    #[must_use]
    pub fn owner(&self) -> Principal {
        Principal {
            id: PrincipalId::Token(TokenId::from_parts(Timestamp::UNIX_EPOCH, [1; 10])),
            name: "owner".to_owned(),
            role: Role::Owner,
            projects: Vec::new(),
            org: Some(self.org),
            permissions: None,
            expires_at: None,
        }
    }
}

/// The creation time of every test database.
fn start() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("should be a valid timestamp")
}

/// A transaction that stays open until [`LongTransaction::end`] or drop.
#[derive(Debug)]
pub struct LongTransaction {
    connection: PgConnection,
}

impl LongTransaction {
    /// Commits it.
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

/// Parses a name that is known to be valid.
#[must_use]
pub fn name(text: &str) -> Name {
    text.parse().expect("a test's name should be valid")
}
