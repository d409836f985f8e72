//! Without a good token nothing answers but what is meant for everybody.

use std::time::Duration;

use axum::http::{StatusCode, header};

use crate::front::{Front, OWNER, WEB};

#[tokio::test]
async fn the_counters_need_a_token_too() {
    let front = Front::new().await;
    front.get("/metrics").without(header::AUTHORIZATION).send().await.must_be(401, "TU1001");
    front.get("/metrics").token("nothing").send().await.must_be(401, "TU1001");
}

#[tokio::test]
async fn the_scheme_may_be_written_small() {
    let front = Front::new().await;
    let ask = front.get("/v1/projects").without(header::AUTHORIZATION);
    let reply = ask.header("authorization", &format!("bearer {OWNER}")).send().await;
    assert_eq!(reply.status, StatusCode::OK);
}

#[tokio::test]
async fn a_token_ends_when_it_expires_and_when_it_is_taken_away() {
    let front = Front::with_web().await;
    sqlx::query("update tokens set expires_at = to_timestamp(1800000010)")
        .execute(&front.owner)
        .await
        .unwrap();
    front.clock.advance(Duration::from_secs(9));
    assert_eq!(front.get(WEB).send().await.status, StatusCode::OK);
    front.clock.advance(Duration::from_secs(1));
    front.get(WEB).send().await.must_be(401, "TU1001");

    let front = Front::with_web().await;
    front.revoke(OWNER).await;
    front.get(WEB).send().await.must_be(401, "TU1001");
}

#[tokio::test]
async fn what_is_meant_for_everybody_needs_no_token_and_tells_nothing_of_anybody() {
    let front = Front::with_web().await;
    let pages = ["/healthz", "/readyz", "/openapi.json", "/docs/errors/TU1001"];
    for path in pages {
        let reply = front.get(path).without(header::AUTHORIZATION).send().await;
        assert_eq!(reply.status, StatusCode::OK, "{path}");
        for secret in ["shop", "acme", "svc_", OWNER] {
            assert!(!reply.text().contains(&format!("\"{secret}")), "{path} tells {secret}");
        }
    }
    for path in ["/docs/errors/TU0000", "/docs/errors/..%2f..%2fCargo.toml", "/nothing", "/"] {
        front.get(path).without(header::AUTHORIZATION).send().await.must_be(404, "TU1003");
    }
}

#[tokio::test]
async fn a_trace_is_taken_over_or_made_and_given_back() {
    let front = Front::new().await;
    let given = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{given}-b7ad6b7169203331-01");
    let reply = front.get("/v1/projects").header("traceparent", &parent).send().await;
    assert_eq!(reply.header("trueup-trace"), Some(given));
    let first = front.get("/v1/projects").send().await;
    let second = front.get("/v1/projects").send().await;
    assert_ne!(first.header("trueup-trace"), second.header("trueup-trace"));
}
