//! Domains at the door.

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
async fn a_domain_is_added_proved_listed_and_removed() {
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
    let proved = say(OPERATOR).header("trueup-org", "acme").send().await;
    assert_eq!(proved.status, StatusCode::ACCEPTED, "{}", proved.text());
    assert_eq!(proved.json()["state"], "opening");
    assert_eq!(front.delete(&path(HOST)).send().await.status, StatusCode::ACCEPTED);
    front.delete(&path(HOST)).send().await.must_be(404, "TU1003");
    assert_eq!(front.get(LIST).send().await.json(), json!({"items": []}));
}

#[tokio::test]
async fn what_is_no_host_is_refused() {
    let front = Front::with_web().await;
    for host in ["*.example.org", "Example.org", "example", "10.0.0.1", "db.internal", "a_b.org"] {
        front.put(&path(host)).json(&json!({})).send().await.must_be(422, "TU1201");
        front.get(&path(host)).send().await.must_be(404, "TU1003");
    }
    front.put(&path(HOST)).json(&json!({"tls": "mine"})).send().await.must_be(422, "TU1201");
    front.put(&path(HOST)).json(&json!({"port": 80})).send().await.must_be(400, "TU1101");
    for method in [Method::PUT, Method::DELETE] {
        let ask = || front.ask(method.clone(), &path(HOST)).json(&json!({}));
        ask().token(VIEWER).send().await.must_be(403, "TU1002");
        ask().token(STRANGER).send().await.must_be(404, "TU1003");
    }
    front.get(LIST).token(STRANGER).send().await.must_be(404, "TU1003");
}

#[tokio::test]
async fn a_preview_shows_what_a_proved_host_makes_and_proves_nothing() {
    let front = Front::with_web().await;
    let shown = front.put(&format!("{}?dry_run=true", path(HOST))).json(&json!({})).send().await;
    let shown = shown.json();
    assert_eq!((&shown["changed"], &shown["result"]["host"]), (&json!(true), &json!(HOST)));
    assert_eq!(shown["result"].get("verification"), None, "the text is not known yet: {shown}");
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
async fn a_look_into_dns_can_be_asked_for_and_says_how_far_the_proof_is() {
    let front = Front::with_web().await;
    let (look, verify) = (format!("{}/check", path(HOST)), format!("{}/verification", path(HOST)));
    let ask = || front.post(&look).json(&json!({}));
    ask().send().await.must_be(404, "TU1003");
    let added = front.put(&path(HOST)).json(&json!({})).send().await.json();
    let verification = &added["verification"];
    assert_eq!(verification["message"], format!("nobody looked for _trueup.{HOST} yet"));
    assert!(
        verification["next_check_at"].is_string() && verification.get("checked_at").is_none(),
        "{verification}"
    );
    let asked = ask().send().await;
    assert_eq!(asked.status, StatusCode::ACCEPTED, "{}", asked.text());
    assert!(
        asked.json()["verification"]["next_check_at"].as_str()
            < verification["next_check_at"].as_str()
    );
    assert_eq!(ask().send().await.status, StatusCode::OK, "it is about to happen");
    ask().token(VIEWER).send().await.must_be(403, "TU1002");
    ask().token(STRANGER).send().await.must_be(404, "TU1003");
    front.post(&look).json(&json!({"now": true})).send().await.must_be(400, "TU1101");

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
    let proved = say(true).await.json();
    assert_eq!(proved["verification"].get("message"), None, "{proved}");
    assert_eq!(proved["verification"].get("next_check_at"), None, "{proved}");
    assert_eq!(ask().send().await.status, StatusCode::OK, "it is proved");
    let taken = say(false).await.json();
    assert!(taken["verification"]["message"].as_str().unwrap().contains("add it again"), "{taken}");
    assert_eq!(
        taken["verification"].get("result"),
        None,
        "what was seen says nothing any more: {taken}"
    );
    ask().send().await.must_be(409, "TU1009");
}
