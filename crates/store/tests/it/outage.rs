//! Broken connections: what was acknowledged is durable, and nothing is applied twice.

use std::time::Duration;
use trueup_testkit::report_batch::{RecordReports as _, next_batch};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::task::JoinSet;
use trueup_model::crash::{self, Fate};
use trueup_model::id::ClusterId;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::door::{Accepted, ProjectForce, Refusal, RequestContext, ServiceRequest};
use trueup_store::{App, Error, IdempotencyKey, ServiceRow, Worker};
use trueup_testkit::pg_proxy::{Mode, PgProxy};

use crate::stage::{PROJECT, Stage, at, converged};

/// Longer than any wait of a passing test.
const LONG: Duration = Duration::from_secs(120);
/// The number of idle connections. Each one that vanished costs the next request a second.
const CONNECTIONS: usize = 5;

async fn restart(stage: &Stage, app: &App, key: &str) -> Result<Accepted<ServiceRow>, Refusal> {
    let idempotency_key =
        Some(IdempotencyKey::new("POST /restart".to_owned(), key.to_owned(), b"{}"));
    let context = RequestContext { idempotency_key, ..stage.context() };
    let wanted = ServiceRequest::act(PROJECT, "web", &ServiceOperation::Restart);
    app.accept_service(stage.db.org, &wanted, &context, at(2)).await
}

#[tokio::test]
async fn f14_lost_commit_reply_is_retried_with_its_key_and_applied_once() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    let proxy = PgProxy::start(&stage.db.urls.app).await;
    let app = App::connect_within(&proxy.url(&stage.db.urls.app), LONG).unwrap();
    app.ping().await.unwrap();

    proxy.set(Mode::LoseCommit);
    let lost = restart(&stage, &app, "k1").await;
    let unknown = matches!(lost, Err(Refusal::Store(Error::CommitUnknown(_))));
    assert!(unknown, "the outcome must be reported as unknown: {lost:?}");
    assert_eq!(proxy.lost_commits(), 1, "the reply should have been lost");
    assert_eq!(stage.find("web").await.unwrap().service.spec.restart, 1, "the commit happened");

    let again = restart(&stage, &app, "k1").await.unwrap();
    assert!(!again.changed);
    assert_eq!(again.row.service.spec.restart, 1);
    assert_eq!(again.row.service.generation, 2);
}

#[tokio::test]
async fn f14_forced_project_deletion_with_lost_commit_is_recorded_once() {
    let stage = Stage::new().await;
    let (org, context) = (stage.db.org, stage.context());
    stage.db.app.delete_project(org, PROJECT, &context, at(1)).await.unwrap();
    let proxy = PgProxy::start(&stage.db.urls.app).await;
    let app = App::connect_within(&proxy.url(&stage.db.urls.app), LONG).unwrap();
    app.ping().await.unwrap();

    let idempotency_key =
        Some(IdempotencyKey::new("POST /force-delete".to_owned(), "k1".to_owned(), b"{}"));
    let keyed = RequestContext { idempotency_key, ..context.clone() };
    let wanted = ProjectForce { project: PROJECT, reason: "nobody runs it", generation: 2 };
    proxy.set(Mode::LoseCommit);
    let lost = app.force_project(org, &wanted, &keyed, at(2)).await;
    assert!(matches!(lost, Err(Refusal::Store(Error::CommitUnknown(_)))), "{lost:?}");
    assert_eq!(proxy.lost_commits(), 1, "the reply should have been lost");
    let again = app.force_project(org, &wanted, &keyed, at(3)).await.unwrap();
    assert_eq!((again.changed, again.row.project.generation), (false, 3));
    // Without a key the generation precondition detects the retry.
    let blind = app.force_project(org, &wanted, &context, at(3)).await;
    assert!(matches!(blind, Err(Refusal::Changed { current: 3 })), "{blind:?}");
    let count = "select count(*) from events where type = 'ProjectForceQueued'";
    assert_eq!(stage.one::<i64>(count).await, 1);
}

#[tokio::test]
async fn f14_lease_with_lost_commit_is_reacquired_with_a_higher_epoch() {
    let stage = Stage::new().await;
    let proxy = PgProxy::start(&stage.db.urls.worker).await;
    let worker = Worker::connect_within(&proxy.url(&stage.db.urls.worker), LONG).unwrap();
    let cluster: ClusterId = stage.db.cluster;
    proxy.set(Mode::LoseCommit);
    let lost = worker.acquire_lease(cluster, "one", None, at(1)).await;
    assert!(lost.is_err(), "{lost:?}");
    let lease = worker.acquire_lease(cluster, "one", None, at(1)).await.unwrap().ours().unwrap();
    assert_eq!(lease.epoch, 2, "the first acquisition counts although its reply was lost");
}

#[tokio::test]
async fn f13_cut_connections_are_errors_until_the_database_is_back() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    let proxy = PgProxy::start(&stage.db.urls.app).await;
    let app = App::connect_within(&proxy.url(&stage.db.urls.app), Duration::from_secs(2)).unwrap();
    app.ping().await.unwrap();
    proxy.set(Mode::Cut);
    assert!(restart(&stage, &app, "k1").await.is_err());
    assert_eq!(stage.find("web").await.unwrap().service.generation, 1, "nothing was recorded");
    proxy.set(Mode::Delay(Duration::from_millis(20)));
    // A dead connection in the pool may be detected only now.
    let answer = tokio::time::timeout(LONG, async {
        loop {
            if let Ok(answer) = restart(&stage, &app, "k1").await {
                return answer;
            }
        }
    });
    assert!(answer.await.expect("requests should succeed again").changed);
}

/// Evaluates an expression over the app's connections to this database.
async fn app_connections(stage: &Stage, question: &str) -> bool {
    connections(stage, "trueup-app", question).await
}

/// Evaluates an expression over a role's connections to this database, as the same role.
async fn connections(stage: &Stage, whom: &str, question: &str) -> bool {
    let urls = &stage.db.urls;
    let url = if whom == "trueup-app" { &urls.app } else { &urls.worker };
    let mut connection = PgConnection::connect(url).await.unwrap();
    let statement = format!(
        "select {question} from pg_stat_activity
         where datname = current_database() and application_name = '{whom}'"
    );
    sqlx::query_scalar(AssertSqlSafe(statement)).fetch_one(&mut connection).await.unwrap()
}

/// Opens connections of the app and leaves them idle for longer than the pool trusts one.
async fn open_idle_connections(stage: &Stage, app: &App) {
    let mut lock = PgConnection::connect(&stage.db.urls.owner).await.unwrap();
    sqlx::raw_sql("begin; lock table projects").execute(&mut lock).await.unwrap();
    let mut requests = JoinSet::new();
    // One after the other, all waiting in the end: each occupies its own connection.
    for number in 1..=CONNECTIONS {
        let (app, org) = (app.clone(), stage.db.org);
        requests.spawn(async move { app.list_projects(org).await });
        let waiting = format!("count(*) filter (where wait_event_type = 'Lock') = {number}");
        let all_wait = async {
            while !app_connections(stage, &waiting).await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, all_wait).await.expect("the request should wait for the lock");
    }
    sqlx::raw_sql("rollback").execute(&mut lock).await.unwrap();
    assert!(requests.join_all().await.iter().all(Result::is_ok));
    let idle = format!(
        "count(*) >= {CONNECTIONS} and bool_and(state = 'idle')
         and clock_timestamp() - max(state_change) > '1500 ms'"
    );
    let all_idle = async {
        while !app_connections(stage, &idle).await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, all_idle).await.expect("the connections should become idle");
}

/// Sends more requests than there are connections, so that each connection is used.
async fn the_next_requests_succeed(stage: &Stage, app: &App) {
    for number in 0..16 {
        let key = format!("k{number}");
        let answer = tokio::time::timeout(LONG, restart(stage, app, &key)).await;
        assert!(matches!(answer, Ok(Ok(_))), "request {number}: {answer:?}");
    }
}

#[tokio::test]
async fn f13_requests_after_a_database_restart_succeed() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    let app = App::connect(&stage.db.urls.app).unwrap();
    open_idle_connections(&stage, &app).await;
    assert!(app_connections(&stage, "bool_and(pg_terminate_backend(pid, 30000))").await);
    the_next_requests_succeed(&stage, &app).await;
}

#[tokio::test]
async fn f56_requests_after_half_open_connections_succeed() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    let proxy = PgProxy::start(&stage.db.urls.app).await;
    let app = App::connect(&proxy.url(&stage.db.urls.app)).unwrap();
    open_idle_connections(&stage, &app).await;
    proxy.strand();
    the_next_requests_succeed(&stage, &app).await;
}

#[tokio::test]
async fn f56_queries_to_a_vanished_database_release_their_pool_slots() {
    let stage = Stage::new().await;
    let proxy = PgProxy::start(&stage.db.urls.worker).await;
    let wait = Duration::from_secs(30);
    let worker = Worker::connect_within(&proxy.url(&stage.db.urls.worker), wait).unwrap();
    // More than the pool has slots.
    let all = || futures::future::join_all((0..40).map(|_| worker.unsealed_events()));
    assert!(all().await.iter().all(Result::is_ok));
    proxy.strand();
    let timed_out = tokio::time::timeout(Duration::from_millis(300), all()).await;
    assert!(timed_out.is_err(), "no query should be answered");
    let answer = worker.unsealed_events().await;
    assert!(answer.is_ok(), "{answer:?}");
}

#[tokio::test]
async fn f14_reports_with_lost_commit_are_resent_and_recorded_once() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "shop:1").await.row;
    let proxy = PgProxy::start(&stage.db.urls.worker).await;
    let worker = Worker::connect_within(&proxy.url(&stage.db.urls.worker), LONG).unwrap();
    let batch = [converged(&row, 1)];
    let number = next_batch();
    proxy.set(Mode::LoseCommit);
    let lost = worker.record_reports_once(lease, number, &batch, at(3)).await;
    assert!(lost.is_err(), "{lost:?}");
    assert_eq!(proxy.lost_commits(), 1);
    let before = stage.rows().await;
    worker.record_reports_once(lease, number, &batch, at(4)).await.unwrap();
    assert_eq!(stage.grown(&before).await, []);
}

/// F11: the caller is cancelled during BEGIN, as in a graceful shutdown.
///
/// If the transaction stayed open, later writes on that connection would be lost with it.
#[tokio::test]
async fn f11_transaction_cancelled_during_begin_is_not_left_open() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let proxy = PgProxy::start(&stage.db.urls.worker).await;
    let worker = Worker::connect_within(&proxy.url(&stage.db.urls.worker), LONG).unwrap();
    worker.renew_lease(lease, at(1)).await.unwrap();
    proxy.set(Mode::HoldBegin);
    let begun = tokio::select! {
        answer = worker.record_reports(lease, &[], at(2)) => panic!("the call should not complete: {answer:?}"),
        begun = stopped_in_transaction(&stage) => begun,
    };
    proxy.set(Mode::Pass);
    // The same connection, not a new one: Postgres closes one that idles in a transaction.
    let is_free = format!("bool_or(pid = {begun} and state = 'idle')");
    let reached = tokio::time::timeout(LONG, async {
        while !connections(&stage, "trueup-worker", &is_free).await {
            tokio::task::yield_now().await;
        }
    });
    assert!(reached.await.is_ok(), "the transaction should be rolled back");
}

/// F49: a holder is paused inside a transaction that locks its lease row.
///
/// The next holder does not wait for that much longer than for the lease itself.
#[tokio::test]
async fn f49_holder_paused_in_a_transaction_loses_its_lease() {
    let stage = Stage::new().await;
    let (lease, row) = (stage.lease().await, stage.declare("web", "shop:1").await.row);
    let holder = Worker::connect(&stage.db.urls.worker).unwrap();
    crash::script(|point| if point == "report.recording" { Fate::Stop } else { Fate::GoOn });
    let batch = [converged(&row, 1)];
    let stopped = holder.record_reports(lease, &batch, at(1));
    tokio::pin!(stopped);
    tokio::select! {
        answer = &mut stopped => panic!("the holder should be paused: {answer:?}"),
        _pid = stopped_in_transaction(&stage) => {}
    }
    let next = stage.db.worker.acquire_lease(stage.db.cluster, "two", None, at(11));
    let turn = tokio::time::timeout(LONG, next).await;
    let turn = turn.expect("the next holder should not wait for the paused one");
    assert_eq!(turn.unwrap().ours().map(|lease| lease.epoch), Some(lease.epoch + 1));
    crash::end_script();
}

/// Waits until a worker is idle inside a transaction; returns the pid of its Postgres backend.
async fn stopped_in_transaction(stage: &Stage) -> i32 {
    let mut connection = PgConnection::connect(&stage.db.urls.worker).await.unwrap();
    let found = tokio::time::timeout(LONG, async {
        loop {
            let pid: Option<i32> = sqlx::query_scalar(
                "select max(pid) from pg_stat_activity where datname = current_database()
                 and application_name = 'trueup-worker' and state = 'idle in transaction'",
            )
            .fetch_one(&mut connection)
            .await
            .unwrap();
            if let Some(pid) = pid {
                return pid;
            }
            tokio::task::yield_now().await;
        }
    });
    found.await.expect("a worker should be idle in a transaction")
}
