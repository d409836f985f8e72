//! Without a valid token only public pages are served.

use std::time::Duration;

use axum::http::{StatusCode, header};

use crate::front::{Front, OWNER, WEB};

#[tokio::test]
async fn metrics_require_a_token() {
    let front = Front::new().await;
    front.get("/metrics").without(header::AUTHORIZATION).send().await.must_be(401, "TU1001");
    front.get("/metrics").token("nothing").send().await.must_be(401, "TU1001");
}

#[tokio::test]
async fn bearer_scheme_is_case_insensitive() {
    let front = Front::new().await;
    let request = front.get("/v1/projects").without(header::AUTHORIZATION);
    let reply = request.header("authorization", &format!("bearer {OWNER}")).send().await;
    assert_eq!(reply.status, StatusCode::OK);
}

#[tokio::test]
async fn expired_or_revoked_token_returns_401() {
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
async fn public_pages_need_no_token_and_reveal_nothing() {
    let front = Front::with_web().await;
    // Names that no example has.
    assert_eq!(front.put("/v1/projects/hush-hush").send().await.status, StatusCode::ACCEPTED);
    let service = front.get(WEB).send().await.json()["id"].as_str().unwrap().to_owned();
    let pages = ["/healthz", "/readyz", "/openapi.json", "/docs/errors/TU1001"];
    for path in pages {
        let reply = front.get(path).without(header::AUTHORIZATION).send().await;
        assert_eq!(reply.status, StatusCode::OK, "{path}");
        for secret in ["hush-hush", &service, OWNER] {
            assert!(!reply.text().contains(secret), "{path} reveals {secret}");
        }
    }
    for path in ["/docs/errors/TU0000", "/docs/errors/..%2f..%2fCargo.toml", "/nothing"] {
        front.get(path).without(header::AUTHORIZATION).send().await.must_be(404, "TU1003");
    }
    let page = front.get("/").without(header::AUTHORIZATION).send().await;
    assert!(!page.text().contains("hush-hush"), "{}", page.text());
}

#[tokio::test]
async fn trace_id_is_adopted_or_generated_and_returned() {
    let front = Front::new().await;
    let given = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{given}-b7ad6b7169203331-01");
    let reply = front.get("/v1/projects").header("traceparent", &parent).send().await;
    assert_eq!(reply.header("trueup-trace"), Some(given));
    let first = front.get("/v1/projects").send().await;
    let second = front.get("/v1/projects").send().await;
    assert_ne!(first.header("trueup-trace"), second.header("trueup-trace"));
}
