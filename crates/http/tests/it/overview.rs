//! The overview: numbers, what needs a person, and spend, of one org only.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::drift::{diverged, fought_over};
use crate::front::{Front, STRANGER, VIEWER};

impl Front {
    async fn overview(&self, token: &str) -> Value {
        let reply = self.get("/v1/overview").token(token).send().await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
        reply.json()
    }
}

#[tokio::test]
async fn overview_counts_services_and_names_what_needs_a_person() {
    let front = Front::with_web().await;
    diverged(&front, "spec.replicas", "proposed").await;
    fought_over(&front, "spec.paused").await;
    let seen = front.overview(VIEWER).await;
    assert_eq!(seen["services"]["total"], 1);
    let needs = seen["needs"]["items"].as_array().unwrap();
    let causes: Vec<_> = needs.iter().map(|need| need["cause"].as_str().unwrap()).collect();
    assert_eq!(causes, ["conflict", "proposal"], "{seen:#}");
    assert!(needs[0]["id"].as_str().unwrap().starts_with("cft_"));
    assert!(needs[1]["id"].as_str().unwrap().starts_with("dvg_"));
    assert_eq!((&needs[0]["project"], &needs[0]["service"]), (&json!("shop"), &json!("web")));
    assert_eq!(seen["needs"]["total"], 2);
    assert_eq!((&seen["drift"]["proposals"], &seen["drift"]["conflicts"]), (&json!(1), &json!(1)));
    assert_eq!(seen["clusters"][0]["name"], "test");
    assert_eq!(seen["spend"]["spent"]["micros"], 0);
}

#[tokio::test]
async fn seal_lag_is_zero_once_events_have_positions() {
    let front = Front::with_web().await;
    let before = front.overview(VIEWER).await;
    assert!(before["seal"]["unsealed"].as_i64().unwrap() > 0, "{before:#}");
    assert!(before["seal"]["oldest_at"].is_string());
    front.seal().await;
    let after = front.overview(VIEWER).await;
    assert_eq!(after["seal"], json!({"unsealed": 0}));
}

#[tokio::test]
async fn overview_of_another_org_is_empty() {
    let front = Front::with_web().await;
    let seen = front.overview(STRANGER).await;
    assert_eq!(seen["services"]["total"], 0);
    assert_eq!(seen["needs"], json!({"total": 0, "items": []}));
    assert_eq!(seen["seal"], json!({"unsealed": 0}));
    assert_eq!(seen["work"], json!({"queued": 0, "running": 0, "dead": 0}));
}
