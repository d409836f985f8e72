//! Requests with the cookie of a session: everywhere beside a token, from our own pages alone, until it ends.

use std::time::Duration;

use axum::http::Method;
use serde_json::json;
use trueup_model::org::PLATFORM;
use trueup_model::principal::Role;

use crate::front::{COOKIE, DEVELOPER, Front, OWNER, PATIENCE, STRANGER, WEB, web};
use crate::recipe::{operations, stage};
use crate::stream::Reader;

const ADA: &str = "ada@example.com";
const WATCH: &str = "/v1/events/watch?after=0";
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

async fn sets_role(front: &Front, role: Role) {
    let set = sqlx::query("update memberships set role = $1").bind(role.into_str());
    assert_eq!(set.execute(&front.owner).await.unwrap().rows_affected(), 1);
}

/// Each read answers a cookie as it answers a token of the same role.
#[tokio::test]
async fn every_read_accepts_a_cookie_in_place_of_a_token() {
    let (front, things) = stage().await;
    front.db.user(ADA, Role::Owner, front.db.org).await;
    let secret = front.sign_in(ADA).await;
    let mut compared = 0;
    for operation in operations().iter().filter(|one| one.method == Method::GET) {
        let address = operation.address(&things);
        let by_token = operation.request(&front, OWNER, &address).send().await;
        let by_cookie = operation.request(&front, OWNER, &address).cookie(&secret).send().await;
        assert_eq!(by_cookie.status, by_token.status, "{address} {}", by_cookie.text());
        // S52: no cache keeps what a caller was shown.
        let kept = by_cookie.header("cache-control").unwrap();
        assert!(kept.contains("no-store") || kept.contains("no-cache"), "{address} {kept}");
        assert_eq!(by_cookie.header("x-content-type-options"), Some("nosniff"), "{address}");
        compared += 1;
    }
    assert!(compared > 30, "{compared}");
    let put = front.put(WEB).cookie(&secret).on_our_page().json(&web("nginx:9"));
    assert_eq!(put.send().await.status, 202);
}

/// S07: a write that another site causes, or one whose origin is not known, changes nothing.
#[tokio::test]
async fn s07_no_write_is_accepted_with_a_cookie_from_another_page() {
    let (front, things) = stage().await;
    front.db.user(ADA, Role::Owner, front.db.org).await;
    let secret = front.sign_in(ADA).await;
    let before = front.stored(None).await;
    for operation in operations().iter().filter(|one| one.method != Method::GET) {
        let address = operation.address(&things);
        let request = || operation.request(&front, OWNER, &address).cookie(&secret);
        for request in [
            request(),
            request().header("x-trueup-csrf", "1"),
            request().header("sec-fetch-site", "same-origin"),
            request().header("x-trueup-csrf", "1").header("sec-fetch-site", "cross-site"),
            request().header("x-trueup-csrf", "1").header("origin", "https://evil.example"),
            // A form can send a text that is JSON.
            request().header("content-type", "text/plain").header("sec-fetch-site", "same-site"),
            // Methods are not overridden.
            request().header("x-http-method-override", "GET"),
        ] {
            request.send().await.must_be(403, "TU1010");
        }
    }
    front.delete("/v1/session").cookie(&secret).send().await.must_be(403, "TU1010");
    front
        .get("/v1/projects")
        .cookie(&secret)
        .header("sec-fetch-site", "cross-site")
        .send()
        .await
        .must_be(403, "TU1010");
    assert_eq!(front.stored(None).await, before);
}

#[tokio::test]
async fn cookie_and_token_together_are_refused_by_every_operation() {
    let (front, things) = stage().await;
    front.db.user(ADA, Role::Owner, front.db.org).await;
    let secret = front.sign_in(ADA).await;
    let cookie = format!("{COOKIE}={secret}");
    for operation in operations() {
        let request = operation.request(&front, OWNER, &operation.address(&things));
        request.header("cookie", &cookie).send().await.must_be(400, "TU1103");
    }
    // Two cookies of our name: another host of the domain has set one.
    let two = front.get("/v1/projects").cookie(&secret).header("cookie", &cookie);
    two.send().await.must_be(401, "TU1001");
}

#[tokio::test]
async fn session_ends_when_it_is_not_used_for_half_a_day_and_after_a_week() {
    let front = Front::new().await;
    front.db.user(ADA, Role::Owner, front.db.org).await;
    let secret = front.sign_in(ADA).await;
    let read = || front.get("/v1/projects").cookie(&secret).send();
    // Used every eleven hours it lasts for a week.
    for _ in 0..15 {
        front.clock.advance(11 * HOUR);
        assert_eq!(read().await.status, 200);
    }
    front.clock.advance(3 * HOUR - SECOND);
    assert_eq!(read().await.status, 200);
    front.clock.advance(SECOND);
    read().await.must_be(401, "TU1001");

    let secret = front.sign_in(ADA).await;
    let read = || front.get("/v1/projects").cookie(&secret).send();
    front.clock.advance(12 * HOUR - SECOND);
    assert_eq!(read().await.status, 200);
    front.clock.advance(12 * HOUR);
    read().await.must_be(401, "TU1001");
}

/// S04: after signing out the secret is worth nothing, and the browser forgets it.
#[tokio::test]
async fn s04_sign_out_ends_the_session_at_once() {
    let front = Front::new().await;
    front.db.user(ADA, Role::Owner, front.db.org).await;
    let (secret, other) = (front.sign_in(ADA).await, front.sign_in(ADA).await);
    let out = front.delete("/v1/session").cookie(&secret).on_our_page().send().await;
    assert_eq!(out.status, 204);
    let cleared = format!("{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    assert_eq!(out.header("set-cookie"), Some(cleared.as_str()));
    for path in ["/v1/projects", "/v1/session", "/v1/whoami"] {
        front.get(path).cookie(&secret).send().await.must_be(401, "TU1001");
        assert_eq!(front.get(path).cookie(&other).send().await.status, 200, "{path}");
    }
    // A program sends the secret as a bearer token.
    assert_eq!(front.get("/v1/session").token(&other).send().await.status, 200);
    assert_eq!(front.delete("/v1/session").token(&other).send().await.status, 204);
    front.get("/v1/session").token(&other).send().await.must_be(401, "TU1001");
    // A token is no session.
    front.get("/v1/session").token(OWNER).send().await.must_be(401, "TU1001");
    front.get("/v1/session").cookie(OWNER).send().await.must_be(401, "TU1001");
}

/// S04: an open stream ends within two seconds of the sign-out, or of another role.
#[tokio::test]
async fn s04_streams_end_with_their_session_and_with_its_role() {
    let front = Front::with_web().await;
    front.seal().await;
    front.db.user(ADA, Role::Owner, front.db.org).await;
    let watch = async |secret: &str| {
        let mut reader = Reader::open(front.get(WATCH).cookie(secret)).await;
        reader.next().await.unwrap();
        reader
    };
    let must_end = async |mut reader: Reader| {
        front.clock.advance(SECOND);
        let ended = async { while reader.next().await.is_some() {} };
        tokio::time::timeout(PATIENCE, ended).await.expect("the stream should end");
    };
    let secret = front.sign_in(ADA).await;
    let (ours, other) = (watch(&secret).await, watch(&front.sign_in(ADA).await).await);
    let out = front.delete("/v1/session").cookie(&secret).on_our_page().send().await;
    assert_eq!(out.status, 204);
    must_end(ours).await;
    // The other session goes on until the role changes.
    sets_role(&front, Role::Viewer).await;
    must_end(other).await;
    let secret = front.sign_in(ADA).await;
    let again = watch(&secret).await;
    let gone = "update memberships set removed_at = created_at";
    sqlx::query(gone).execute(&front.owner).await.unwrap();
    front.get("/v1/projects").cookie(&secret).send().await.must_be(401, "TU1001");
    must_end(again).await;
}

/// S04: a lower role counts from the next request on.
#[tokio::test]
async fn s04_role_is_read_at_each_request() {
    let front = Front::with_web().await;
    front.db.user(ADA, Role::Owner, front.db.org).await;
    let secret = front.sign_in(ADA).await;
    let put = async |image: &str| {
        front.put(WEB).cookie(&secret).on_our_page().json(&web(image)).send().await
    };
    assert_eq!(put("nginx:2").await.status, 202);
    sets_role(&front, Role::Viewer).await;
    put("nginx:3").await.must_be(403, "TU1002");
    assert_eq!(front.get(WEB).cookie(&secret).send().await.status, 200);
}

#[tokio::test]
async fn user_of_several_orgs_names_one() {
    let front = Front::with_web().await;
    front.db.user(ADA, Role::Owner, front.db.org).await;
    front.db.user(ADA, Role::Viewer, front.other_org).await;
    let secret = front.sign_in(ADA).await;
    let read = || front.get("/v1/services").cookie(&secret);
    read().send().await.must_be(400, "TU1103");
    for (org, services) in [("acme", 1), ("other", 0), (&front.other_org.to_string(), 0)] {
        let reply = read().header("trueup-org", org).send().await;
        assert_eq!(reply.json()["items"].as_array().unwrap().len(), services, "{org}");
    }
    // Without a name the session shows the first org; with one, the role there.
    let session = front.get("/v1/session").cookie(&secret).send().await.json();
    assert_eq!((&session["org"]["name"], &session["role"]), (&json!("acme"), &json!("owner")));
    let session = front.get("/v1/session").cookie(&secret).header("trueup-org", "other");
    let session = session.send().await.json();
    assert_eq!((&session["org"]["name"], &session["role"]), (&json!("other"), &json!("viewer")));
    let put = front.put("/v1/projects/x").cookie(&secret).on_our_page();
    put.header("trueup-org", "other").send().await.must_be(403, "TU1002");
    // An org that exists is refused like one that does not.
    let third = front.db.setup.ensure_org("third", trueup_model::Clock::now(&front.clock)).await;
    let third = third.unwrap().to_string();
    let answer = async |org: &str| {
        let reply = read().header("trueup-org", org).send().await;
        reply.must_be(403, "TU1002");
        reply.masked().replace(&format!("`{org}`"), "[org]")
    };
    let unknown = answer("unknown").await;
    for org in ["third", &third, "trueup", ""] {
        assert_eq!(answer(org).await, unknown, "{org}");
    }
}

#[tokio::test]
async fn operator_with_an_account_acts_in_any_org() {
    let front = Front::with_web().await;
    front.db.user(ADA, Role::Operator, PLATFORM).await;
    front.db.user(ADA, Role::Viewer, front.db.org).await;
    let secret = front.sign_in(ADA).await;
    let session = front.get("/v1/session").cookie(&secret).send().await.json();
    assert_eq!(session["role"], "operator");
    assert_eq!(session["orgs"][0]["role"], "viewer", "the role in the org itself: {session}");
    assert_eq!(session["orgs"][1]["role"], "operator");
    assert_eq!(front.get("/v1/orgs").cookie(&secret).send().await.status, 200);
    let read = || front.get("/v1/services").cookie(&secret);
    read().send().await.must_be(400, "TU1103");
    assert_eq!(read().header("trueup-org", "other").send().await.status, 200);
    read().header("trueup-org", "unknown").send().await.must_be(404, "TU1003");
    let metrics = front.get("/metrics").cookie(&secret).send().await;
    assert_eq!(metrics.status, 200);
    // In an org where they have a role, they have that role.
    let put = front.put("/v1/projects/x").cookie(&secret).on_our_page();
    put.header("trueup-org", "acme").send().await.must_be(403, "TU1002");
}

#[tokio::test]
async fn whoami_and_events_name_the_person() {
    let front = Front::with_web().await;
    let id = front.db.user(ADA, Role::Developer, front.db.org).await.to_string();
    let secret = front.sign_in(ADA).await;
    let who = front.get("/v1/whoami").cookie(&secret).send().await.json();
    assert_eq!((&who["principal"], &who["token"]), (&json!(id), &json!(null)));
    assert_eq!(who["name"], "Ada");
    let put = front.put(WEB).cookie(&secret).on_our_page().json(&web("nginx:2"));
    assert_eq!(put.send().await.status, 202);
    front.seal().await;
    let events = front.get("/v1/events?type=ServiceQueued&order=newest").send().await.json();
    let event = &events["items"][0];
    assert_eq!((&event["data"]["principal"], &event["principalname"]), (&json!(id), &json!("Ada")));
    // Neither a developer's token nor another org's is a session of Ada's.
    for token in [DEVELOPER, STRANGER] {
        let who = front.get("/v1/whoami").token(token).send().await.json();
        assert!(who["principal"].as_str().unwrap().starts_with("tok_"), "{who}");
    }
}
