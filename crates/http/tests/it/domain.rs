//! The API of domains.

use axum::http::{Method, StatusCode};
use serde_json::json;
use trueup_model::Clock;
use trueup_model::domain::DnsResult;

use crate::front::{DEVELOPER, Front, OPERATOR, OWNER, STRANGER, VIEWER, WEB};

const LIST: &str = "/v1/projects/shop/domains";
const HOST: &str = "www.example.org";

fn path(host: &str) -> String {
    format!("{WEB}/domains/{host}")
}

#[tokio::test]
async fn domain_is_added_verified_listed_and_removed() {
    let front = Front::with_web().await;
    let add = front.put(&path(HOST)).token(DEVELOPER).json(&json!({})).send().await;
    assert_eq!(add.status, StatusCode::ACCEPTED, "{}", add.text());
    let shown = add.json();
    assert_eq!((&shown["state"], &shown["tls"]), (&json!("unverified"), &json!("auto")));
    let verification = &shown["verification"];
    assert_eq!(verification["name"], format!("_trueup.{HOST}"));
    assert_eq!(verification["value"], shown["id"]);
    assert_eq!(front.put(&path(HOST)).json(&json!({"tls": "auto"})).send().await.status, 200);
    assert_eq!(front.get(LIST).token(VIEWER).send().await.json(), json!({"items": [shown]}));
    assert_eq!(front.get(&path(HOST)).token(VIEWER).send().await.json(), shown);

    let verify = format!("{}/verification", path(HOST));
    let say = |token| front.put(&verify).token(token).json(&json!({"verified": true}));
    say(OWNER).send().await.must_be(403, "TU1002");
    let verified = say(OPERATOR).header("trueup-org", "acme").send().await;
    assert_eq!(verified.status, StatusCode::ACCEPTED, "{}", verified.text());
    assert_eq!(verified.json()["state"], "pending");
    assert_eq!(verified.json()["certificate"], json!({"state": "none"}));
    assert_eq!(front.delete(&path(HOST)).send().await.status, StatusCode::ACCEPTED);
    front.delete(&path(HOST)).send().await.must_be(404, "TU1003");
    assert_eq!(front.get(LIST).send().await.json(), json!({"items": []}));
}

#[tokio::test]
async fn invalid_host_is_refused() {
    let front = Front::with_web().await;
    for host in ["*.example.org", "Example.org", "example", "10.0.0.1", "db.internal", "a_b.org"] {
        front.put(&path(host)).json(&json!({})).send().await.must_be(422, "TU1201");
        front.get(&path(host)).send().await.must_be(404, "TU1003");
    }
    front.put(&path(HOST)).json(&json!({"tls": "mine"})).send().await.must_be(422, "TU1201");
    front.put(&path(HOST)).json(&json!({"port": 80})).send().await.must_be(400, "TU1101");
    for method in [Method::PUT, Method::DELETE] {
        let request = || front.request(method.clone(), &path(HOST)).json(&json!({}));
        request().token(VIEWER).send().await.must_be(403, "TU1002");
        request().token(STRANGER).send().await.must_be(404, "TU1003");
    }
    front.get(LIST).token(STRANGER).send().await.must_be(404, "TU1003");
}

#[tokio::test]
async fn dry_run_shows_the_objects_of_a_domain_and_verifies_nothing() {
    let front = Front::with_web().await;
    let shown = front.put(&format!("{}?dry_run=true", path(HOST))).json(&json!({})).send().await;
    let shown = shown.json();
    assert_eq!((&shown["changed"], &shown["result"]["host"]), (&json!(true), &json!(HOST)));
    assert_eq!(shown["result"].get("verification"), None, "the value is not known yet: {shown}");
    assert_eq!(front.get(LIST).send().await.json(), json!({"items": []}));

    let service = front.get(WEB).send().await;
    let add = |tag: &str| front.put(&path(HOST)).header("if-match", tag).json(&json!({})).send();
    add("\"g9\"").await.must_be(412, "TU1301");
    assert_eq!(add(service.header("etag").unwrap()).await.status, StatusCode::ACCEPTED);
    let verify = format!("{}/verification?dry_run=true", path(HOST));
    let say = front.put(&verify).token(OPERATOR).header("trueup-org", "acme");
    let shown = say.json(&json!({"verified": true})).send().await.json();
    let objects = shown["units"][0]["objects"].as_array().unwrap();
    let made: Vec<_> = objects.iter().map(|one| (&one["verb"], &one["kind"])).collect();
    let create = json!("create");
    assert_eq!(made, [(&create, &json!("NetworkPolicy")), (&create, &json!("Ingress"))]);
    assert_eq!(front.get(&path(HOST)).send().await.json()["state"], "unverified");
}

#[tokio::test]
async fn dns_check_can_be_requested_and_reports_its_result() {
    let front = Front::with_web().await;
    let (check, verify) = (format!("{}/check", path(HOST)), format!("{}/verification", path(HOST)));
    let request = || front.post(&check).json(&json!({}));
    request().send().await.must_be(404, "TU1003");
    let added = front.put(&path(HOST)).json(&json!({})).send().await.json();
    let verification = &added["verification"];
    assert_eq!(verification["message"], format!("no DNS check of _trueup.{HOST} yet"));
    assert!(
        verification["next_check_at"].is_string() && verification.get("checked_at").is_none(),
        "{verification}"
    );
    let asked = request().send().await;
    assert_eq!(asked.status, StatusCode::ACCEPTED, "{}", asked.text());
    assert!(
        asked.json()["verification"]["next_check_at"].as_str()
            < verification["next_check_at"].as_str()
    );
    assert_eq!(request().send().await.status, StatusCode::OK, "a check is about to run");
    request().token(VIEWER).send().await.must_be(403, "TU1002");
    request().token(STRANGER).send().await.must_be(404, "TU1003");
    front.post(&check).json(&json!({"now": true})).send().await.must_be(400, "TU1101");

    let (worker, now) = (&front.db.worker, front.clock.now());
    let due = worker.claim_dns_checks(8, 8, &[], now).await.unwrap();
    worker.record_dns_check(&due[0], DnsResult::Nothing, "no TXT record yet", now).await.unwrap();
    let seen = front.get(&path(HOST)).token(VIEWER).send().await.json()["verification"].clone();
    assert_eq!(seen["result"], "nothing");
    assert_eq!(seen["message"], format!("no TXT record yet at _trueup.{HOST}"));
    assert!(seen["checked_at"].is_string() && seen["next_check_at"].is_string(), "{seen}");

    let say = |verified: bool| {
        let say = front.put(&verify).token(OPERATOR).header("trueup-org", "acme");
        say.json(&json!({ "verified": verified })).send()
    };
    let verified = say(true).await.json();
    assert_eq!(verified["verification"].get("message"), None, "{verified}");
    assert_eq!(verified["verification"].get("next_check_at"), None, "{verified}");
    assert_eq!(request().send().await.status, StatusCode::OK, "the domain is verified");
    let taken = say(false).await.json();
    assert!(taken["verification"]["message"].as_str().unwrap().contains("add it again"), "{taken}");
    assert_eq!(taken["verification"].get("result"), None, "earlier results are not shown: {taken}");
    request().send().await.must_be(409, "TU1009");
}
