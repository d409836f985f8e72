//! The end of a project, as a caller meets it.

use axum::http::StatusCode;
use serde_json::json;

use crate::front::{DEVELOPER, Front, WEB, web};

const SHOP: &str = "/v1/projects/shop";

#[tokio::test]
async fn a_project_is_deleted_with_its_services_once_and_takes_nothing_new() {
    let front = Front::with_web().await;
    let preview = front.delete(&format!("{SHOP}?dry_run=true")).send().await.json();
    let names: Vec<&str> = preview["units"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["shop", "shop/web"], "{preview}");
    let goes = |unit: usize| {
        let objects = preview["units"][unit]["objects"].as_array().unwrap();
        assert!(
            !objects.is_empty() && objects.iter().all(|it| it["verb"] == "delete"),
            "{preview}"
        );
    };
    goes(0);
    goes(1);
    assert_eq!(front.get(SHOP).send().await.json()["desired"], "active");

    let refused = front.delete(SHOP).token(DEVELOPER).send().await;
    refused.must_be(403, "TU1002");
    let accepted = front.delete(SHOP).send().await;
    assert_eq!(accepted.status, StatusCode::ACCEPTED, "{}", accepted.text());
    let shown = accepted.json();
    assert_eq!((&shown["desired"], &shown["generation"]), (&json!("deleted"), &json!(2)));
    assert_eq!(shown["reconciliation"], "pending");
    assert_eq!(front.delete(SHOP).send().await.status, StatusCode::OK, "it is so already");
    let service = front.get(WEB).send().await.json();
    assert_eq!((&service["desired"], &service["generation"]), (&json!("deleted"), &json!(2)));

    front
        .put("/v1/projects/shop/services/api")
        .json(&web("api:1"))
        .send()
        .await
        .must_be(409, "TU1302");
    front.put(SHOP).json(&json!({})).send().await.must_be(409, "TU1302");
    front
        .put(&format!("{SHOP}/variables/REGION"))
        .json(&json!({"value": "x"}))
        .send()
        .await
        .must_be(409, "TU1302");
    front.delete("/v1/projects/none").send().await.must_be(404, "TU1003");
}
