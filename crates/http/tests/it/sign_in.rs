//! Signing in: answers that tell nothing, limits, and cookies.

use std::time::Duration;

use axum::http::{StatusCode, header};
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt;
use trueup_model::principal::Role;
use trueup_testkit::test_db::PASSWORD;

use crate::front::{COOKIE, Front, OPERATOR, OWNER, Reply};
use crate::stranger::{Statements, visible};

const ADA: &str = "ada@example.com";

/// A front with the owner Ada.
async fn front() -> Front {
    let front = Front::new().await;
    front.db.user(ADA, Role::Owner, front.db.org).await;
    front
}

async fn try_it(front: &Front, email: &str, password: &str) -> Reply {
    let body = json!({"email": email, "password": password});
    front.post("/v1/session").without(header::AUTHORIZATION).json(&body).send().await
}

#[tokio::test]
async fn password_opens_a_session_that_says_who_and_where() {
    let front = front().await;
    let reply = try_it(&front, "ADA@example.com", PASSWORD).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let session = reply.json();
    assert!(session["principal"]["id"].as_str().unwrap().starts_with("usr_"), "{session}");
    assert_eq!(session["principal"]["name"], "Ada");
    assert_eq!(session["principal"]["email"], ADA);
    let org = front.db.org.to_string();
    assert_eq!(session["org"], json!({"id": org, "name": "acme"}));
    assert_eq!(session["orgs"], json!([{"id": org, "name": "acme", "role": "owner"}]));
    assert_eq!(session["role"], "owner");
    assert!(session["permissions"].as_array().unwrap().contains(&json!("manage_tokens")));
    // The same from the cookie.
    let again = front.get("/v1/session").cookie(&reply.session()).send().await;
    assert_eq!(again.json(), session);
}

/// S05: no answer and no statement tells whether an address has an account.
#[tokio::test]
async fn s05_every_wrong_sign_in_gets_the_same_answer_for_the_same_work() {
    let log = Statements::default();
    let subscriber = tracing_subscriber::registry().with(log.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    // With a single subscriber, tracing disables a callsite for all threads if another test's
    // thread reaches it first.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let front = front().await;
    let former = front.db.user("former@example.com", Role::Viewer, front.db.org).await;
    sqlx::query("update memberships set removed_at = created_at where user_id = $1")
        .bind(former.uuid())
        .execute(&front.owner)
        .await
        .unwrap();
    let long = "x".repeat(5000);
    log.take();
    let expected = (visible(&try_it(&front, ADA, "wrong").await), log.take());
    assert!(expected.1.len() > 3, "{:?}", expected.1);
    for (email, password) in [
        ("nobody@example.com", PASSWORD),
        ("nobody@example.com", ""),
        (ADA, ""),
        (ADA, &long),
        (ADA, "correct horse battery staple "),
        ("former@example.com", PASSWORD),
        ("not an address", PASSWORD),
        ("ada@example.com\0", PASSWORD),
        ("", PASSWORD),
        ("ada@example.com' or true --", PASSWORD),
    ] {
        let reply = try_it(&front, email, password).await;
        reply.must_be(401, "TU1001");
        assert_eq!(reply.header("set-cookie"), None);
        assert_eq!((visible(&reply), log.take()), expected, "{email:?} {password:.20}");
    }
    // A wrong token as well, but for the statements.
    let body = json!({"token": "tu_nothing"});
    let reply = front.post("/v1/session/token").without(header::AUTHORIZATION).json(&body);
    assert_eq!(visible(&reply.send().await), expected.0);
}

/// S05: brute force, one after the other.
#[tokio::test]
async fn s05_after_ten_failures_an_address_must_wait_and_another_one_need_not() {
    let front = front().await;
    front.db.user("eve@example.com", Role::Viewer, front.db.org).await;
    for _ in 0..10 {
        try_it(&front, ADA, "wrong").await.must_be(401, "TU1001");
    }
    let refused = try_it(&front, ADA, PASSWORD).await;
    refused.must_be(429, "TU1011");
    assert_eq!(refused.header("retry-after"), Some("900"));
    // Unknown addresses are limited alike, so the limit tells nothing either.
    for _ in 0..10 {
        try_it(&front, "nobody@example.com", "wrong").await.must_be(401, "TU1001");
    }
    let unknown = try_it(&front, "nobody@example.com", "wrong").await;
    assert_eq!(visible(&unknown), visible(&refused));
    assert_eq!(try_it(&front, "eve@example.com", PASSWORD).await.status, 200);
    front.clock.advance(Duration::from_secs(15 * 60));
    assert_eq!(try_it(&front, ADA, PASSWORD).await.status, 200);
    // A success sets the count back.
    for _ in 0..10 {
        try_it(&front, ADA, "wrong").await.must_be(401, "TU1001");
    }
    try_it(&front, ADA, PASSWORD).await.must_be(429, "TU1011");
}

/// S05: guesses in parallel do not pass the limit together.
#[tokio::test]
async fn s05_parallel_guesses_are_counted_before_they_are_checked() {
    let front = front().await;
    let guesses = (0..30).map(|_| try_it(&front, ADA, "wrong"));
    let replies = futures::future::join_all(guesses).await;
    let tried = replies.iter().filter(|reply| reply.status == 401).count();
    assert_eq!(tried, 10, "of thirty");
    let others = replies.iter().filter(|reply| reply.status == 429).count();
    assert_eq!(tried + others, 30);
}

/// S06: a secret that somebody planted is never adopted, and the former session ends.
#[tokio::test]
async fn s06_each_sign_in_has_a_new_secret_and_ends_the_former_session() {
    let front = front().await;
    let planted = "tu_session_planted";
    let sign_in = |cookie: &str| {
        let body = json!({"email": ADA, "password": PASSWORD});
        front.post("/v1/session").cookie(cookie).json(&body).send()
    };
    let first = sign_in(planted).await.session();
    assert_ne!(first, planted);
    assert_eq!(first.len(), "tu_session_".len() + 52, "256 random bits");
    let second = sign_in(&first).await.session();
    assert_ne!(second, first);
    for (secret, status) in [(planted, 401), (&first, 401), (&second, 200)] {
        let reply = front.get("/v1/projects").cookie(secret).send().await;
        assert_eq!(reply.status, status, "{secret}");
    }
    // Another browser keeps its session.
    let other = front.sign_in(ADA).await;
    assert_eq!(front.get("/v1/projects").cookie(&second).send().await.status, 200);
    assert_eq!(front.get("/v1/projects").cookie(&other).send().await.status, 200);
}

/// S06: what the browser stores, and where the secret is found.
#[tokio::test]
async fn s06_secret_is_in_the_cookie_alone() {
    let front = front().await;
    let reply = try_it(&front, ADA, PASSWORD).await;
    let (cookie, secret) = (reply.header("set-cookie").unwrap(), reply.session());
    assert_eq!(
        cookie,
        format!("{COOKIE}={secret}; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict")
    );
    assert!(!reply.text().contains(&secret));
    front.seal().await;
    let stored = format!("{:?}", front.stored(None).await);
    assert!(!stored.contains(&secret[20..]), "only its hash is stored");
    // In a URL it is refused like a token.
    front.get(&format!("/v1/projects?x={secret}")).send().await.must_be(400, "TU1004");
}

/// S07: another site must not sign a browser in as somebody else.
#[tokio::test]
async fn s07_sign_in_from_another_site_is_refused() {
    let front = front().await;
    let sign_in = |path: &str, body: Value, header: (&'static str, &str)| {
        let request = front.post(path).without(header::AUTHORIZATION).header(header.0, header.1);
        request.header("host", "localhost").json(&body).send()
    };
    let password = json!({"email": ADA, "password": PASSWORD});
    let token = json!({"token": OWNER});
    for header in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "http://localhost:3000"),
        ("origin", "null"),
    ] {
        for (path, body) in [("/v1/session", &password), ("/v1/session/token", &token)] {
            let reply = sign_in(path, body.clone(), header).await;
            reply.must_be(403, "TU1010");
            assert_eq!(reply.header("set-cookie"), None);
        }
    }
    let own = sign_in("/v1/session", password, ("origin", "http://localhost")).await;
    assert_eq!(own.status, 200, "{}", own.text());
}

#[tokio::test]
async fn token_opens_a_session_with_its_role_that_ends_with_it() {
    let front = front().await;
    let narrow = json!({"name": "narrow", "role": "owner", "permissions": ["read"],
                        "expires_in_days": 1});
    let narrow = front.create_token(&narrow).await;
    let sign_in = async |token: &str| {
        let body = json!({"token": token});
        let request = front.post("/v1/session/token").without(header::AUTHORIZATION);
        let reply = request.json(&body).send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        (reply.json(), reply.session())
    };
    let (shown, secret) = sign_in(&narrow).await;
    assert_eq!((&shown["role"], &shown["permissions"]), (&json!("owner"), &json!(["read"])));
    assert_eq!(shown["principal"]["email"], Value::Null);
    assert_eq!(shown["org"]["name"], "acme");
    assert_eq!(front.get("/v1/projects").cookie(&secret).send().await.status, 200);
    let write = front.put("/v1/projects/more").cookie(&secret).on_our_page();
    write.send().await.must_be(403, "TU1002");
    let (operator, all) = sign_in(OPERATOR).await;
    assert_eq!((&operator["role"], &operator["org"]), (&json!("operator"), &Value::Null));
    let names: Vec<&str> = operator["orgs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|org| org["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["acme", "other"]);
    let services = front.get("/v1/services").cookie(&all);
    assert_eq!(services.header("trueup-org", "other").send().await.status, 200);
    // The session ends with the token: when it is revoked, and when it expires.
    assert_eq!(front.delete("/v1/tokens/narrow").send().await.status, 200);
    front.get("/v1/projects").cookie(&secret).send().await.must_be(401, "TU1001");
    let short = json!({"name": "short", "role": "viewer", "expires_in_days": 1});
    let (shown, secret) = sign_in(&front.create_token(&short).await).await;
    assert_eq!(shown["expires_at"], "2027-01-16T08:00:00Z");
    front.clock.advance(Duration::from_secs(11 * 3600));
    assert_eq!(front.get("/v1/projects").cookie(&secret).send().await.status, 200);
    front.clock.advance(Duration::from_secs(11 * 3600));
    assert_eq!(front.get("/v1/projects").cookie(&secret).send().await.status, 200);
    front.clock.advance(Duration::from_secs(2 * 3600));
    front.get("/v1/projects").cookie(&secret).send().await.must_be(401, "TU1001");
}

/// S54: sign-ins and refused sign-ins are events, without an address.
#[tokio::test]
async fn s54_sign_ins_are_events_with_ids_and_names_beside_them() {
    let front = front().await;
    try_it(&front, ADA, "wrong").await.must_be(401, "TU1001");
    try_it(&front, "nobody@example.com", "wrong").await.must_be(401, "TU1001");
    let secret = front.sign_in(ADA).await;
    let out = front.delete("/v1/session").cookie(&secret).on_our_page().send().await;
    assert_eq!(out.status, 204, "{}", out.text());
    front.seal().await;
    let events = front.get("/v1/events").send().await;
    assert!(!events.text().contains("example.com"), "{}", events.text());
    let events = events.json();
    let of = |kind: &str| -> Value {
        let kind = format!("dev.trueup.{kind}.v1");
        let found = events["items"].as_array().unwrap().iter().find(|event| event["type"] == kind);
        found.unwrap_or_else(|| panic!("{kind}: {events}")).clone()
    };
    for kind in ["SignedIn", "SignedOut"] {
        let event = of(kind);
        assert!(event["data"]["principal"].as_str().unwrap().starts_with("usr_"), "{event}");
        assert_eq!(event["principalname"], "Ada");
    }
    let request = front.get("/v1/events?type=SignInRefused").token(OPERATOR);
    let refused = request.header("trueup-org", "trueup").send().await;
    assert!(!refused.text().contains("example.com"), "{}", refused.text());
    let users: Vec<Value> = refused.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["data"]["user"].clone())
        .collect();
    assert!(users[0].as_str().unwrap().starts_with("usr_") && users[1].is_null(), "{users:?}");
}

/// S02 and S03: Trueup has no signed tokens, so every one of them is an unknown token.
#[tokio::test]
async fn s02_s03_signed_tokens_open_nothing() {
    let front = front().await;
    let encode = |text: &str| data_encoding::BASE64URL_NOPAD.encode(text.as_bytes());
    let claims = encode(r#"{"sub":"ada@example.com","role":"operator","exp":99999999999}"#);
    let unknown = visible(&front.get("/v1/projects").token("nothing").send().await);
    for head in [
        r#"{"alg":"none"}"#,
        r#"{"alg":"HS256","kid":"../../../dev/null"}"#,
        r#"{"alg":"HS256","kid":"' union select 'key"}"#,
        r#"{"alg":"RS256","jku":"https://evil.example/keys"}"#,
        r#"{"alg":"RS256","jwk":{"kty":"oct","k":"AA"}}"#,
    ] {
        let token = format!("{}.{claims}.", encode(head));
        let reply = front.get("/v1/projects").token(&token).send().await;
        assert_eq!(visible(&reply), unknown, "{head}");
        let body = json!({"token": token});
        let signed_in = front.post("/v1/session/token").without(header::AUTHORIZATION).json(&body);
        signed_in.send().await.must_be(401, "TU1001");
    }
}
