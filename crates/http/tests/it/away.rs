//! The database away: the process says so, quickly enough to be asked again, and lives.

use axum::http::{Method, StatusCode};
use futures::future::join_all;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use trueup_http::router;
use trueup_store::App;
use trueup_testkit::manual_clock::ManualClock;

use crate::front::{Ask, Front, OWNER, PATIENCE, STRANGER, door, web};

#[tokio::test]
async fn everything_that_needs_the_database_answers_503_and_says_when_to_come_back() {
    // A port that was free a moment ago and has nobody behind it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let app = App::connect(&format!("postgres://app:x@127.0.0.1:{port}/none")).unwrap();
    let router = router(door(app, &ManualClock::new()));
    let ask = |method: Method, path: &str| Ask::new(router.clone(), method, path).token(OWNER);

    let service = "/v1/projects/shop/services/web";
    let asks = [
        ask(Method::GET, "/readyz"),
        ask(Method::GET, "/metrics"),
        ask(Method::GET, "/v1/projects"),
        ask(Method::GET, service),
        ask(Method::GET, "/v1/projects/shop/services/web/watch"),
        ask(Method::GET, "/v1/events"),
        ask(Method::PUT, "/v1/projects/shop"),
        ask(Method::PUT, service).json(&web("nginx:1")),
        ask(Method::DELETE, service),
    ];
    for reply in join_all(asks.map(Ask::send)).await {
        let problem = reply.must_be(503, "TU2001");
        assert_eq!(reply.header("retry-after"), Some("5"));
        assert!(problem["detail"].as_str().unwrap().contains("nothing was recorded"));
    }
    for path in ["/healthz", "/openapi.json", "/docs/errors/TU2001"] {
        assert_eq!(ask(Method::GET, path).send().await.status, StatusCode::OK, "{path}");
    }
    // Who sends no token at all is told so even now.
    let nobody = Ask::new(router.clone(), Method::GET, "/v1/projects").send().await;
    nobody.must_be(401, "TU1001");
}

/// F17: everybody waits for the database, and no connection is left. Whoever comes now is told in time,
/// the loops have connections of their own, and what waited is answered when it can be.
#[tokio::test]
async fn f17_with_every_connection_taken_requests_end_in_time_and_loops_go_on() {
    let front = Front::new().await;
    let routes = router(door(App::connect(&front.db.urls.app).unwrap(), &front.clock));
    let ask = |path: &str, token: &str| Ask::new(routes.clone(), Method::GET, path).token(token);
    let mut lock = front.owner.acquire().await.unwrap();
    sqlx::raw_sql("begin; lock table projects").execute(&mut *lock).await.unwrap();
    let mut stuck = JoinSet::new();
    for (token, count) in [(OWNER, 10), (STRANGER, 6)] {
        for _ in 0..count {
            stuck.spawn(ask("/v1/projects", token).send());
        }
    }
    let all_wait = "select count(*) = 16 from pg_stat_activity where wait_event_type = 'Lock'
        and datname = current_database() and application_name = 'trueup-app'";
    let taken = tokio::time::timeout(PATIENCE, async {
        let mut own = PgConnection::connect(&front.db.urls.app).await.unwrap();
        while !sqlx::query_scalar::<_, bool>(all_wait).fetch_one(&mut own).await.unwrap() {
            tokio::task::yield_now().await;
        }
    });
    taken.await.expect("every connection should be taken");

    ask("/v1/projects", OWNER).send().await.must_be(503, "TU2001");
    ask("/readyz", OWNER).send().await.must_be(503, "TU2001");
    assert_eq!(ask("/healthz", OWNER).send().await.status, StatusCode::OK);
    front.db.worker.count_wakes().await.expect("the loops should go on");

    sqlx::raw_sql("rollback").execute(&mut *lock).await.unwrap();
    for reply in stuck.join_all().await {
        assert_eq!(reply.status, StatusCode::OK);
    }
    assert_eq!(ask("/readyz", OWNER).send().await.status, StatusCode::OK);
}
