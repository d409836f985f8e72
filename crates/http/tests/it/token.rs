//! Without a good token nothing answers but what is meant for everybody.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::{Method, StatusCode, header};
use trueup_http::document;

use crate::front::{Front, OWNER, WEB};

/// Every route that needs a token, as methods and paths with names in them.
const ROUTES: [(&str, &str); 40] = [
    ("GET", "/v1/projects"),
    ("GET", "/v1/projects/{project}"),
    ("PUT", "/v1/projects/{project}"),
    ("GET", "/v1/services"),
    ("GET", "/v1/projects/{project}/services/{service}"),
    ("PUT", "/v1/projects/{project}/services/{service}"),
    ("DELETE", "/v1/projects/{project}/services/{service}"),
    ("GET", "/v1/projects/{project}/services/{service}/watch"),
    ("POST", "/v1/projects/{project}/services/{service}/pause"),
    ("POST", "/v1/projects/{project}/services/{service}/resume"),
    ("POST", "/v1/projects/{project}/services/{service}/restart"),
    ("POST", "/v1/projects/{project}/services/{service}/scale"),
    ("POST", "/v1/projects/{project}/services/{service}/resize"),
    ("POST", "/v1/projects/{project}/services/{service}/rollback"),
    ("GET", "/v1/projects/{project}/services/{service}/releases"),
    ("GET", "/v1/plans"),
    ("PUT", "/v1/plans/{plan}"),
    ("GET", "/v1/quota"),
    ("PUT", "/v1/quota"),
    ("GET", "/v1/events"),
    ("GET", "/v1/templates"),
    ("GET", "/v1/clusters"),
    ("GET", "/v1/projects/{project}/variables"),
    ("PUT", "/v1/projects/{project}/variables/{name}"),
    ("DELETE", "/v1/projects/{project}/variables/{name}"),
    ("GET", "/v1/projects/{project}/services/{service}/variables"),
    ("PUT", "/v1/projects/{project}/services/{service}/variables/{name}"),
    ("DELETE", "/v1/projects/{project}/services/{service}/variables/{name}"),
    ("GET", "/v1/projects/{project}/secrets"),
    ("PUT", "/v1/projects/{project}/secrets/{name}"),
    ("DELETE", "/v1/projects/{project}/secrets/{name}"),
    ("GET", "/v1/projects/{project}/services/{service}/secrets"),
    ("PUT", "/v1/projects/{project}/services/{service}/secrets/{name}"),
    ("DELETE", "/v1/projects/{project}/services/{service}/secrets/{name}"),
    ("GET", "/v1/projects/{project}/volumes"),
    ("GET", "/v1/clusters/{cluster}"),
    ("GET", "/v1/projects/{project}/endpoints"),
    ("PUT", "/v1/projects/{project}/services/{service}/endpoints/{name}"),
    ("DELETE", "/v1/projects/{project}/services/{service}/endpoints/{name}"),
    ("GET", "/metrics"),
];

#[test]
fn the_list_above_is_complete() {
    let document = document();
    let described: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(move |method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    let tried: BTreeSet<(String, String)> = ROUTES
        .iter()
        .filter(|(_, path)| *path != "/metrics")
        .map(|(method, path)| ((*method).to_owned(), (*path).to_owned()))
        .collect();
    assert_eq!(described, tried);
}

#[tokio::test]
async fn no_route_answers_without_exactly_one_good_token() {
    let front = Front::with_web().await;
    let before = front.rows().await;
    let good = format!("Bearer {OWNER}");
    let bad: [&[&str]; 12] = [
        &[],
        &[""],
        &["Bearer"],
        &["Bearer "],
        &["Bearer nothing"],
        &["Bearer the-owner extra"],
        &["Bearer  the-owner"],
        &["Bearer the-ownér"],
        &["Basic dGhlLW93bmVyOg=="],
        &["the-owner"],
        &[good.as_str(), good.as_str()],
        &[good.as_str(), "Bearer nothing"],
    ];
    for (method, path) in ROUTES {
        let path = path.replace("{project}", "shop").replace("{service}", "web");
        for headers in bad {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let mut ask = front.ask(method, &path).without(header::AUTHORIZATION).body("nonsense");
            for value in headers {
                ask = ask.header("authorization", value);
            }
            let reply = ask.send().await;
            reply.must_be(401, "TU1001");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{path} {headers:?}");
        }
    }
    assert_eq!(front.rows().await, before);
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
