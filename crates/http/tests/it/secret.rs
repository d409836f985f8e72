//! The API of variables and secrets: values of secrets are never returned (S40, S41).

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use trueup_rules::envelope::Keyring;

use crate::front::{DEVELOPER, Front, OWNER, STRANGER, TestRequest, VIEWER, WEB};

const CANARY: &str = "canary-77aa12";
const SHOP: &str = "/v1/projects/shop";

fn places() -> [String; 2] {
    [SHOP.to_owned(), WEB.to_owned()]
}

#[tokio::test]
async fn variable_is_set_listed_and_deleted() {
    let front = Front::with_web().await;
    for place in places() {
        let path = format!("{place}/variables/GREETING");
        let set = front.put(&path).json(&json!({"value": "hello"})).send().await;
        assert_eq!(set.status, StatusCode::ACCEPTED, "{}", set.text());
        let shown = set.json();
        assert_eq!((&shown["name"], &shown["value"]), (&json!("GREETING"), &json!("hello")));
        assert_eq!((&shown["version"], &shown["updated_by"]), (&json!(1), &json!(OWNER)));
        let again = front.put(&path).json(&json!({"value": "hello"})).send().await;
        assert_eq!((again.status, again.json()), (StatusCode::OK, shown.clone()));
        let list = front.get(&format!("{place}/variables")).send().await.json();
        assert_eq!(list, json!({ "items": [shown] }));
        assert_eq!(front.delete(&path).send().await.status, StatusCode::ACCEPTED);
        front.delete(&path).send().await.must_be(404, "TU1003");
        let list = front.get(&format!("{place}/variables")).send().await.json();
        assert_eq!(list, json!({ "items": [] }));
    }
    let generation = front.get(WEB).send().await.json()["generation"].clone();
    assert_eq!(generation, 5, "each of four changes was a generation");
}

#[tokio::test]
async fn several_variables_change_in_one_request_with_one_generation() {
    let front = Front::with_web().await;
    for (place, generation) in places().iter().zip([2, 4]) {
        let path = format!("{place}/variables");
        let patch = |body: Value| front.patch(&path).json(&body).send();
        let set = patch(json!({"set": {"ONE": "1", "TWO": "2"}})).await;
        assert_eq!(set.status, StatusCode::ACCEPTED, "{}", set.text());
        assert_eq!(front.get(&path).send().await.json(), set.json(), "all variables of the place");
        assert_eq!(front.get(WEB).send().await.json()["generation"], generation);
        let same = patch(json!({"set": {"ONE": "1"}})).await;
        assert_eq!((same.status, same.json()), (StatusCode::OK, set.json()));

        let key = |request: TestRequest| request.header("idempotency-key", "once").send();
        let body = json!({"set": {"ONE": "one"}, "delete": ["TWO"]});
        let first = key(front.patch(&path).json(&body)).await;
        assert_eq!(first.status, StatusCode::ACCEPTED, "{}", first.text());
        let left: Vec<Value> = first.json()["items"].as_array().unwrap().clone();
        assert_eq!((left.len(), &left[0]["value"]), (1, &json!("one")));
        let retry = key(front.patch(&path).json(&body)).await;
        assert_eq!((retry.status, retry.json()), (StatusCode::OK, first.json()));
        let other = json!({"set": {"ONE": "other"}});
        key(front.patch(&path).json(&other)).await.must_be(409, "TU1303");
        assert_eq!(front.get(WEB).send().await.json()["generation"], generation + 1);
    }
}

#[tokio::test]
async fn one_refused_variable_refuses_the_whole_request() {
    let front = Front::with_web().await;
    let path = format!("{WEB}/variables");
    let before = front.rows().await;
    let refused: [(Value, &[&str]); 4] = [
        (
            json!({"set": {"GOOD": "1", "APP_KEY": "a"}, "delete": ["NONE"]}),
            &["set.APP_KEY", "delete[0]"],
        ),
        (json!({"set": {"GOOD": "1", "a-b": "a"}}), &["set"]),
        (json!({"set": {"GOOD": "1"}, "delete": ["a-b"]}), &["delete[0]"]),
        (json!({"set": {"GOOD": "x".repeat(40_000)}}), &["set.GOOD"]),
    ];
    for (body, fields) in refused {
        let problem = front.patch(&path).json(&body).send().await.must_be(422, "TU1201");
        let named: Vec<&Value> =
            problem["errors"].as_array().unwrap().iter().map(|error| &error["field"]).collect();
        assert_eq!(named, fields, "{problem}");
    }
    let body = json!({"set": {"GOOD": "1"}});
    front.patch(&path).token(VIEWER).json(&body).send().await.must_be(403, "TU1002");
    front.patch(&path).token(STRANGER).json(&body).send().await.must_be(404, "TU1003");
    assert_eq!(front.rows().await, before);

    let dry = front.patch(&format!("{path}?dry_run=true")).json(&body).send().await.json();
    assert_eq!(
        (&dry["changed"], &dry["result"]["items"][0]["name"]),
        (&json!(true), &json!("GOOD"))
    );
    assert_eq!(dry["units"][0]["generation"], 2);
    assert_eq!(front.rows().await, before);
}

/// S41: every response of every route, and every event.
#[tokio::test]
async fn no_response_contains_a_secret() {
    let front = Front::with_web().await;
    let mut said = Vec::new();
    for place in places() {
        let path = format!("{place}/secrets/API_KEY");
        for version in [1, 2] {
            let set = front.put(&path).json(&json!({"value": CANARY})).send().await;
            assert_eq!(set.status, StatusCode::ACCEPTED, "{}", set.text());
            let shown = set.json();
            let fields: Vec<&String> = shown.as_object().unwrap().keys().collect();
            assert_eq!(fields, ["name", "updated_at", "updated_by", "version"]);
            assert_eq!(shown["version"], version);
            said.push(set.text().to_owned());
        }
        said.push(front.get(&path).send().await.text().to_owned());
        said.push(front.get(&format!("{place}/secrets")).send().await.text().to_owned());
        said.push(front.get(&format!("{place}/variables")).send().await.text().to_owned());
    }
    front.seal().await;
    for path in [SHOP, WEB, "/v1/services", "/v1/projects", "/v1/events", "/v1/events?limit=1000"] {
        said.push(front.get(path).send().await.text().to_owned());
    }
    for place in places() {
        let gone = front.delete(&format!("{place}/secrets/API_KEY")).send().await;
        assert_eq!(gone.status, StatusCode::ACCEPTED);
        said.push(gone.text().to_owned());
    }
    assert!(
        said.iter().any(|text| text.contains("SecretSet")),
        "the change is recorded as an event"
    );
    for text in said {
        assert!(!text.contains(CANARY), "{text}");
    }
}

/// S40: problems do not contain a secret that was sent.
#[tokio::test]
async fn no_problem_contains_a_secret() {
    let front = Front::with_web().await;
    let long = format!("{CANARY}{}", "x".repeat(40_000));
    let bodies: [(Value, u16); 6] = [
        (json!({"value": 1, "x": CANARY}), 400),
        (json!({"value": [CANARY]}), 400),
        (json!({"value": {"inner": CANARY}}), 400),
        (json!({"value": CANARY, "more": CANARY}), 400),
        (json!({"value": format!("{CANARY}\0")}), 422),
        (json!({"value": long}), 422),
    ];
    for (body, status) in bodies {
        let reply = front.put(&format!("{SHOP}/secrets/KEY")).json(&body).send().await;
        assert_eq!(reply.status.as_u16(), status, "{}", reply.text());
        assert!(!reply.text().contains(CANARY), "{}", reply.text());
    }
    let cut = format!("{{\"value\": \"{CANARY}");
    let reply = front.put(&format!("{SHOP}/secrets/KEY")).body(cut).send().await;
    assert!(reply.status == 400 && !reply.text().contains(CANARY), "{}", reply.text());
    // A value instead of the name.
    let misplaced = format!("{SHOP}/secrets/{CANARY}");
    let reply = front.put(&misplaced).json(&json!({"value": "a"})).send().await;
    reply.must_be(422, "TU1201");
    assert!(!reply.text().contains(CANARY), "{}", reply.text());
    // A name that the template generates.
    let taken = format!("{WEB}/secrets/APP_KEY");
    let reply = front.put(&taken).json(&json!({"value": CANARY})).send().await;
    reply.must_be(422, "TU1201");
    assert!(!reply.text().contains(CANARY), "{}", reply.text());
}

#[tokio::test]
async fn setting_values_requires_permission() {
    let front = Front::with_web().await;
    let mut requests = Vec::new();
    for place in places() {
        for kind in ["variables", "secrets"] {
            let list = format!("{place}/{kind}");
            assert_eq!(front.get(&list).token(VIEWER).send().await.status, 200);
            front.get(&list).token(STRANGER).send().await.must_be(404, "TU1003");
            requests.push(format!("{list}/KEY_{}", kind.to_uppercase()));
        }
    }
    let before = front.rows().await;
    for path in &requests {
        for method in [Method::PUT, Method::DELETE] {
            let request = || front.request(method.clone(), path).json(&json!({"value": "a"}));
            request().token(VIEWER).send().await.must_be(403, "TU1002");
            request().token(STRANGER).send().await.must_be(404, "TU1003");
        }
    }
    assert_eq!(front.rows().await, before);
    for path in &requests {
        let set = front.put(path).token(DEVELOPER).json(&json!({"value": "a"})).send().await;
        assert_eq!(set.status, StatusCode::ACCEPTED, "{}", set.text());
    }
}

#[tokio::test]
async fn wrong_key_refuses_secrets_and_nothing_else() {
    let mut front = Front::with_web().await;
    let path = format!("{SHOP}/secrets/KEY");
    assert_eq!(front.put(&path).json(&json!({"value": "a"})).send().await.status, 202);
    front.rebuild(|state| state.encryptor = Keyring::new(&[8; 32]).encryptor());
    let reply = front.put(&path).json(&json!({"value": CANARY})).send().await;
    reply.must_be(503, "TU2101");
    assert!(!reply.text().contains(CANARY));
    front.declare("nginx:2").await;
}
