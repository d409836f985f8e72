//! The API for creating and revoking tokens, and for creating orgs.

use std::time::Duration;

use axum::http::{StatusCode, header};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::front::{
    DEVELOPER, Front, OPERATOR, OWNER, PATIENCE, STRANGER, TestRequest, VIEWER, WEB,
};

const TOKENS: &str = "/v1/tokens";

fn token(name: &str, role: &str) -> Value {
    json!({"name": name, "role": role})
}

/// S08: shown once, stored hashed, scoped, expiring.
#[tokio::test]
async fn s08_a_token_is_shown_once_and_stored_as_a_hash() {
    let front = Front::with_web().await;
    let wanted =
        json!({"name": "ci", "role": "developer", "permissions": ["read"], "expires_in_days": 2});
    let reply = front.post(TOKENS).json(&wanted).send().await;
    assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text());
    let made = reply.json();
    let secret = made["secret"].as_str().unwrap();
    let tail = made["id"].as_str().unwrap().strip_prefix("tok_").unwrap();
    assert!(secret.starts_with(&format!("tu_{tail}_")) && secret.len() == 82, "{made}");
    assert_eq!(made["permissions"], json!(["read"]));

    let listed = front.get(TOKENS).send().await;
    assert!(listed.text().contains("\"ci\"") && !listed.text().contains("\"secret\""));
    let stored = format!("{:?}", front.stored(None).await);
    assert!(stored.contains("TokenCreated") && stored.contains(tail), "it should be stored");
    assert!(!stored.contains(&secret[30..]), "the secret is stored");

    // It has fewer permissions than its role, and it expires.
    assert_eq!(front.get(WEB).token(secret).send().await.status, 200);
    front.delete(WEB).token(secret).send().await.must_be(403, "TU1002");
    front.clock.advance(Duration::from_secs(2 * 86_400 - 1));
    assert_eq!(front.get(WEB).token(secret).send().await.status, 200);
    front.clock.advance(Duration::from_secs(1));
    front.get(WEB).token(secret).send().await.must_be(401, "TU1001");
}

/// S08: a token in a path or a query is refused, whether it is valid or not.
#[tokio::test]
async fn s08_token_in_a_url_is_refused() {
    let front = Front::with_web().await;
    let secret = front.create_token(&token("ci", "owner")).await;
    let before = front.stored(None).await;
    for address in [
        format!("/v1/services?token={secret}"),
        format!("/v1/services?access_token={secret}"),
        "/v1/services?token=x".to_owned(),
        "/v1/services?Authorization=Bearer%20x".to_owned(),
        format!("/v1/services?project={secret}"),
        format!("/v1/projects/{secret}"),
        format!("/v1/tokens/{secret}"),
        format!("/{secret}"),
    ] {
        for request in [front.get(&address), front.get(&address).without(header::AUTHORIZATION)] {
            let reply = request.send().await;
            let problem = reply.must_be(400, "TU1004");
            assert!(problem["detail"].as_str().unwrap().contains("revoke"));
            assert!(!reply.text().contains(&secret), "{address}");
        }
    }
    assert_eq!(front.stored(None).await, before);
}

/// S13: creating a token does not escalate permissions.
#[tokio::test]
async fn s13_token_cannot_create_one_with_more_permissions() {
    let front = Front::with_web().await;
    let narrow = json!({"name": "n", "role": "owner", "permissions": ["read", "read_content", "manage_tokens"], "expires_in_days": 3});
    let narrow = front.create_token(&narrow).await;
    let request = |maker: &str, body: Value| front.post(TOKENS).token(maker).json(&body).send();
    for maker in [VIEWER, DEVELOPER] {
        request(maker, token("x", "viewer")).await.must_be(403, "TU1002");
    }
    let before = front.stored(None).await;
    request(OWNER, token("x", "operator")).await.must_be(403, "TU1002");
    for body in [
        token("x", "owner"),
        token("x", "developer"),
        json!({"name": "x", "role": "owner", "permissions": ["manage_projects"]}),
        json!({"name": "x", "role": "viewer", "expires_in_days": 4}),
        json!({"name": "x", "role": "viewer", "expires_at": "2099-01-01T00:00:00Z"}),
    ] {
        let reply = request(&narrow, body.clone()).await;
        assert_eq!(reply.status, 403, "{body} {}", reply.text());
    }
    for (body, field) in [
        (json!({"name": "x", "role": "viewer", "permissions": ["manage_services"]}), "permissions"),
        (json!({"name": "x", "role": "viewer", "permissions": ["all"]}), "permissions[0]"),
        (token("x", "root"), "role"),
        (token("", "viewer"), "name"),
        (
            json!({"name": "x", "role": "viewer", "expires_at": "2001-01-01T00:00:00Z"}),
            "expires_at",
        ),
        (json!({"name": "x", "role": "viewer", "expires_in_days": 0}), "expires_in_days"),
    ] {
        let problem = request(OWNER, body).await.must_be(422, "TU1201");
        assert_eq!(problem["errors"][0]["field"], field);
    }
    assert_eq!(front.stored(None).await, before);
    // A token that it creates expires with it.
    let made = request(&narrow, token("x", "viewer")).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let own = front.get("/v1/whoami").token(&narrow).send().await.json();
    assert_eq!(made.json()["expires_at"], own["expires_at"]);
}

#[tokio::test]
async fn operator_token_requires_no_org_header() {
    let front = Front::with_web().await;
    let request = |org: Option<&str>, role: &str| {
        let request = front.post(TOKENS).token(OPERATOR).json(&token("second", role));
        match org {
            Some(org) => request.header("trueup-org", org),
            None => request,
        }
    };
    request(Some("acme"), "operator").send().await.must_be(400, "TU1103");
    request(None, "owner").send().await.must_be(400, "TU1103");
    let made = request(None, "operator").send().await;
    assert_eq!(made.status, 201, "{}", made.text());
    let second = made.json()["secret"].as_str().unwrap().to_owned();
    assert_eq!(front.get("/v1/orgs").token(&second).send().await.status, 200);
    // Operator tokens are listed only for operators.
    let listed = front.get(TOKENS).token(OPERATOR).send().await;
    assert!(listed.text().contains("second"));
    assert!(!front.get(TOKENS).send().await.text().contains("second"));
    let gone = front.delete("/v1/tokens/second").token(OPERATOR).send().await;
    assert_eq!(gone.status, 200);
    front.get("/v1/orgs").token(&second).send().await.must_be(401, "TU1001");
    front
        .delete(&format!("/v1/tokens/{OPERATOR}"))
        .token(OPERATOR)
        .send()
        .await
        .must_be(409, "TU1005");
    // Operators can read the events of the platform.
    front.seal().await;
    let events =
        front.get("/v1/events").token(OPERATOR).header("trueup-org", "trueup").send().await;
    let kinds: Vec<Value> =
        events.json()["items"].as_array().unwrap().iter().map(|one| one["type"].clone()).collect();
    assert_eq!(kinds, ["dev.trueup.TokenCreated.v1", "dev.trueup.TokenRevoked.v1"]);
    assert!(!front.get("/v1/events").send().await.text().contains("second"));
}

#[tokio::test]
async fn last_owner_token_cannot_be_revoked() {
    let front = Front::with_web().await;
    let own = format!("/v1/tokens/{OWNER}");
    let problem = front.delete(&own).send().await.must_be(409, "TU1005");
    assert!(problem["detail"].as_str().unwrap().contains("trueup token create"));
    let second = front.create_token(&token("second", "owner")).await;
    front.post(TOKENS).json(&token("second", "viewer")).send().await.must_be(409, "TU1006");
    assert_eq!(front.delete(&own).token(&second).send().await.status, 200);
    front.get(WEB).send().await.must_be(401, "TU1001");
    front.delete("/v1/tokens/second").token(&second).send().await.must_be(409, "TU1005");
    // An operator may: it can create a new owner token.
    let request = front.delete("/v1/tokens/second").token(OPERATOR).header("trueup-org", "acme");
    assert_eq!(request.send().await.status, 200);
    front
        .delete("/v1/tokens/second")
        .token(OPERATOR)
        .header("trueup-org", "acme")
        .send()
        .await
        .must_be(404, "TU1003");
}

/// S51: a stream ends at the next check after its token is revoked.
#[tokio::test]
async fn s51_a_stream_ends_when_its_token_is_revoked() {
    let front = Front::with_web().await;
    front.seal().await;
    let secret = front.create_token(&token("watcher", "viewer")).await;
    let (status, _, body) = front.get(&format!("{WEB}/watch")).token(&secret).open().await;
    assert_eq!(status, 200);
    let mut chunks = body.into_data_stream();
    let mut next = async || {
        tokio::time::timeout(PATIENCE, chunks.next())
            .await
            .expect("the stream should continue or end")
    };
    assert!(next().await.is_some(), "earlier events should be sent");
    assert_eq!(front.delete("/v1/tokens/watcher").send().await.status, 200);
    front.declare("nginx:2").await;
    front.seal().await;
    assert!(next().await.is_none(), "a revoked token received an event");
}

#[tokio::test]
async fn operator_creates_an_org_and_its_owner_token_works() {
    let front = Front::with_web().await;
    for caller in [VIEWER, DEVELOPER, OWNER, STRANGER] {
        let request = front.post("/v1/orgs").token(caller).json(&json!({"name": "fresh"}));
        request.send().await.must_be(403, "TU1002");
    }
    let request = |name: &str| front.post("/v1/orgs").token(OPERATOR).json(&json!({"name": name}));
    let made = request("fresh").send().await;
    assert_eq!(made.status, 201, "{}", made.text());
    let owner = made.json()["owner"]["secret"].as_str().unwrap().to_owned();
    request("fresh").send().await.must_be(409, "TU1006");
    request("trueup").send().await.must_be(422, "TU1201");
    let who = front.get("/v1/whoami").token(&owner).send().await.json();
    assert_eq!((&who["role"], &who["org"]["name"]), (&json!("owner"), &json!("fresh")));
    assert_eq!(front.put("/v1/projects/shop").token(&owner).send().await.status, 202);
    let services = front.get("/v1/services").token(&owner).send().await.json();
    assert_eq!(services["items"], json!([]));
    front.seal().await;
    let events = front.get("/v1/events").token(&owner).send().await.json();
    let kinds: Vec<&Value> =
        events["items"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert_eq!(
        kinds,
        ["dev.trueup.OrgCreated.v1", "dev.trueup.TokenCreated.v1", "dev.trueup.ProjectQueued.v1"]
    );
    let listed = front.get("/v1/orgs").token(OPERATOR).send().await.json();
    let names: Vec<&Value> =
        listed["items"].as_array().unwrap().iter().map(|org| &org["name"]).collect();
    assert_eq!(names, ["acme", "fresh", "other"]);
}

#[tokio::test]
async fn whoami_returns_permissions_and_org() {
    let front = Front::new().await;
    let who = |request: TestRequest| async move { request.send().await.json() };
    let viewer = who(front.get("/v1/whoami").token(VIEWER)).await;
    assert_eq!(viewer["permissions"], json!(["read", "read_content"]));
    assert_eq!(viewer["org"]["name"], "acme");
    let operator = who(front.get("/v1/whoami").token(OPERATOR)).await;
    assert_eq!((&operator["role"], &operator["org"]), (&json!("operator"), &Value::Null));
    let there = who(front.get("/v1/whoami").token(OPERATOR).header("trueup-org", "other")).await;
    assert_eq!(there["org"]["name"], "other");
}

#[tokio::test]
async fn last_use_is_recorded_once_an_hour() {
    let front = Front::new().await;
    let secret = front.create_token(&token("ci", "viewer")).await;
    let used = async || {
        let listed = front.get(TOKENS).send().await.json();
        let items = listed["items"].as_array().unwrap().clone();
        let ci = items.into_iter().find(|one| one["name"] == "ci").unwrap();
        ci["last_used_at"].clone()
    };
    assert_eq!(used().await, Value::Null);
    front.get("/v1/whoami").token(&secret).send().await;
    let first = used().await;
    assert!(first.is_string());
    front.clock.advance(Duration::from_secs(3599));
    front.get("/v1/whoami").token(&secret).send().await;
    assert_eq!(used().await, first);
    front.clock.advance(Duration::from_secs(2));
    front.get("/v1/whoami").token(&secret).send().await;
    assert_ne!(used().await, first);
}

/// A retry with the same idempotency key does not return the secret again.
#[tokio::test]
async fn retry_with_the_same_key_creates_nothing_and_returns_no_secret() {
    let front = Front::with_web().await;
    let org = json!({"name": "fresh"});
    let calls = [(TOKENS, OWNER, token("ci", "viewer")), ("/v1/orgs", OPERATOR, org)];
    for (path, caller, body) in calls {
        let request = |body: &Value| {
            front.post(path).token(caller).header("idempotency-key", "k1").json(body).send()
        };
        let first = request(&body).await;
        assert_eq!(first.status, 201, "{}", first.text());
        assert!(first.text().contains("\"secret\":\"tu_"));
        let before = front.stored(None).await;
        let again = request(&body).await;
        assert_eq!(again.status, 200, "{}", again.text());
        assert_eq!(again.json()["id"], first.json()["id"]);
        assert!(!again.text().contains("\"secret\""), "{}", again.text());
        request(&json!({"name": "other", "role": "viewer"})).await;
        assert_eq!(front.stored(None).await, before);
    }
}
