//! The database away: the process says so, quickly enough to be asked again, and lives.

use axum::http::{Method, StatusCode};
use futures::future::join_all;
use trueup_http::router;
use trueup_store::App;
use trueup_testkit::manual_clock::ManualClock;

use crate::front::{Ask, OWNER, door, web};

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
