//! Connections that break at the worst moment: what was acknowledged is there, and nothing is twice.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::task::JoinSet;
use trueup_model::crash::{self, Fate};
use trueup_model::id::ClusterId;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::door::{Accepted, ProjectForce, Refusal, RequestContext, ServiceRequest};
use trueup_store::{App, Error, IdempotencyKey, ServiceRow, Worker};
use trueup_testkit::pg_proxy::{Mode, PgProxy};

use crate::stage::{PROJECT, Stage, at, converged};

/// Longer than any wait of a test that is right.
const LONG: Duration = Duration::from_secs(120);
/// So many connections lie idle. Each that vanished costs the next request a second.
const CONNECTIONS: usize = 5;

async fn restart(stage: &Stage, app: &App, key: &str) -> Result<Accepted<ServiceRow>, Refusal> {
    let repeat = Some(IdempotencyKey::new("POST /restart".to_owned(), key.to_owned(), b"{}"));
    let context = RequestContext { repeat, ..stage.context() };
    let wanted = ServiceRequest::act(PROJECT, "web", &ServiceOperation::Restart);
    app.accept_service(stage.db.org, &wanted, &context, at(2)).await
}

#[tokio::test]
async fn f14_a_commit_whose_reply_is_lost_is_known_by_its_key_and_not_done_twice() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    let proxy = PgProxy::start(&stage.db.urls.app).await;
    let app = App::connect_within(&proxy.url(&stage.db.urls.app), LONG).unwrap();
    app.ping().await.unwrap();

    proxy.set(Mode::LoseCommit);
    let lost = restart(&stage, &app, "k1").await;
    let doubtful = matches!(lost, Err(Refusal::Store(Error::CommitUnknown(_))));
    assert!(doubtful, "nobody may say that it was done, or that it was not: {lost:?}");
    assert_eq!(proxy.lost_commits(), 1, "the reply should have been lost");
    assert_eq!(stage.find("web").await.unwrap().service.spec.restart, 1, "it was done");

    let again = restart(&stage, &app, "k1").await.unwrap();
    assert!(!again.changed);
    assert_eq!(again.row.service.spec.restart, 1);
    assert_eq!(again.row.service.generation, 2);
}

#[tokio::test]
async fn f14_a_forced_end_of_a_project_whose_commit_is_lost_is_recorded_once() {
    let stage = Stage::new().await;
    let (org, context) = (stage.db.org, stage.context());
    stage.db.app.delete_project(org, PROJECT, &context, at(1)).await.unwrap();
    let proxy = PgProxy::start(&stage.db.urls.app).await;
    let app = App::connect_within(&proxy.url(&stage.db.urls.app), LONG).unwrap();
    app.ping().await.unwrap();

    let repeat = Some(IdempotencyKey::new("POST /force-delete".to_owned(), "k1".to_owned(), b"{}"));
    let keyed = RequestContext { repeat, ..context.clone() };
    let wanted = ProjectForce { project: PROJECT, reason: "nobody runs it", generation: 2 };
    proxy.set(Mode::LoseCommit);
    let lost = app.force_project(org, &wanted, &keyed, at(2)).await;
    assert!(matches!(lost, Err(Refusal::Store(Error::CommitUnknown(_)))), "{lost:?}");
    assert_eq!(proxy.lost_commits(), 1, "the reply should have been lost");
    let again = app.force_project(org, &wanted, &keyed, at(3)).await.unwrap();
    assert_eq!((again.changed, again.row.project.generation), (false, 3));
    // Without a key the generation tells.
    let blind = app.force_project(org, &wanted, &context, at(3)).await;
    assert!(matches!(blind, Err(Refusal::Changed { current: 3 })), "{blind:?}");
    let told = "select count(*) from events where type = 'ProjectForceQueued'";
    assert_eq!(stage.one::<i64>(told).await, 1);
}

#[tokio::test]
async fn f14_a_lease_whose_commit_is_lost_can_be_taken_again_with_a_higher_epoch() {
    let stage = Stage::new().await;
    let proxy = PgProxy::start(&stage.db.urls.worker).await;
    let worker = Worker::connect_within(&proxy.url(&stage.db.urls.worker), LONG).unwrap();
    let cluster: ClusterId = stage.db.cluster;
    proxy.set(Mode::LoseCommit);
    let lost = worker.acquire_lease(cluster, "one", None, at(1)).await;
    assert!(lost.is_err(), "{lost:?}");
    let lease = worker.acquire_lease(cluster, "one", None, at(1)).await.unwrap().ours().unwrap();
    assert_eq!(lease.epoch, 2, "the first one counts, whoever heard of it");
}

#[tokio::test]
async fn f13_a_database_that_cuts_every_connection_is_an_error_and_then_serves_again() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    let proxy = PgProxy::start(&stage.db.urls.app).await;
    let app = App::connect_within(&proxy.url(&stage.db.urls.app), Duration::from_secs(2)).unwrap();
    app.ping().await.unwrap();
    proxy.set(Mode::Cut);
    assert!(restart(&stage, &app, "k1").await.is_err());
    assert_eq!(stage.find("web").await.unwrap().service.generation, 1, "nothing was recorded");
    proxy.set(Mode::Delay(Duration::from_millis(20)));
    // A connection that died in the pool a moment ago may be found out only now.
    let answer = tokio::time::timeout(LONG, async {
        loop {
            if let Ok(answer) = restart(&stage, &app, "k1").await {
                return answer;
            }
        }
    });
    assert!(answer.await.expect("it should serve again").changed);
}

/// What is said about the app's connections to this database.
async fn of_the_app(stage: &Stage, question: &str) -> bool {
    of(stage, "trueup-app", question).await
}

/// What is said about somebody's connections to this database, asked as the same role.
async fn of(stage: &Stage, whom: &str, question: &str) -> bool {
    let urls = &stage.db.urls;
    let url = if whom == "trueup-app" { &urls.app } else { &urls.worker };
    let mut connection = PgConnection::connect(url).await.unwrap();
    let statement = format!(
        "select {question} from pg_stat_activity
         where datname = current_database() and application_name = '{whom}'"
    );
    sqlx::query_scalar(AssertSqlSafe(statement)).fetch_one(&mut connection).await.unwrap()
}

/// Some connections of the app, all of them idle for longer than the pool trusts one.
async fn idle_connections(stage: &Stage, app: &App) {
    let mut lock = PgConnection::connect(&stage.db.urls.owner).await.unwrap();
    sqlx::raw_sql("begin; lock table projects").execute(&mut lock).await.unwrap();
    let mut asked = JoinSet::new();
    // One after the other, and all at once in the end: each takes a connection of its own.
    for number in 1..=CONNECTIONS {
        let (app, org) = (app.clone(), stage.db.org);
        asked.spawn(async move { app.list_projects(org).await });
        let waiting = format!("count(*) filter (where wait_event_type = 'Lock') = {number}");
        let all_wait = async {
            while !of_the_app(stage, &waiting).await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, all_wait).await.expect("it should wait for the lock");
    }
    sqlx::raw_sql("rollback").execute(&mut lock).await.unwrap();
    assert!(asked.join_all().await.iter().all(Result::is_ok));
    let idle = format!(
        "count(*) >= {CONNECTIONS} and bool_and(state = 'idle')
         and clock_timestamp() - max(state_change) > '1500 ms'"
    );
    let all_idle = async {
        while !of_the_app(stage, &idle).await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, all_idle).await.expect("the connections should become idle");
}

/// More of them than there are connections, so that each has its turn.
async fn the_next_requests_succeed(stage: &Stage, app: &App) {
    for number in 0..16 {
        let key = format!("k{number}");
        let answer = tokio::time::timeout(LONG, restart(stage, app, &key)).await;
        assert!(matches!(answer, Ok(Ok(_))), "request {number}: {answer:?}");
    }
}

#[tokio::test]
async fn f13_a_restarted_database_serves_the_very_next_requests() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    let app = App::connect(&stage.db.urls.app).unwrap();
    idle_connections(&stage, &app).await;
    assert!(of_the_app(&stage, "bool_and(pg_terminate_backend(pid, 30000))").await);
    the_next_requests_succeed(&stage, &app).await;
}

#[tokio::test]
async fn f56_a_database_that_vanished_and_came_back_serves_the_very_next_requests() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    let proxy = PgProxy::start(&stage.db.urls.app).await;
    let app = App::connect(&proxy.url(&stage.db.urls.app)).unwrap();
    idle_connections(&stage, &app).await;
    proxy.strand();
    the_next_requests_succeed(&stage, &app).await;
}

#[tokio::test]
async fn f56_questions_to_a_database_that_vanished_do_not_keep_their_places() {
    let stage = Stage::new().await;
    let proxy = PgProxy::start(&stage.db.urls.worker).await;
    let wait = Duration::from_secs(30);
    let worker = Worker::connect_within(&proxy.url(&stage.db.urls.worker), wait).unwrap();
    // More than there are places.
    let all = || futures::future::join_all((0..40).map(|_| worker.unsealed_events()));
    assert!(all().await.iter().all(Result::is_ok));
    proxy.strand();
    let nobody_waits_for_ever = tokio::time::timeout(Duration::from_millis(300), all()).await;
    assert!(nobody_waits_for_ever.is_err(), "nothing should be answered");
    let answer = worker.unsealed_events().await;
    assert!(answer.is_ok(), "{answer:?}");
}

#[tokio::test]
async fn f14_reports_whose_commit_is_lost_are_told_again_and_written_once() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "shop:1").await.row;
    let proxy = PgProxy::start(&stage.db.urls.worker).await;
    let worker = Worker::connect_within(&proxy.url(&stage.db.urls.worker), LONG).unwrap();
    let batch = [converged(&row, 1)];
    proxy.set(Mode::LoseCommit);
    let lost = worker.settle_once(lease, 1, &batch, at(3)).await;
    assert!(lost.is_err(), "{lost:?}");
    assert_eq!(proxy.lost_commits(), 1);
    let before = stage.rows().await;
    worker.settle_once(lease, 1, &batch, at(4)).await.unwrap();
    assert_eq!(stage.grown(&before).await, []);
}

/// F11: whoever wants a transaction goes away while it begins, as the loops of a process do that is told
/// to stop. Were it left open, what others write on that connection would be lost with it.
#[tokio::test]
async fn f11_a_transaction_whose_asker_goes_away_while_it_begins_is_not_left_open() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let proxy = PgProxy::start(&stage.db.urls.worker).await;
    let worker = Worker::connect_within(&proxy.url(&stage.db.urls.worker), LONG).unwrap();
    worker.renew_lease(lease, at(1)).await.unwrap();
    proxy.set(Mode::HoldBegin);
    let begun = tokio::select! {
        answer = worker.settle(lease, &[], at(2)) => panic!("nobody should answer: {answer:?}"),
        begun = stopped_in_transaction(&stage) => begun,
    };
    proxy.set(Mode::Pass);
    // The same connection: Postgres itself ends one that nobody goes on with.
    let is_free = format!("bool_or(pid = {begun} and state = 'idle')");
    let reached = tokio::time::timeout(LONG, async {
        while !of(&stage, "trueup-worker", &is_free).await {
            tokio::task::yield_now().await;
        }
    });
    assert!(reached.await.is_ok(), "what was begun should be ended");
}

/// F49: a holder is stopped in the middle of a transaction, which keeps the row of its lease. Nobody waits
/// for that longer than for the lease itself.
#[tokio::test]
async fn f49_a_holder_that_is_stopped_in_a_transaction_does_not_keep_its_lease() {
    let stage = Stage::new().await;
    let (lease, row) = (stage.lease().await, stage.declare("web", "shop:1").await.row);
    let holder = Worker::connect(&stage.db.urls.worker).unwrap();
    crash::script(|point| if point == "report.recording" { Fate::Stop } else { Fate::GoOn });
    let batch = [converged(&row, 1)];
    let stopped = holder.settle(lease, &batch, at(1));
    tokio::pin!(stopped);
    tokio::select! {
        answer = &mut stopped => panic!("it should be stopped: {answer:?}"),
        _pid = stopped_in_transaction(&stage) => {}
    }
    let next = stage.db.worker.acquire_lease(stage.db.cluster, "two", None, at(11));
    let turn = tokio::time::timeout(LONG, next).await;
    let turn = turn.expect("nobody should wait for who is stopped");
    assert_eq!(turn.unwrap().ours().map(|lease| lease.epoch), Some(lease.epoch + 1));
    crash::end_script();
}

/// Waits until a worker does nothing in the middle of a transaction; answers which process of Postgres.
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
    found.await.expect("it should be in a transaction")
}
