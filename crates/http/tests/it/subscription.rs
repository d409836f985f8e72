//! Offers and subscriptions: published with checks, previewed, changed, and refused with the reason.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::front::{Front, OPERATOR, OWNER, Reply, VIEWER};

const SUBSCRIPTION: &str = "/v1/subscription";

fn offer() -> Value {
    json!({
        "summary": "Two services.", "currency": "EUR", "fee_micros": 10_000_000,
        "limits": {"services": 2, "cpu_millis": 9000, "memory_mib": 9000, "storage_gib": 9, "gpus": 0},
        "included": [{"item": "pod:small", "units": 3600}],
        "discounts": [{"off_ppm": 100_000}]
    })
}

async fn publish(front: &Front, body: &Value) -> Reply {
    front.put("/v1/offers/pair").token(OPERATOR).json(body).send().await
}

async fn change(front: &Front, query: &str, at: &str) -> Reply {
    let body = json!({"offer": "pair", "at": at});
    front.put(&format!("{SUBSCRIPTION}{query}")).token(OWNER).json(&body).send().await
}

#[tokio::test]
async fn an_offer_is_published_in_versions_and_checked() {
    let front = Front::new().await;
    let first = publish(&front, &offer()).await;
    assert_eq!((first.status, &first.json()["version"]), (StatusCode::CREATED, &json!(1)));
    assert_eq!(publish(&front, &offer()).await.status, StatusCode::OK, "the same terms");
    for (change, field) in [
        (json!({"currency": "euro"}), "currency"),
        (json!({"fee_micros": -1}), "fee_micros"),
        (json!({"included": [{"item": "gold", "units": 1}]}), "included.0.item"),
        (json!({"included": [{"item": "subscription:pair", "units": 1}]}), "included.0.item"),
        (json!({"prices": [{"item": "pod:small", "micros": -1}]}), "prices.0"),
        (json!({"prices": [{"item": "pod:small", "micros": 1, "per": 0}]}), "prices.0"),
        (json!({"discounts": [{"off_ppm": 1_000_001}]}), "discounts.0.off_ppm"),
        (json!({"at_zero": "explode"}), "at_zero"),
    ] {
        let mut wrong = offer();
        wrong.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let problem = publish(&front, &wrong).await.must_be(422, "TU1201");
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
    let listed = front.get("/v1/offers").token(VIEWER).send().await.json();
    let names: Vec<&str> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["starter", "pair", "team", "enterprise"], "by their fee");
}

#[tokio::test]
async fn a_change_is_previewed_and_then_holds() {
    let front = Front::with_web().await;
    publish(&front, &offer()).await;
    let preview = change(&front, "?dry_run=true", "now").await.json();
    let result = &preview["result"];
    assert_eq!(result["monthly_difference"]["text"], "10.00 EUR", "{preview}");
    let services = json!({"resource": "services", "used": 1, "before": 200, "after": 2});
    assert!(result["limits"].as_array().unwrap().contains(&services), "{result}");
    let current = front.get(SUBSCRIPTION).token(OWNER).send().await.json();
    assert_eq!(current["current"], Value::Null, "a preview records nothing: {current}");

    let changed = change(&front, "", "now").await;
    assert_eq!(changed.status, StatusCode::OK, "{}", changed.text());
    let current = front.get(SUBSCRIPTION).token(OWNER).send().await.json();
    assert_eq!(current["current"]["offer"]["name"], "pair", "{current}");
    assert_eq!(current["included"][0]["item"], "pod:small");
    let quota = front.get("/v1/quota").token(VIEWER).send().await.json();
    assert_eq!(
        (&quota["limit"]["services"], &quota["source"]),
        (&json!(2), &json!("subscription"))
    );
    change(&front, "", "tomorrow").await.must_be(422, "TU1201");
}

#[tokio::test]
async fn more_use_than_an_offer_allows_is_refused_with_each_resource() {
    let front = Front::with_web().await;
    let mut small = offer();
    small["limits"]["services"] = json!(0);
    publish(&front, &small).await;
    let problem = change(&front, "", "now").await.must_be(409, "TU1401");
    assert_eq!(problem["errors"][0]["message"], "1 are used, and the offer allows 0", "{problem}");
    let later = change(&front, "", "next_period").await.json();
    let warning = later["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("1 services are used now, and the offer allows 0"), "{later}");
}
