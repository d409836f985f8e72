//! The API for deleting a project.

use axum::http::StatusCode;
use serde_json::json;

use crate::front::{DEVELOPER, Front, OPERATOR, STRANGER, VIEWER, WEB, web};

const SHOP: &str = "/v1/projects/shop";

#[tokio::test]
async fn project_is_deleted_with_its_services_and_accepts_no_changes() {
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
    assert_eq!(front.delete(SHOP).send().await.status, StatusCode::OK, "already being deleted");
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

#[tokio::test]
async fn project_force_delete_requires_owner_reason_and_deleted_services() {
    let front = Front::with_web().await;
    let path = format!("{SHOP}/force-delete");
    let body = |generation: i64| json!({"reason": "nobody runs it", "generation": generation});
    let force = |generation: i64| front.post(&path).json(&body(generation));
    let field_error = |problem: serde_json::Value| {
        let error = &problem["errors"][0];
        (error["field"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap().to_owned())
    };
    let (field, said) = field_error(force(1).send().await.must_be(422, "TU1201"));
    assert_eq!((&*field, &*said), ("project", "is not being deleted; delete it first"));
    front.delete(SHOP).send().await;
    let (field, said) = field_error(force(2).send().await.must_be(422, "TU1201"));
    assert!(field == "project" && said.contains("services: web;"), "{said}");
    front.end_services().await;

    for token in [DEVELOPER, VIEWER] {
        force(2).token(token).send().await.must_be(403, "TU1002");
    }
    // One of the two required permissions is not enough.
    let half = json!({"name": "half", "role": "owner", "permissions": ["read", "manage_projects"]});
    let half = front.create_token(&half).await;
    force(2).token(&half).send().await.must_be(403, "TU1002");
    force(2).token(STRANGER).send().await.must_be(404, "TU1003");
    force(1).send().await.must_be(412, "TU1301");
    let silent = json!({"reason": "  ", "generation": 2});
    front.post(&path).json(&silent).send().await.must_be(422, "TU1201");
    let odd = json!({"reason": "nobody runs it", "generation": 2, "wipe": true});
    front.post(&path).json(&odd).send().await.must_be(400, "TU1101");
    assert_eq!(
        front.get(SHOP).send().await.json()["generation"],
        2,
        "refused requests change nothing"
    );

    let preview = front.post(&format!("{path}?dry_run=true")).json(&body(2)).send().await.json();
    assert_eq!(preview["units"][0]["objects"], json!([]), "nothing more is deleted: {preview}");
    let key = |name: &'static str| force(2).header("idempotency-key", name);
    let accepted = key("k1").send().await;
    assert_eq!(accepted.status, StatusCode::ACCEPTED, "{}", accepted.text());
    assert_eq!(accepted.json()["generation"], 3);
    assert_eq!(key("k1").send().await.status, StatusCode::OK, "a retry with the same key");
    force(2).send().await.must_be(412, "TU1301");
    let again = force(3).token(OPERATOR).header("trueup-org", "acme").send().await;
    assert_eq!((again.status, &again.json()["generation"]), (StatusCode::OK, &json!(3)));
}
