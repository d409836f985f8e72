//! Prices of plans: former ones stay on record, later ones wait for their time.

use std::time::Duration;

use axum::http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};
use trueup_model::Clock;

use crate::front::{Front, OPERATOR, Reply, VIEWER, WEB};

const PLAN: &str = "/v1/plans/tiny";

fn plan(micros: i64) -> Value {
    json!({
        "summary": "Tiny.", "cpu_millis": 50, "memory_mib": 32, "hourly_micros": micros,
        "disk_gib_hourly_micros": 7, "currency": "EUR"
    })
}

async fn put(front: &Front, body: &Value) -> Reply {
    front.put(PLAN).token(OPERATOR).json(body).send().await
}

/// A plan whose price was 100 and is 200.
async fn raised() -> Front {
    let front = Front::new().await;
    assert_eq!(put(&front, &plan(100)).await.status, StatusCode::CREATED);
    front.clock.advance(Duration::from_secs(60));
    assert_eq!(put(&front, &plan(200)).await.status, StatusCode::CREATED);
    front
}

#[tokio::test]
async fn former_prices_stay_on_record() {
    let front = raised().await;
    let listed = front.get(&format!("{PLAN}/prices")).token(VIEWER).send().await;
    assert_eq!(listed.status, StatusCode::OK);
    let items = listed.json()["items"].clone();
    let [now, before] = &items.as_array().unwrap()[..] else { panic!("{items}") };
    assert_eq!((&now["hourly"]["micros"], &before["hourly"]["micros"]), (&json!(200), &json!(100)));
    assert_eq!(now["disk_gib_hourly"]["text"], "0.000007 EUR");
    assert_eq!((&now["until"], &before["until"]), (&Value::Null, &now["from"]));
    assert_eq!((&now["created_by"], &now["created_at"]), (&json!(OPERATOR), &now["from"]));
    assert!(now["id"].as_str().unwrap().starts_with("prc_"), "{now}");
    front.get("/v1/plans/none/prices").send().await.must_be(404, "TU1003");
}

#[tokio::test]
async fn a_later_price_is_shown_when_it_holds() {
    let front = raised().await;
    let later = front.clock.now().checked_add(SignedDuration::from_hours(1)).unwrap();
    let mut body = plan(300);
    body["effective_from"] = json!(later);
    let reply = put(&front, &body).await;
    assert_eq!(reply.status, StatusCode::CREATED);
    assert_eq!(reply.json()["hourly"]["micros"], 200, "the price that holds now");
    assert_eq!(put(&front, &body).await.status, StatusCode::OK);
    let shown = async || {
        let plans = front.get("/v1/plans").send().await.json();
        let tiny = plans["items"].as_array().unwrap().iter().find(|plan| plan["name"] == "tiny");
        tiny.unwrap()["hourly"]["micros"].clone()
    };
    assert_eq!(shown().await, 200);
    let web = json!({"template": "web@1", "plan": "tiny", "parameters": {"image": "a"}});
    let dry = || front.put(&format!("{WEB}?dry_run=true")).json(&web).send();
    assert_eq!(dry().await.json()["units"][0]["monthly_after"]["micros"], 200 * 730);
    front.clock.advance(Duration::from_secs(3600));
    assert_eq!(shown().await, 300);
    assert_eq!(dry().await.json()["units"][0]["monthly_after"]["micros"], 300 * 730);
}

#[tokio::test]
async fn a_price_in_the_past_is_refused() {
    let front = raised().await;
    let mut body = plan(300);
    body["effective_from"] = json!("2000-01-01T00:00:00Z");
    let problem = put(&front, &body).await.must_be(422, "TU1201");
    assert_eq!(problem["errors"][0]["field"], "effective_from");
    let message = problem["errors"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("must not be before the present"), "{message}");
    body["effective_from"] = json!("tomorrow");
    put(&front, &body).await.must_be(400, "TU1101");
}

#[tokio::test]
async fn a_release_names_its_price_and_a_preview_its_maximum() {
    let front = raised().await;
    let web = json!({"template": "web@1", "plan": "tiny", "parameters": {"image": "a"}});
    assert_eq!(front.put(WEB).json(&web).send().await.status, StatusCode::ACCEPTED);
    let releases = front.get(&format!("{WEB}/releases")).send().await.json();
    let prices = front.get(&format!("{PLAN}/prices")).send().await.json();
    assert_eq!(releases["items"][0]["price_version"], prices["items"][0]["id"]);

    let scale = front.post(&format!("{WEB}/autoscale?dry_run=true"));
    let shown = scale.json(&json!({"min": 1, "max": 3})).send().await.json();
    let unit = &shown["units"][0];
    assert_eq!(
        (&unit["priced_pods"], &unit["monthly_after"]["micros"]),
        (&json!(3), &json!(438_000))
    );
}
