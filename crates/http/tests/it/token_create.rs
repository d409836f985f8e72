//! Making and revoking tokens, and making orgs: what is shown once, and what is never given away.

use std::time::Duration;

use axum::http::{StatusCode, header};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::front::{Ask, DEVELOPER, Front, OPERATOR, OWNER, PATIENCE, STRANGER, VIEWER, WEB};

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

    // It is narrowed below its role, and it ends.
    assert_eq!(front.get(WEB).token(secret).send().await.status, 200);
    front.delete(WEB).token(secret).send().await.must_be(403, "TU1002");
    front.clock.advance(Duration::from_secs(2 * 86_400 - 1));
    assert_eq!(front.get(WEB).token(secret).send().await.status, 200);
    front.clock.advance(Duration::from_secs(1));
    front.get(WEB).token(secret).send().await.must_be(401, "TU1001");
}

/// S08: a token in a path or a query is refused, whether it is good or not.
#[tokio::test]
async fn s08_a_token_in_an_address_is_refused() {
    let front = Front::with_web().await;
    let secret = front.new_id(&token("ci", "owner")).await;
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
        for ask in [front.get(&address), front.get(&address).without(header::AUTHORIZATION)] {
            let reply = ask.send().await;
            let problem = reply.must_be(400, "TU1004");
            assert!(problem["detail"].as_str().unwrap().contains("revoke"));
            assert!(!reply.text().contains(&secret), "{address}");
        }
    }
    assert_eq!(front.stored(None).await, before);
}

/// S13: nobody gets more by making a token.
#[tokio::test]
async fn s13_a_token_never_makes_more_than_it_has() {
    let front = Front::with_web().await;
    let narrow = json!({"name": "n", "role": "owner", "permissions": ["read", "manage_tokens"], "expires_in_days": 3});
    let narrow = front.new_id(&narrow).await;
    let ask = |maker: &str, body: Value| front.post(TOKENS).token(maker).json(&body).send();
    for maker in [VIEWER, DEVELOPER] {
        ask(maker, token("x", "viewer")).await.must_be(403, "TU1002");
    }
    let before = front.stored(None).await;
    ask(OWNER, token("x", "operator")).await.must_be(403, "TU1002");
    for body in [
        token("x", "owner"),
        token("x", "developer"),
        json!({"name": "x", "role": "owner", "permissions": ["manage_projects"]}),
        json!({"name": "x", "role": "viewer", "expires_in_days": 4}),
        json!({"name": "x", "role": "viewer", "expires_at": "2099-01-01T00:00:00Z"}),
    ] {
        let reply = ask(&narrow, body.clone()).await;
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
        let problem = ask(OWNER, body).await.must_be(422, "TU1201");
        assert_eq!(problem["errors"][0]["field"], field);
    }
    assert_eq!(front.stored(None).await, before);
    // What it may make ends with it.
    let made = ask(&narrow, token("x", "viewer")).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let own = front.get("/v1/whoami").token(&narrow).send().await.json();
    assert_eq!(made.json()["expires_at"], own["expires_at"]);
}

#[tokio::test]
async fn operators_make_operators_only_when_they_say_so() {
    let front = Front::with_web().await;
    let ask = |org: Option<&str>, role: &str| {
        let ask = front.post(TOKENS).token(OPERATOR).json(&token("second", role));
        match org {
            Some(org) => ask.header("trueup-org", org),
            None => ask,
        }
    };
    ask(Some("acme"), "operator").send().await.must_be(400, "TU1103");
    ask(None, "owner").send().await.must_be(400, "TU1103");
    let made = ask(None, "operator").send().await;
    assert_eq!(made.status, 201, "{}", made.text());
    let second = made.json()["secret"].as_str().unwrap().to_owned();
    assert_eq!(front.get("/v1/orgs").token(&second).send().await.status, 200);
    // Operators' tokens are listed to operators and to nobody else.
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
    // The platform's facts are events that operators read.
    front.seal().await;
    let events =
        front.get("/v1/events").token(OPERATOR).header("trueup-org", "trueup").send().await;
    let kinds: Vec<Value> =
        events.json()["items"].as_array().unwrap().iter().map(|one| one["type"].clone()).collect();
    assert_eq!(kinds, ["dev.trueup.TokenCreated.v1", "dev.trueup.TokenRevoked.v1"]);
    assert!(!front.get("/v1/events").send().await.text().contains("second"));
}

#[tokio::test]
async fn the_last_owner_stays() {
    let front = Front::with_web().await;
    let own = format!("/v1/tokens/{OWNER}");
    let problem = front.delete(&own).send().await.must_be(409, "TU1005");
    assert!(problem["detail"].as_str().unwrap().contains("trueup token create"));
    let second = front.new_id(&token("second", "owner")).await;
    front.post(TOKENS).json(&token("second", "viewer")).send().await.must_be(409, "TU1006");
    assert_eq!(front.delete(&own).token(&second).send().await.status, 200);
    front.get(WEB).send().await.must_be(401, "TU1001");
    front.delete("/v1/tokens/second").token(&second).send().await.must_be(409, "TU1005");
    // An operator may: it can let somebody in again.
    let ask = front.delete("/v1/tokens/second").token(OPERATOR).header("trueup-org", "acme");
    assert_eq!(ask.send().await.status, 200);
    front
        .delete("/v1/tokens/second")
        .token(OPERATOR)
        .header("trueup-org", "acme")
        .send()
        .await
        .must_be(404, "TU1003");
}

/// S51: a stream ends at its next look when its token is revoked.
#[tokio::test]
async fn s51_a_stream_ends_when_its_token_is_revoked() {
    let front = Front::with_web().await;
    front.seal().await;
    let secret = front.new_id(&token("watcher", "viewer")).await;
    let (status, _, body) = front.get(&format!("{WEB}/watch")).token(&secret).open().await;
    assert_eq!(status, 200);
    let mut chunks = body.into_data_stream();
    let mut next = async || {
        tokio::time::timeout(PATIENCE, chunks.next()).await.expect("the stream should go on or end")
    };
    assert!(next().await.is_some(), "what happened before should be told");
    assert_eq!(front.delete("/v1/tokens/watcher").send().await.status, 200);
    front.declare("nginx:2").await;
    front.seal().await;
    assert!(next().await.is_none(), "a revoked token was told more");
}

#[tokio::test]
async fn an_operator_makes_an_org_and_its_owner_enters() {
    let front = Front::with_web().await;
    for caller in [VIEWER, DEVELOPER, OWNER, STRANGER] {
        let ask = front.post("/v1/orgs").token(caller).json(&json!({"name": "fresh"}));
        ask.send().await.must_be(403, "TU1002");
    }
    let ask = |name: &str| front.post("/v1/orgs").token(OPERATOR).json(&json!({"name": name}));
    let made = ask("fresh").send().await;
    assert_eq!(made.status, 201, "{}", made.text());
    let owner = made.json()["owner"]["secret"].as_str().unwrap().to_owned();
    ask("fresh").send().await.must_be(409, "TU1006");
    ask("trueup").send().await.must_be(422, "TU1201");
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
async fn whoami_says_what_a_token_may_do() {
    let front = Front::new().await;
    let who = |ask: Ask| async move { ask.send().await.json() };
    let viewer = who(front.get("/v1/whoami").token(VIEWER)).await;
    assert_eq!(viewer["permissions"], json!(["read"]));
    assert_eq!(viewer["org"]["name"], "acme");
    let operator = who(front.get("/v1/whoami").token(OPERATOR)).await;
    assert_eq!((&operator["role"], &operator["org"]), (&json!("operator"), &Value::Null));
    let there = who(front.get("/v1/whoami").token(OPERATOR).header("trueup-org", "other")).await;
    assert_eq!(there["org"]["name"], "other");
}

#[tokio::test]
async fn the_last_use_is_noted_once_an_hour() {
    let front = Front::new().await;
    let secret = front.new_id(&token("ci", "viewer")).await;
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

/// A repeat is known again, and the secret is not told twice.
#[tokio::test]
async fn a_repeat_makes_nothing_new_and_shows_no_secret() {
    let front = Front::with_web().await;
    let org = json!({"name": "fresh"});
    let calls = [(TOKENS, OWNER, token("ci", "viewer")), ("/v1/orgs", OPERATOR, org)];
    for (path, caller, body) in calls {
        let ask = |body: &Value| {
            front.post(path).token(caller).header("idempotency-key", "k1").json(body).send()
        };
        let first = ask(&body).await;
        assert_eq!(first.status, 201, "{}", first.text());
        assert!(first.text().contains("\"secret\":\"tu_"));
        let before = front.stored(None).await;
        let again = ask(&body).await;
        assert_eq!(again.status, 200, "{}", again.text());
        assert_eq!(again.json()["id"], first.json()["id"]);
        assert!(!again.text().contains("\"secret\""), "{}", again.text());
        ask(&json!({"name": "other", "role": "viewer"})).await;
        assert_eq!(front.stored(None).await, before);
    }
}
