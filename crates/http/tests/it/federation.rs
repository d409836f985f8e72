//! Signing in with a real identity provider, and what a browser or a provider can do wrong.

use std::sync::Arc;

use axum::http::{StatusCode, header};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use trueup_http::SignInProviders;
use trueup_model::Clock;
use trueup_model::principal::Role;
use trueup_model::provider::{
    Authorization, Claims, ProviderConnection, ProviderError, ReturnedCode,
};
use trueup_oidc::{Client, Settings};
use trueup_rules::envelope::Keyring;
use trueup_testkit::real_oidc::{RealOidc, Returned};
use trueup_testkit::test_db::PASSWORD;

use crate::front::{Front, OWNER, Reply, STRANGER};
use crate::stranger::visible;

const CALLBACK: &str = "http://127.0.0.1:7410/sign-in/callback";
const ADA: &str = "ada@example.com";
const SECRET: &str = "the secret of a client";
const START: &str = "/v1/session/provider/start";
const FINISH: &str = "/v1/session/provider";
/// The cookie of a sign-in on plain loopback, without a port in the request.
const SIGN_IN_COOKIE: &str = "trueup-80-sign-in";

#[derive(Debug)]
struct Real(Client);

impl SignInProviders for Real {
    fn redirect_uri(&self) -> &'static str {
        CALLBACK
    }

    fn allows_private(&self) -> bool {
        true
    }

    fn authorize<'a>(
        &'a self,
        provider: &'a ProviderConnection,
        login_hint: &'a str,
    ) -> BoxFuture<'a, Result<Authorization, ProviderError>> {
        self.0.authorize(provider, login_hint).boxed()
    }

    fn exchange<'a>(
        &'a self,
        provider: &'a ProviderConnection,
        returned: &'a ReturnedCode,
    ) -> BoxFuture<'a, Result<Claims, ProviderError>> {
        self.0.exchange(provider, returned).boxed()
    }
}

/// A front, and a provider of `example.com` where Ada is in the group `dev`.
struct World {
    front: Front,
    real: RealOidc,
}

/// A sign-in that was begun.
struct Begun {
    url: String,
    cookie: String,
}

impl World {
    async fn new() -> Option<Self> {
        let mut front = Front::new().await;
        let real = RealOidc::start(CALLBACK, front.clock.now()).await?;
        let client = Client::new(Settings {
            redirect: CALLBACK.to_owned(),
            allow_private: true,
            clock: Arc::new(front.clock.clone()),
            decryptor: Keyring::new(&[7; 32]).decryptor(),
        });
        let client = client.unwrap();
        front.rebuild(|state| state.providers = Arc::new(Real(client)));
        let world = Self { front, real };
        world.declare("idp", &json!({})).await;
        world.prove().await;
        world.person(&json!({})).await;
        Some(world)
    }

    async fn declare(&self, name: &str, change: &Value) -> Reply {
        let mut body = json!({"issuer": self.real.issuer, "client_id": "trueup", "client_secret": SECRET,
            "domains": ["example.com"],
            "groups": [{"group": "ops", "role": "admin"}, {"group": "dev", "role": "developer"}]});
        for (field, value) in change.as_object().unwrap() {
            body[field] = value.clone();
        }
        let path = format!("/v1/providers/{name}");
        let declared = self.front.put(&path).json(&body).send().await;
        assert_eq!(declared.status, 200, "{}", declared.text());
        declared
    }

    /// Proves all domains, as DNS would.
    async fn prove(&self) {
        let ids =
            "select id from provider_domains where verified_at is null and deleted_at is null";
        let ids: Vec<uuid::Uuid> =
            sqlx::query_scalar(ids).fetch_all(&self.front.owner).await.unwrap();
        for id in ids {
            let (app, org, now) = (&self.front.db.app, self.front.db.org, self.front.clock.now());
            let id = trueup_model::id::DomainId::from_uuid(id);
            assert!(app.record_provider_domain(org, id, now).await.unwrap());
        }
    }

    /// Changes what the provider says about Ada.
    async fn person(&self, change: &Value) {
        let mut claims = json!({"email": ADA, "email_verified": true, "name": "Ada Lovelace",
                                "groups": ["dev"]});
        for (field, value) in change.as_object().unwrap() {
            claims[field] = value.clone();
        }
        self.real.person("1", &claims).await;
    }

    async fn try_start(&self, email: &str) -> Reply {
        let request = self.front.post(START).without(header::AUTHORIZATION).on_our_page();
        request.json(&json!({"email": email})).send().await
    }

    async fn start(&self) -> Begun {
        let reply = self.try_start(ADA).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let cookie = reply.header("set-cookie").unwrap();
        for attribute in ["; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=600"] {
            assert!(cookie.contains(attribute), "{cookie}");
        }
        let value = cookie.strip_prefix(SIGN_IN_COOKIE).unwrap().strip_prefix('=').unwrap();
        let cookie = value.split(';').next().unwrap().to_owned();
        Begun { url: reply.json()["url"].as_str().unwrap().to_owned(), cookie }
    }

    async fn visit(&self, begun: &Begun) -> Returned {
        let returned = self.real.visit(&begun.url).await.unwrap();
        assert_eq!(returned.address, CALLBACK);
        returned
    }

    async fn finish(&self, cookie: &str, returned: &Returned) -> Reply {
        self.finish_with(
            cookie,
            &json!({"state": returned.get("state"), "code": returned.get("code"),
                                         "iss": returned.get("iss")}),
        )
        .await
    }

    async fn finish_with(&self, cookie: &str, body: &Value) -> Reply {
        let request = self.front.post(FINISH).without(header::AUTHORIZATION).on_our_page();
        let cookie = format!("{SIGN_IN_COOKIE}={cookie}");
        request.header("cookie", &cookie).json(body).send().await
    }

    /// Signs Ada in; returns the response.
    async fn sign_in(&self) -> Reply {
        let begun = self.start().await;
        let returned = self.visit(&begun).await;
        self.finish(&begun.cookie, &returned).await
    }

    /// The status of a read with the cookie of a session.
    async fn reads(&self, session: &str) -> StatusCode {
        self.front.get("/v1/projects").cookie(session).on_our_page().send().await.status
    }

    async fn events(&self) -> Vec<Value> {
        self.front.seal().await;
        let all = self.front.get("/v1/events?limit=100").send().await.json();
        all["items"].as_array().unwrap().clone()
    }

    /// The data of the newest event of a type.
    async fn newest(&self, kind: &str) -> Value {
        let wanted = format!("dev.trueup.{kind}.v1");
        let all = self.events().await;
        let found =
            all.iter().filter(|event| event["type"] == wanted.as_str()).max_by_key(|event| {
                event["sequence"].as_str().and_then(|text| text.parse::<u64>().ok())
            });
        found.unwrap_or_else(|| panic!("no {kind} in {all:#?}"))["data"].clone()
    }
}

/// The secret of the session in a response that sets two cookies.
fn session(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let cookies = reply.headers.get_all("set-cookie").iter();
    let own = cookies.filter_map(|cookie| cookie.to_str().unwrap().strip_prefix("trueup-80="));
    own.map(|value| value.split(';').next().unwrap().to_owned()).next().unwrap()
}

#[tokio::test]
async fn person_of_a_provider_signs_in_with_the_role_of_their_group() {
    let Some(world) = World::new().await else { return };
    let reply = world.sign_in().await;
    let secret = session(&reply);
    let shown = reply.json();
    assert_eq!(shown["principal"]["email"], ADA);
    assert_eq!(shown["principal"]["name"], "Ada Lovelace");
    assert_eq!(shown["role"], "developer");
    assert_eq!(world.reads(&secret).await, 200);
    let members = world.front.get("/v1/members").send().await.json();
    assert_eq!(members["items"][0]["email"], ADA);
    let linked = world.newest("IdentityLinked").await;
    assert_eq!(linked["user"], shown["principal"]["id"]);
    let status = world.front.get("/v1/providers/idp").send().await.json();
    assert_eq!((&status["state"], &status["people"]), (&json!("answers"), &json!(1)));
    // The account has no password: nobody can guess one.
    let body = json!({"email": ADA, "password": PASSWORD});
    let guessed = world.front.post("/v1/session").without(header::AUTHORIZATION).json(&body);
    guessed.send().await.must_be(401, "TU1001");
    // Another group, another role, at the next sign-in.
    world.person(&json!({"groups": ["other", "ops"]})).await;
    assert_eq!(world.sign_in().await.json()["role"], "admin");
    assert_eq!(world.newest("MemberRoleChanged").await["to"], "admin");
}

/// S07: a code and a state are worth something once, and only in the browser that began.
#[tokio::test]
async fn s07_replayed_codes_and_states_and_those_of_another_browser_are_refused() {
    let Some(world) = World::new().await else { return };
    let begun = world.start().await;
    let returned = world.visit(&begun).await;
    let refused = world.finish("tu_sign_in_of_somebody_else", &returned).await;
    refused.must_be(401, "TU1012");
    assert_eq!(refused.header("set-cookie"), None);
    let first = world.finish(&begun.cookie, &returned).await;
    let secret = session(&first);
    // The same again.
    let replayed = world.finish(&begun.cookie, &returned).await;
    replayed.must_be(401, "TU1012");
    // The code with the state of another sign-in: PKCE and the provider refuse it.
    let other = world.start().await;
    let others = world.visit(&other).await;
    let mixed = json!({"state": others.get("state"), "code": returned.get("code")});
    let stolen = world.finish_with(&other.cookie, &mixed).await;
    stolen.must_be(401, "TU1012");
    assert!(
        world.newest("ProviderSignInRefused").await["why"]
            .as_str()
            .unwrap()
            .contains("invalid_grant")
    );
    // Invented ones, and none at all.
    let invented = world.finish_with(&begun.cookie, &json!({"state": "x", "code": "y"})).await;
    invented.must_be(401, "TU1012");
    for answer in [&replayed, &stolen, &invented] {
        assert_eq!(visible(answer), visible(&refused), "one answer to everything");
    }
    assert_eq!(world.reads(&secret).await, 200);
}

/// S03: an ID token that was made for another sign-in.
#[tokio::test]
async fn s03_id_token_with_another_nonce_is_refused() {
    let Some(world) = World::new().await else { return };
    let begun = world.start().await;
    let returned = world.visit(&begun).await;
    let other = "update provider_sign_ins set nonce = 'of another sign-in'";
    sqlx::raw_sql(other).execute(&world.front.owner).await.unwrap();
    world.finish(&begun.cookie, &returned).await.must_be(401, "TU1012");
    assert!(world.newest("ProviderSignInRefused").await["why"].as_str().unwrap().contains("nonce"));
}

/// S03: a provider whose issuer is not the declared one, and a browser that comes back from another one.
#[tokio::test]
async fn s03_another_issuer_is_refused() {
    let Some(world) = World::new().await else { return };
    let begun = world.start().await;
    let returned = world.visit(&begun).await;
    let body = json!({"state": returned.get("state"), "code": returned.get("code"),
                      "iss": "https://evil.example"});
    world.finish_with(&begun.cookie, &body).await.must_be(401, "TU1012");
    // The same server by another name: its discovery document names the issuer that it is.
    let deleted = world.front.delete("/v1/providers/idp").send().await;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    let by_name = world.real.issuer.replace("127.0.0.1", "localhost");
    world.declare("idp", &json!({"issuer": by_name})).await;
    world.prove().await;
    world.try_start(ADA).await.must_be(401, "TU1012");
    assert!(
        world.newest("ProviderSignInRefused").await["why"].as_str().unwrap().contains("issuer")
    );
}

/// S52: the provider sends browsers to one address, whatever a request says, and accepts no other.
#[tokio::test]
async fn s52_no_request_chooses_the_redirect_uri() {
    let Some(world) = World::new().await else { return };
    let request = world.front.post(START).without(header::AUTHORIZATION);
    let request = request.header("x-forwarded-host", "evil.example").header("host", "127.0.0.1");
    let reply = request.json(&json!({"email": ADA})).send().await;
    let url = reply.json()["url"].as_str().unwrap().to_owned();
    let ours = "redirect_uri=http%3A%2F%2F127.0.0.1%3A7410%2Fsign-in%2Fcallback";
    assert!(url.contains(ours), "{url}");
    let foreign = url.replace(ours, "redirect_uri=https%3A%2F%2Fevil.example%2Fcallback");
    let refused = world.real.visit(&foreign).await.unwrap_err();
    assert!(refused.starts_with("400"), "{refused}");
}

#[tokio::test]
async fn unverified_or_foreign_address_and_no_group_with_a_role_are_refused() {
    let Some(world) = World::new().await else { return };
    let mut answers = Vec::new();
    for (claims, why) in [
        (json!({"email_verified": false}), "not verified"),
        (json!({"groups": []}), "no group"),
        (json!({"groups": ["other"]}), "no group"),
    ] {
        world.person(&claims).await;
        let refused = world.sign_in().await;
        refused.must_be(401, "TU1012");
        let said = world.newest("ProviderSignInRefused").await["why"].as_str().unwrap().to_owned();
        assert!(said.contains(why), "{said}");
        answers.push(visible(&refused));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "the answer does not tell which it was");
    let members = world.front.get("/v1/members").send().await.json();
    assert_eq!(members["items"], json!([]), "nobody became a member");
    // An address elsewhere has no provider; neither has a domain that is not proved.
    world.declare("idp", &json!({"domains": ["example.com", "example.org"]})).await;
    for email in ["ada@example.net", "ada@example.org", "ada@mail.example.com", "ada", ""] {
        world.try_start(email).await.must_be(404, "TU1003");
    }
}

/// S05: the first step tells about the domain of an address alone.
#[tokio::test]
async fn s05_first_step_does_not_tell_who_has_an_account() {
    let Some(world) = World::new().await else { return };
    world.front.db.user("member@example.com", Role::Viewer, world.front.db.org).await;
    let (known, unknown) =
        (world.try_start("member@example.com").await, world.try_start("x@example.com").await);
    assert_eq!((known.status, unknown.status), (StatusCode::OK, StatusCode::OK));
    let shape = |reply: &Reply| {
        let url = reply.json()["url"].as_str().unwrap().to_owned();
        let names = url.split(['?', '&']).skip(1).filter_map(|pair| pair.split('=').next());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(shape(&known), shape(&unknown));
    for _ in 0..9 {
        world.try_start("x@example.com").await;
    }
    world.try_start("x@example.com").await.must_be(429, "TU1011");
}

/// S04: whoever loses their groups is out at the moment of the next sign-in, everywhere.
#[tokio::test]
async fn s04_lost_group_ends_the_session_the_membership_and_the_tokens() {
    let Some(world) = World::new().await else { return };
    world.declare("idp", &json!({"groups": [{"group": "dev", "role": "owner"}]})).await;
    let secret = session(&world.sign_in().await);
    let token = world.front.post("/v1/tokens").cookie(&secret).on_our_page();
    let token = token.json(&json!({"name": "of-ada", "role": "developer"})).send().await;
    let token = token.json()["secret"].as_str().unwrap().to_owned();
    assert_eq!(world.front.get("/v1/projects").token(&token).send().await.status, 200);
    world.person(&json!({"groups": []})).await;
    world.sign_in().await.must_be(401, "TU1012");
    assert_eq!(world.reads(&secret).await, 401);
    world.front.get("/v1/projects").token(&token).send().await.must_be(401, "TU1001");
    let ended = world.newest("IdentityEnded").await;
    assert_eq!(ended["reason"], "no_role");
    assert!(ended["evidence"].as_str().unwrap().contains("groups"), "{ended}");
}

/// S16: the provider of one tenant makes nobody in another, not even of an address that has an account there.
#[tokio::test]
async fn s16_session_of_a_provider_reaches_its_own_org_alone() {
    let Some(world) = World::new().await else { return };
    world.front.db.user(ADA, Role::Owner, world.front.other_org).await;
    let reply = world.sign_in().await;
    let secret = session(&reply);
    let orgs = reply.json()["orgs"].clone();
    assert_eq!(orgs.as_array().unwrap().len(), 1, "{orgs}");
    let there = world.front.get("/v1/projects").cookie(&secret).on_our_page();
    let there = there.header("trueup-org", "other").send().await;
    assert_ne!(there.status, 200, "{}", there.text());
    // And a password does not reach what the provider gives.
    let own = world.front.sign_in(ADA).await;
    let orgs = world.front.get("/v1/session").cookie(&own).send().await.json()["orgs"].clone();
    assert_eq!(orgs.as_array().unwrap().len(), 1, "{orgs}");
    assert_eq!(orgs[0]["name"], "other");
    // Another org can declare the domain, and cannot prove it.
    let body = json!({"issuer": world.real.issuer, "client_id": "trueup", "domains": ["example.com"],
                      "groups": [{"group": "*", "role": "owner"}]});
    let theirs = world.front.put("/v1/providers/theirs").token(STRANGER).json(&body).send().await;
    assert_eq!(theirs.status, 200, "{}", theirs.text());
    let id: uuid::Uuid = sqlx::query_scalar(
        "select id from provider_domains where verified_at is null and deleted_at is null",
    )
    .fetch_one(&world.front.owner)
    .await
    .unwrap();
    let (app, org, now) = (&world.front.db.app, world.front.other_org, world.front.clock.now());
    let proved = app.record_provider_domain(org, trueup_model::id::DomainId::from_uuid(id), now);
    assert!(proved.await.is_err());
}

#[tokio::test]
async fn rotated_keys_are_read_again() {
    let Some(world) = World::new().await else { return };
    session(&world.sign_in().await);
    world.front.clock.advance(std::time::Duration::from_secs(30));
    world.real.set_clock(world.front.clock.now()).await;
    world.real.rotate_keys().await;
    session(&world.sign_in().await);
}

#[tokio::test]
async fn clock_of_the_provider_may_differ_by_a_minute_and_no_more() {
    let Some(world) = World::new().await else { return };
    let shifted = |seconds: i64| {
        world.front.clock.now().checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap()
    };
    world.real.set_clock(shifted(50)).await;
    session(&world.sign_in().await);
    world.real.set_clock(shifted(600)).await;
    world.sign_in().await.must_be(401, "TU1012");
    assert!(
        world.newest("ProviderSignInRefused").await["why"].as_str().unwrap().contains("future")
    );
}

#[tokio::test]
async fn silent_provider_signs_nobody_in_and_its_status_says_so() {
    let Some(world) = World::new().await else { return };
    let secret = session(&world.sign_in().await);
    let begun = world.start().await;
    let returned = world.visit(&begun).await;
    world.front.clock.advance(std::time::Duration::from_secs(1));
    world.real.set_silent(true).await;
    world.finish(&begun.cookie, &returned).await.must_be(503, "TU2201");
    let status = world.front.get("/v1/providers/idp").send().await.json();
    assert_eq!(status["state"], "unavailable", "{status}");
    assert!(!status["failure"].as_str().unwrap().is_empty());
    // The session that it began goes on, for an hour after the confirmation.
    assert_eq!(world.reads(&secret).await, 200);
    world.front.clock.advance(std::time::Duration::from_secs(59 * 60));
    assert_eq!(world.reads(&secret).await, 200);
    world.front.clock.advance(std::time::Duration::from_secs(2 * 60));
    assert_eq!(world.reads(&secret).await, 401);
}

#[tokio::test]
async fn disabled_or_deleted_provider_ends_its_sessions_at_once() {
    let Some(world) = World::new().await else { return };
    let secret = session(&world.sign_in().await);
    world.declare("idp", &json!({"enabled": false})).await;
    assert_eq!(world.reads(&secret).await, 401);
    world.try_start(ADA).await.must_be(404, "TU1003");
    world.declare("idp", &json!({"enabled": true})).await;
    assert_eq!(world.reads(&secret).await, 200);
    let deleted = world.front.delete("/v1/providers/idp").send().await;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(world.reads(&secret).await, 401);
    let members = world.front.get("/v1/members").send().await.json();
    assert_eq!(members["items"], json!([]));
    assert_eq!(world.newest("IdentityEnded").await["reason"], "provider_deleted");
}

#[tokio::test]
async fn declaration_is_checked_and_its_secret_is_never_shown() {
    let Some(world) = World::new().await else { return };
    let shown = world.front.get("/v1/providers").token(OWNER).send().await;
    assert!(!shown.text().contains(SECRET));
    let provider = &shown.json()["items"][0];
    assert_eq!(provider["redirect_uri"], CALLBACK);
    assert_eq!(provider["has_secret"], true);
    let stored = world.front.stored(None).await;
    assert!(!stored.values().any(|rows| rows.contains(SECRET)), "encrypted in every table");
    let body = json!({"issuer": "http://id.example.com", "client_id": "", "domains": ["x"],
                      "groups": [{"group": "a", "role": "operator"}, {"group": "b", "role": "king"}],
                      "outage_minutes": 1});
    let refused = world.front.put("/v1/providers/other").json(&body).send().await;
    refused.must_be(422, "TU1201");
    let fields: Vec<String> = refused.json()["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["field"].as_str().unwrap().to_owned())
        .collect();
    for field in
        ["issuer", "client_id", "domains.0", "groups.0.role", "groups.1.role", "outage_minutes"]
    {
        assert!(fields.iter().any(|one| one == field), "{field} in {fields:?}");
    }
    // The issuer of a provider never changes: its subjects are other people's.
    let moved = json!({"issuer": "https://id.example.org", "client_id": "trueup",
                       "domains": ["example.com"], "groups": [{"group": "*", "role": "viewer"}]});
    world.front.put("/v1/providers/idp").json(&moved).send().await.must_be(422, "TU1201");
}
