//! Members, invitations and the first account.

use std::time::Duration;

use axum::http::{StatusCode, header};
use serde_json::{Value, json};
use trueup_model::Clock;
use trueup_model::org::PLATFORM;
use trueup_model::principal::Role;
use trueup_testkit::test_db::PASSWORD;

use crate::front::{ADMIN, AUDITOR, DEVELOPER, Front, OPERATOR, Reply, STRANGER, VIEWER, WEB, web};
use crate::stranger::visible;
use crate::stream::Reader;

const ADA: &str = "ada@example.com";
const GRACE: &str = "grace@example.com";
const DAY: Duration = Duration::from_secs(86_400);

/// A front with the owner Ada, and her session.
async fn front() -> (Front, String) {
    let front = Front::new().await;
    front.db.user(ADA, Role::Owner, front.db.org).await;
    let ada = front.sign_in(ADA).await;
    (front, ada)
}

async fn invite(front: &Front, secret: &str, email: &str, role: &str) -> Reply {
    let body = json!({"email": email, "role": role});
    front.post("/v1/invitations").cookie(secret).on_our_page().json(&body).send().await
}

async fn code(front: &Front, secret: &str, email: &str, role: &str) -> String {
    let reply = invite(front, secret, email, role).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text());
    reply.json()["code"].as_str().unwrap().to_owned()
}

async fn accept(front: &Front, code: &str, name: &str, password: &str) -> Reply {
    let body = json!({"code": code, "name": name, "password": password});
    let request = front.post("/v1/invitations/accept").without(header::AUTHORIZATION);
    request.json(&body).send().await
}

#[tokio::test]
async fn invited_person_creates_an_account_and_has_the_role() {
    let (front, ada) = front().await;
    let code = code(&front, &ada, "Grace@Example.com", "developer").await;
    assert_eq!(code.len(), "tu_invitation_".len() + 52, "256 random bits");
    let listed = front.get("/v1/invitations").send().await;
    assert!(!listed.text().contains(&code[20..]), "the code is shown once");
    assert_eq!(listed.json()["items"][0]["email"], GRACE);
    let reply = accept(&front, &code, "Grace", PASSWORD).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.json()["role"], "developer");
    let grace = reply.session();
    let put = front.put(WEB).cookie(&grace).on_our_page().json(&web("nginx:1"));
    assert_eq!(put.send().await.status, 202);
    assert_eq!(front.get("/v1/invitations").send().await.json()["items"], json!([]));
    let members = front.get("/v1/members").token(VIEWER).send().await.json();
    let seen: Vec<(&str, &str)> = members["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["email"].as_str().unwrap(), one["role"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, [(ADA, "owner"), (GRACE, "developer")]);
    assert_eq!(front.sign_in(GRACE).await.len(), grace.len(), "with the password from now on");
    // Another org sees neither.
    for path in ["/v1/members", "/v1/invitations"] {
        let theirs = front.get(path).token(STRANGER).send().await;
        assert_eq!(theirs.json(), json!({"items": []}));
    }
}

/// S53: used, revoked, expired, replaced and invented codes get one answer.
#[tokio::test]
async fn s53_code_works_once_and_only_while_it_is_open() {
    let (front, ada) = front().await;
    let used = code(&front, &ada, GRACE, "viewer").await;
    assert_eq!(accept(&front, &used, "Grace", PASSWORD).await.status, 200);
    let revoked = code(&front, &ada, "revoked@example.com", "viewer").await;
    let open = front.get("/v1/invitations").send().await.json();
    let id = open["items"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/invitations/{id}");
    assert_eq!(front.delete(&path).send().await.status, 200);
    front.delete(&path).send().await.must_be(404, "TU1003");
    let replaced = code(&front, &ada, "twice@example.com", "viewer").await;
    let newest = code(&front, &ada, "twice@example.com", "viewer").await;
    let expired = code(&front, &ada, "late@example.com", "viewer").await;
    let mut answers = Vec::new();
    for wrong in [&used, &revoked, &replaced, &newest[1..], "", "' or true --", "\0"] {
        let reply = accept(&front, wrong, "Eve", PASSWORD).await;
        reply.must_be(401, "TU1001");
        answers.push(visible(&reply));
    }
    // Not a moment before seven days.
    front.clock.advance(7 * DAY - Duration::from_secs(1));
    assert_eq!(accept(&front, &newest, "Ida", PASSWORD).await.status, 200);
    front.clock.advance(Duration::from_secs(1));
    answers.push(visible(&accept(&front, &expired, "Eve", PASSWORD).await));
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
}

/// S53: of many concurrent acceptances one succeeds, and there is one member.
#[tokio::test]
async fn s53_race_of_acceptances_makes_one_member() {
    let (front, ada) = front().await;
    for round in 0..5 {
        let email = format!("grace{round}@example.com");
        let code = code(&front, &ada, &email, "viewer").await;
        let all = (0..4).map(|_| accept(&front, &code, "Grace", PASSWORD));
        let replies = futures::future::join_all(all).await;
        let accepted = replies.iter().filter(|reply| reply.status == 200).count();
        assert_eq!(accepted, 1, "{:?}", replies.iter().map(Reply::text).collect::<Vec<_>>());
    }
    let members = front.get("/v1/members").send().await.json();
    assert_eq!(members["items"].as_array().unwrap().len(), 6);
}

/// S53: an invitation is worth what its inviter may give at the moment it is accepted.
#[tokio::test]
async fn s53_invitation_ends_with_the_right_of_its_inviter() {
    let (front, ada) = front().await;
    front.db.user("bob@example.com", Role::Owner, front.db.org).await;
    let bob = front.sign_in("bob@example.com").await;
    let first = code(&front, &bob, GRACE, "viewer").await;
    let second = code(&front, &bob, "ida@example.com", "viewer").await;
    let demote = |role: &str| {
        let put = front.put("/v1/members/bob@example.com").cookie(&ada).on_our_page();
        put.json(&json!({"role": role})).send()
    };
    assert_eq!(demote("developer").await.status, 200);
    accept(&front, &first, "Grace", PASSWORD).await.must_be(401, "TU1001");
    assert_eq!(demote("owner").await.status, 200);
    assert_eq!(accept(&front, &first, "Grace", PASSWORD).await.status, 200);
    let gone = front.delete("/v1/members/bob@example.com").cookie(&ada).on_our_page();
    assert_eq!(gone.send().await.status, 200);
    accept(&front, &second, "Ida", PASSWORD).await.must_be(401, "TU1001");
    // The same for an invitation by a token.
    let inviter = front.create_token(&json!({"name": "inviter", "role": "owner"})).await;
    let body = json!({"email": "joe@example.com", "role": "viewer"});
    let made = front.post("/v1/invitations").token(&inviter).json(&body).send().await;
    let third = made.json()["code"].as_str().unwrap().to_owned();
    assert_eq!(front.delete("/v1/tokens/inviter").send().await.status, 200);
    accept(&front, &third, "Joe", PASSWORD).await.must_be(401, "TU1001");
}

/// S53: the account of the invited address is needed, not the code alone.
#[tokio::test]
async fn s53_code_of_an_address_with_an_account_needs_its_password() {
    let (front, ada) = front().await;
    front.db.user(GRACE, Role::Viewer, front.other_org).await;
    let code = code(&front, &ada, GRACE, "admin").await;
    for _ in 0..10 {
        accept(&front, &code, "Eve", "eve's own long password").await.must_be(401, "TU1001");
    }
    accept(&front, &code, "Eve", PASSWORD).await.must_be(429, "TU1011");
    front.clock.advance(Duration::from_secs(15 * 60));
    let joined = accept(&front, &code, "ignored", PASSWORD).await;
    assert_eq!(joined.status, 200, "{}", joined.text());
    let orgs = joined.json()["orgs"].clone();
    assert_eq!(orgs[0]["role"], "admin");
    assert_eq!(orgs[1]["role"], "viewer");
    assert_eq!(joined.json()["principal"]["name"], "Ada", "the account keeps its name");
    let again = invite(&front, &ada, GRACE, "viewer").await;
    again.must_be(409, "TU1006");
}

#[tokio::test]
async fn weak_password_bad_name_and_bad_address_are_refused_by_field() {
    let (front, ada) = front().await;
    let code = code(&front, &ada, GRACE, "viewer").await;
    let before = front.stored(None).await;
    let problem = accept(&front, &code, " ", "password123").await.must_be(422, "TU1201");
    let fields: Vec<&Value> =
        problem["errors"].as_array().unwrap().iter().map(|error| &error["field"]).collect();
    assert_eq!(fields, ["name", "password"]);
    for weak in ["", "short", "qwertyuiop", GRACE, "aaaaaaaaaaaaaaaaaaaa"] {
        accept(&front, &code, "Grace", weak).await.must_be(422, "TU1201");
    }
    for email in ["", "grace", "grace@example.com\r\nBcc: eve@example.com", "a@b, c@d.example"] {
        invite(&front, &ada, email, "viewer").await.must_be(422, "TU1201");
    }
    invite(&front, &ada, "x@example.com", "root").await.must_be(422, "TU1201");
    assert_eq!(front.stored(None).await, before);
    assert_eq!(accept(&front, &code, "Grace", PASSWORD).await.status, 200, "it is still open");
}

#[tokio::test]
async fn nobody_gives_a_role_of_another_kind() {
    let (front, ada) = front().await;
    for role in ["operator", "auditor"] {
        invite(&front, &ada, GRACE, role).await.must_be(400, "TU1103");
        let put = front.put(&format!("/v1/members/{ADA}")).cookie(&ada).on_our_page();
        put.json(&json!({"role": role})).send().await.must_be(403, "TU1002");
        let put = front.put(&format!("/v1/members/{ADA}")).token(OPERATOR);
        let put = put.header("trueup-org", "acme").json(&json!({"role": role}));
        put.send().await.must_be(400, "TU1103");
    }
    let narrow = json!({"name": "n", "role": "owner", "permissions": ["read", "manage_members"]});
    let narrow = front.create_token(&narrow).await;
    let body = json!({"email": GRACE, "role": "viewer"});
    front.post("/v1/invitations").token(&narrow).json(&body).send().await.must_be(403, "TU1002");
    for token in [VIEWER, DEVELOPER, ADMIN, AUDITOR] {
        let request = front.post("/v1/invitations").token(token).header("trueup-org", "acme");
        request.json(&body).send().await.must_be(403, "TU1002");
    }
    // Operators invite into an org, and without one into the platform.
    let operator = front.post("/v1/invitations").token(OPERATOR);
    let made = operator.json(&json!({"email": GRACE, "role": "auditor"})).send().await;
    assert_eq!(made.status, 201, "{}", made.text());
    let code = made.json()["code"].as_str().unwrap().to_owned();
    let grace = accept(&front, &code, "Grace", PASSWORD).await;
    assert_eq!(grace.json()["role"], "auditor");
    let grace = grace.session();
    let read = |path: &str| front.get(path).cookie(&grace).header("trueup-org", "other").send();
    assert_eq!(read("/v1/projects").await.status, 200);
    assert_eq!(front.get("/v1/orgs").cookie(&grace).send().await.status, 200);
    let put = front.put("/v1/projects/x").cookie(&grace).on_our_page();
    put.header("trueup-org", "other").send().await.must_be(403, "TU1002");
}

/// S04: a removed member is out at once: requests, streams and tokens.
#[tokio::test]
async fn s04_removed_member_is_out_at_once() {
    let (front, ada) = front().await;
    front.declare("nginx:1").await;
    front.seal().await;
    front.db.user(GRACE, Role::Owner, front.db.org).await;
    let grace = front.sign_in(GRACE).await;
    let body = json!({"name": "of grace", "role": "developer"});
    let made = front.post("/v1/tokens").cookie(&grace).on_our_page().json(&body).send().await;
    let token = made.json()["secret"].as_str().unwrap().to_owned();
    assert_eq!(front.get(WEB).token(&token).send().await.status, 200);
    let mut by_session = Reader::open(front.get("/v1/events/watch?after=0").cookie(&grace)).await;
    let mut by_token = Reader::open(front.get("/v1/events/watch?after=0").token(&token)).await;
    by_session.next().await.unwrap();
    by_token.next().await.unwrap();
    let gone = front.delete(&format!("/v1/members/{GRACE}")).cookie(&ada).on_our_page();
    assert_eq!(gone.send().await.status, 200);
    front.get(WEB).cookie(&grace).send().await.must_be(401, "TU1001");
    front.get(WEB).token(&token).send().await.must_be(401, "TU1001");
    front.clock.advance(Duration::from_secs(1));
    for mut reader in [by_session, by_token] {
        let ended = async { while reader.next().await.is_some() {} };
        tokio::time::timeout(crate::front::PATIENCE, ended).await.expect("the stream should end");
    }
    let body = json!({"email": GRACE, "password": PASSWORD});
    let again = front.post("/v1/session").without(header::AUTHORIZATION).json(&body).send().await;
    again.must_be(401, "TU1001");
    front.seal().await;
    let events = front.get("/v1/events?order=newest&limit=3").send().await;
    for kind in ["MemberRemoved", "TokenRevoked"] {
        assert!(events.text().contains(kind), "{}", events.text());
    }
    assert!(!events.text().contains("example.com"), "{}", events.text());
}

/// S13: of two owners that remove each other concurrently, one stays.
#[tokio::test]
async fn s13_last_owner_stays_also_under_races() {
    let (front, ada) = front().await;
    let problem = front.delete(&format!("/v1/members/{ADA}")).cookie(&ada).on_our_page().send();
    problem.await.must_be(409, "TU1005");
    let demote = front.put(&format!("/v1/members/{ADA}")).cookie(&ada).on_our_page();
    demote.json(&json!({"role": "admin"})).send().await.must_be(409, "TU1005");
    for round in 0..5 {
        let email = format!("owner{round}@example.com");
        front.db.user(&email, Role::Owner, front.db.org).await;
        let other = front.sign_in(&email).await;
        let remove = |whom: &str, by: &str| {
            let path = format!("/v1/members/{whom}");
            front.delete(&path).cookie(by).on_our_page().send()
        };
        let (one, two) = tokio::join!(remove(&email, &ada), remove(ADA, &other));
        let removed = [&one, &two].iter().filter(|reply| reply.status == 200).count();
        assert_eq!(removed, 1, "{} {}", one.text(), two.text());
        let owners = front.get("/v1/members").send().await.json();
        assert_eq!(owners["items"].as_array().unwrap().len(), 1, "{owners}");
        if one.status != 200 {
            // Ada was removed; she comes back for the next round.
            let back = "update memberships set removed_at = null
                        where user_id = (select id from users where email = $1)";
            sqlx::query(back).bind(ADA).execute(&front.owner).await.unwrap();
            let gone = "update memberships set removed_at = created_at
                        where user_id = (select id from users where email = $1)";
            sqlx::query(gone).bind(&email).execute(&front.owner).await.unwrap();
        }
    }
    // A member may leave, by id.
    let id = front.db.user(GRACE, Role::Viewer, front.db.org).await;
    let grace = front.sign_in(GRACE).await;
    let leave = front.delete(&format!("/v1/members/{id}")).cookie(&grace).on_our_page();
    assert_eq!(leave.send().await.status, 200);
    front.get("/v1/projects").cookie(&grace).send().await.must_be(401, "TU1001");
    // An operator may remove an org's last owner, but not the platform's last operator.
    let gone = front.delete(&format!("/v1/members/{ADA}")).token(OPERATOR);
    assert_eq!(gone.header("trueup-org", "acme").send().await.status, 200);
    front.db.user("op@example.com", Role::Operator, PLATFORM).await;
    front.delete("/v1/members/op@example.com").token(OPERATOR).send().await.must_be(409, "TU1005");
}

/// Lifecycle without content: not in a read, not in a dry run, not in an exact preview.
#[tokio::test]
async fn admin_runs_services_without_seeing_what_they_contain() {
    let front = Front::with_web().await;
    for (kind, name) in [("variables", "GREETING"), ("secrets", "HIDDEN")] {
        let set = front.put(&format!("{WEB}/{kind}/{name}")).json(&json!({"value": "canary"}));
        assert_eq!(set.send().await.status, 202);
    }
    let admin = |method, path: &str| front.request(method, path).token(ADMIN);
    use axum::http::Method;
    for path in ["variables", "secrets", "logs", "preview-requests"] {
        let method = if path == "preview-requests" { Method::POST } else { Method::GET };
        let reply = admin(method, &format!("{WEB}/{path}")).json(&web("nginx:2")).send().await;
        reply.must_be(403, "TU1002");
    }
    for (path, body) in
        [("scale", json!({"replicas": 2})), ("pause", json!({})), ("resume", json!({}))]
    {
        let dry =
            admin(Method::POST, &format!("{WEB}/{path}?dry_run=true")).json(&body).send().await;
        assert_eq!(dry.status, 200, "{}", dry.text());
        assert!(
            !dry.text().contains("canary") && !dry.text().contains("GREETING"),
            "{}",
            dry.text()
        );
        let done = admin(Method::POST, &format!("{WEB}/{path}")).json(&body).send().await;
        assert_eq!(done.status, 202, "{}", done.text());
    }
    let shown = admin(Method::GET, WEB).send().await;
    assert!(!shown.text().contains("canary"), "{}", shown.text());
    assert_eq!(admin(Method::DELETE, WEB).send().await.status, 202);
}

#[tokio::test]
async fn can_i_says_why() {
    let front = Front::new().await;
    let ask = async |token: &str, query: &str| {
        let request = front.get(&format!("/v1/can-i{query}")).token(token);
        request.send().await
    };
    let all = ask(VIEWER, "").await.json();
    assert_eq!(all["role"], "viewer");
    assert_eq!(all["items"].as_array().unwrap().len(), 11);
    let one = ask(VIEWER, "?permission=manage_members").await.json();
    assert_eq!(
        one["items"],
        json!([{"permission": "manage_members", "allowed": false,
                "reason": "role `viewer` does not include `manage_members`"}])
    );
    ask(VIEWER, "?permission=root").await.must_be(400, "TU1103");
    let refused = front.get("/v1/tokens").token(VIEWER).send().await.must_be(403, "TU1002");
    assert_eq!(
        refused["detail"],
        "permission `manage_tokens` required: role `viewer` does not include `manage_tokens`; roles \
         with it are `owner`, `operator`"
    );
}

/// The first account: once, under races, and never when there is an account.
#[tokio::test]
async fn setup_code_creates_one_operator_and_no_second_account() {
    let front = Front::new().await;
    let code = "tu_setup_of_a_test";
    front.db.setup.ensure_setup_code(code, front.clock.now()).await.unwrap();
    let set_up = |code: &str, email: &str, password: &str| {
        let body = json!({"code": code, "email": email, "name": "Ada", "password": password});
        front.post("/v1/setup").without(header::AUTHORIZATION).json(&body).send()
    };
    set_up("tu_setup_of_another", ADA, PASSWORD).await.must_be(401, "TU1001");
    set_up(code, ADA, "password").await.must_be(422, "TU1201");
    set_up(code, "nobody", PASSWORD).await.must_be(422, "TU1201");
    let emails = (0..4).map(|n| format!("ada{n}@example.com")).collect::<Vec<_>>();
    let all = emails.iter().map(|email| set_up(code, email, PASSWORD));
    let replies = futures::future::join_all(all).await;
    let made: Vec<&Reply> = replies.iter().filter(|reply| reply.status == 200).collect();
    assert_eq!(made.len(), 1);
    assert_eq!(made[0].json()["role"], "operator");
    let orgs = front.get("/v1/orgs").cookie(&made[0].session()).send().await;
    assert_eq!(orgs.status, 200);
    for reply in &replies {
        if reply.status != 200 {
            reply.must_be(401, "TU1001");
        }
    }
    front.db.setup.ensure_setup_code("tu_setup_late", front.clock.now()).await.unwrap();
    set_up("tu_setup_late", ADA, PASSWORD).await.must_be(401, "TU1001");
}
