//! The database is unavailable: requests get 503 in time, and the process survives.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use futures::future::join_all;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::task::JoinSet;
use trueup_http::router;
use trueup_store::{APP_CONNECTIONS, App, Error};
use trueup_testkit::manual_clock::ManualClock;

use crate::front::{Front, OWNER, PATIENCE, Reply, TestRequest, app_state};
use crate::recipe::{operations, stage};

/// The only operations that read nothing but tokens.
const OF_TOKENS: [&str; 3] = ["whoami", "token_list", "access_check"];

fn must_be_unavailable(name: &str, reply: &Reply) {
    assert_eq!(reply.status, 503, "{name}: {}", reply.text());
    let problem = reply.must_be(503, "TU2001");
    assert_eq!(reply.header("retry-after"), Some("5"), "{name}");
    assert!(problem["detail"].as_str().unwrap().contains("nothing was saved"), "{name}");
}

#[tokio::test]
async fn f13_unreachable_database_every_operation_returns_503_with_retry_after() {
    // A port that was just free: nothing listens on it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://app:x@127.0.0.1:{port}/none");
    let app = App::connect_within(&url, Duration::from_millis(50)).unwrap();
    let router = router(app_state(app, &ManualClock::new()));
    let request =
        |method: Method, path: &str| TestRequest::new(router.clone(), method, path).token(OWNER);

    let mut requests: Vec<(String, TestRequest)> = operations()
        .iter()
        .map(|operation| {
            let path: Vec<&str> = operation
                .path
                .split('/')
                .map(|part| if part.starts_with('{') { "web" } else { part })
                .collect();
            let request = request(operation.method.clone(), &path.join("/"));
            let body = operation.recipe.body;
            let request = body.iter().fold(request, |request, body| request.json(&body()));
            (operation.recipe.operation.to_owned(), request)
        })
        .collect();
    assert!(requests.len() > 60, "{} operations", requests.len());
    for path in ["/readyz", "/metrics"] {
        requests.push((path.to_owned(), request(Method::GET, path)));
    }
    let sent = requests.into_iter().map(|(name, request)| async { (name, request.send().await) });
    for (name, reply) in join_all(sent).await {
        must_be_unavailable(&name, &reply);
    }
    for path in ["/healthz", "/openapi.json", "/docs/errors/TU2001"] {
        assert_eq!(request(Method::GET, path).send().await.status, StatusCode::OK, "{path}");
    }
    // A request without a token still gets 401.
    let anonymous = TestRequest::new(router.clone(), Method::GET, "/v1/projects").send().await;
    anonymous.must_be(401, "TU1001");
}

/// F13: every operation loses its connection after its token was authenticated.
#[tokio::test]
async fn f13_lost_connection_returns_503_and_saves_nothing() {
    let (front, things) = stage().await;
    let before = front.stored(None).await;
    let mut lock = PgConnection::connect(&front.db.urls.owner).await.unwrap();
    let tables: Vec<String> = sqlx::query_scalar(
        "select tablename::text from pg_tables
         where schemaname = 'public' and tablename not in ('tokens', '_sqlx_migrations')",
    )
    .fetch_all(&mut lock)
    .await
    .unwrap();
    let statement = format!("begin; lock table {} in access exclusive mode", tables.join(", "));
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut lock).await.unwrap();
    let mut sent = JoinSet::new();
    for operation in operations() {
        let token = operation.recipe.caller();
        let request = operation.request(&front, token, &operation.address(&things));
        sent.spawn(async move { (operation.recipe.operation, request.send().await) });
    }
    let answered = tokio::time::timeout(PATIENCE, async {
        let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock'";
        // Only the same role sees what the app waits for, and may terminate it.
        let mut own = PgConnection::connect(&front.db.urls.app).await.unwrap();
        let mut replies = Vec::new();
        while !sent.is_empty() {
            sqlx::query(cut).execute(&mut own).await.unwrap();
            while let Some(reply) = sent.try_join_next() {
                replies.push(reply.unwrap());
            }
        }
        replies
    });
    let replies = answered.await.expect("every operation should be answered");
    sqlx::raw_sql("rollback").execute(&mut lock).await.unwrap();
    for (name, reply) in replies {
        // These may succeed if no write of a token is waiting.
        if !(OF_TOKENS.contains(&name) && reply.status == 200) {
            must_be_unavailable(name, &reply);
        }
    }
    assert_eq!(front.stored(None).await, before);
}

/// F17: all connections are in use. New requests get 503 in time, the loops have their own
/// connections, and waiting requests are answered once they can be.
#[tokio::test]
async fn f17_exhausted_pool_requests_time_out_and_loops_continue() {
    let front = Front::new().await;
    let app = App::connect(&front.db.urls.app).unwrap();
    let routes = router(app_state(app.clone(), &front.clock));
    let request =
        |path: &str, token: &str| TestRequest::new(routes.clone(), Method::GET, path).token(token);
    let mut lock = front.owner.acquire().await.unwrap();
    let stuck = take_every_connection(&front, &app, &mut lock).await;

    let (refused, unready) =
        tokio::join!(request("/v1/projects", OWNER).send(), request("/readyz", OWNER).send());
    refused.must_be(503, "TU2001");
    unready.must_be(503, "TU2001");
    assert_eq!(request("/healthz", OWNER).send().await.status, StatusCode::OK);
    front.db.worker.unsealed_events().await.expect("the loops should continue");

    sqlx::raw_sql("rollback").execute(&mut *lock).await.unwrap();
    for rows in stuck.join_all().await {
        assert_eq!(rows.unwrap(), 1);
    }
    assert_eq!(request("/v1/projects", OWNER).send().await.status, StatusCode::OK);
    assert_eq!(request("/readyz", OWNER).send().await.status, StatusCode::OK);
}

/// Lets every connection of this app hang, until the lock is rolled back: what has no caller takes
/// connections without a limit of its own.
pub(crate) async fn take_every_connection(
    front: &Front,
    app: &App,
    lock: &mut PgConnection,
) -> JoinSet<Result<usize, Error>> {
    sqlx::raw_sql("begin; lock table projects").execute(lock).await.unwrap();
    let mut stuck = JoinSet::new();
    let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'
        and datname = current_database() and application_name = 'trueup-app'";
    let mut own = PgConnection::connect(&front.db.urls.app).await.unwrap();
    // One after the other: each has three seconds to get its connection, even on a busy machine.
    for number in 1..=APP_CONNECTIONS {
        let (app, org) = (app.clone(), front.db.org);
        stuck.spawn(async move { app.list_projects(org).await.map(|rows| rows.len()) });
        let number = i64::try_from(number).unwrap();
        let taken = tokio::time::timeout(PATIENCE, async {
            while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut own).await.unwrap() < number
            {
                tokio::task::yield_now().await;
            }
        });
        taken.await.expect("every connection should be in use");
    }
    stuck
}
