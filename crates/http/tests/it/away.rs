//! The database away: the process says so, quickly enough to be asked again, and lives.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use futures::future::join_all;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::task::JoinSet;
use trueup_http::router;
use trueup_model::principal::Role;
use trueup_store::App;
use trueup_testkit::manual_clock::ManualClock;

use crate::front::{Ask, Front, OPERATOR, OWNER, PATIENCE, Reply, STRANGER, app_state};
use crate::recipe::{operations, stage};

/// The only operations that read nothing but tokens.
const OF_TOKENS: [&str; 2] = ["whoami", "token_list"];

fn must_say_when_to_come_back(told: &str, reply: &Reply) {
    assert_eq!(reply.status, 503, "{told}: {}", reply.text());
    let problem = reply.must_be(503, "TU2001");
    assert_eq!(reply.header("retry-after"), Some("5"), "{told}");
    assert!(problem["detail"].as_str().unwrap().contains("nothing was recorded"), "{told}");
}

#[tokio::test]
async fn f13_without_a_database_every_operation_answers_503_and_says_when_to_come_back() {
    // A port that was free a moment ago and has nobody behind it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://app:x@127.0.0.1:{port}/none");
    let app = App::connect_within(&url, Duration::from_millis(50)).unwrap();
    let router = router(app_state(app, &ManualClock::new()));
    let ask = |method: Method, path: &str| Ask::new(router.clone(), method, path).token(OWNER);

    let mut asks: Vec<(String, Ask)> = operations()
        .iter()
        .map(|operation| {
            let path: Vec<&str> = operation
                .path
                .split('/')
                .map(|part| if part.starts_with('{') { "web" } else { part })
                .collect();
            let ask = ask(operation.method.clone(), &path.join("/"));
            let body = operation.recipe.body;
            let ask = body.iter().fold(ask, |ask, body| ask.json(&body()));
            (operation.recipe.operation.to_owned(), ask)
        })
        .collect();
    assert!(asks.len() > 60, "{} operations", asks.len());
    for path in ["/readyz", "/metrics"] {
        asks.push((path.to_owned(), ask(Method::GET, path)));
    }
    let sent = asks.into_iter().map(|(told, ask)| async { (told, ask.send().await) });
    for (told, reply) in join_all(sent).await {
        must_say_when_to_come_back(&told, &reply);
    }
    for path in ["/healthz", "/openapi.json", "/docs/errors/TU2001"] {
        assert_eq!(ask(Method::GET, path).send().await.status, StatusCode::OK, "{path}");
    }
    // Who sends no token at all is told so even now.
    let nobody = Ask::new(router.clone(), Method::GET, "/v1/projects").send().await;
    nobody.must_be(401, "TU1001");
}

/// F13: the database goes away in the middle of every operation, when the caller's token is known to be
/// good and the operation itself waits for an answer.
#[tokio::test]
async fn f13_an_operation_that_loses_its_connection_answers_503_and_records_nothing() {
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
    let mut asked = JoinSet::new();
    for operation in operations() {
        let token = if operation.recipe.least == Role::Operator { OPERATOR } else { OWNER };
        let ask = operation.ask(&front, token, &operation.address(&things));
        asked.spawn(async move { (operation.recipe.operation, ask.send().await) });
    }
    let answered = tokio::time::timeout(PATIENCE, async {
        let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock'";
        // Only who has the same role sees what the app waits for, and may end it.
        let mut own = PgConnection::connect(&front.db.urls.app).await.unwrap();
        let mut replies = Vec::new();
        while !asked.is_empty() {
            sqlx::query(cut).execute(&mut own).await.unwrap();
            while let Some(reply) = asked.try_join_next() {
                replies.push(reply.unwrap());
            }
        }
        replies
    });
    let replies = answered.await.expect("every operation should be answered");
    sqlx::raw_sql("rollback").execute(&mut lock).await.unwrap();
    for (told, reply) in replies {
        // Those may be answered before somebody else's write of a token waits, and after it.
        if !(OF_TOKENS.contains(&told) && reply.status == 200) {
            must_say_when_to_come_back(told, &reply);
        }
    }
    assert_eq!(front.stored(None).await, before);
}

/// F17: everybody waits for the database, and no connection is left. Whoever comes now is told in time,
/// the loops have connections of their own, and what waited is answered when it can be.
#[tokio::test]
async fn f17_with_every_connection_taken_requests_end_in_time_and_loops_go_on() {
    let front = Front::new().await;
    let routes = router(app_state(App::connect(&front.db.urls.app).unwrap(), &front.clock));
    let ask = |path: &str, token: &str| Ask::new(routes.clone(), Method::GET, path).token(token);
    let mut lock = front.owner.acquire().await.unwrap();
    sqlx::raw_sql("begin; lock table projects").execute(&mut *lock).await.unwrap();
    let mut stuck = JoinSet::new();
    let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'
        and datname = current_database() and application_name = 'trueup-app'";
    let mut own = PgConnection::connect(&front.db.urls.app).await.unwrap();
    // One after the other: each has three seconds to get its connection, however busy the machine is.
    for number in 1..=16_i64 {
        let token = if number <= 10 { OWNER } else { STRANGER };
        stuck.spawn(ask("/v1/projects", token).send());
        let taken = tokio::time::timeout(PATIENCE, async {
            while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut own).await.unwrap() < number
            {
                tokio::task::yield_now().await;
            }
        });
        taken.await.expect("every connection should be taken");
    }

    let (refused, unready) =
        tokio::join!(ask("/v1/projects", OWNER).send(), ask("/readyz", OWNER).send());
    refused.must_be(503, "TU2001");
    unready.must_be(503, "TU2001");
    assert_eq!(ask("/healthz", OWNER).send().await.status, StatusCode::OK);
    front.db.worker.count_wakes().await.expect("the loops should go on");

    sqlx::raw_sql("rollback").execute(&mut *lock).await.unwrap();
    for reply in stuck.join_all().await {
        assert_eq!(reply.status, StatusCode::OK);
    }
    assert_eq!(ask("/readyz", OWNER).send().await.status, StatusCode::OK);
}
