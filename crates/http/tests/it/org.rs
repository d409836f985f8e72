//! Deleting an org, and reading the receipts of all of its projects.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::front::{Front, OPERATOR, OWNER, STRANGER, VIEWER, WEB, web};
use crate::receipt::complete_deletions;

const ACME: &str = "/v1/orgs/acme";
const RECEIPTS: &str = "/v1/orgs/acme/receipts";

#[tokio::test]
async fn org_is_deleted_once_and_accepts_nothing_new() {
    let front = Front::with_web().await;
    for token in [OWNER, STRANGER] {
        front.delete(ACME).token(token).send().await.must_be(403, "TU1002");
    }
    for unknown in ["/v1/orgs/trueup", "/v1/orgs/unknown"] {
        front.delete(unknown).token(OPERATOR).send().await.must_be(404, "TU1003");
    }
    let preview = front.delete(&format!("{ACME}?dry_run=true")).token(OPERATOR).send().await;
    let units = preview.json()["units"].clone();
    let names: Vec<&Value> = units.as_array().unwrap().iter().map(|unit| &unit["name"]).collect();
    assert_eq!(names, ["shop", "shop/web"]);
    assert_eq!(front.get(ACME).send().await.json().get("deleting_at"), None);

    let deleted = front.delete(ACME).token(OPERATOR).send().await;
    assert_eq!(deleted.status, StatusCode::ACCEPTED, "{}", deleted.text());
    assert!(deleted.json()["deleting_at"].is_string(), "{}", deleted.text());
    let again = front.delete(ACME).token(OPERATOR).send().await;
    assert_eq!((again.status, again.json()), (StatusCode::OK, deleted.json()));

    let refused = front.put("/v1/projects/fresh").send().await.must_be(409, "TU1302");
    assert_eq!(refused["detail"], "the org is being deleted; nothing new is accepted in it");
    front.put(WEB).json(&web("nginx:2")).send().await.must_be(409, "TU1302");
    assert_eq!(front.get(WEB).token(VIEWER).send().await.json()["desired"], "deleted");
    assert_eq!(front.get(ACME).send().await.json(), deleted.json(), "its tokens keep reading");
}

#[tokio::test]
async fn receipts_of_an_org_are_complete_once_everything_in_it_is_deleted() {
    let front = Front::with_web().await;
    assert_eq!(front.put("/v1/projects/blog").send().await.status, StatusCode::ACCEPTED);
    let open = front.get(RECEIPTS).token(VIEWER).send().await.json();
    assert_eq!((&open["org"], &open["complete"]), (&json!("acme"), &json!(false)));
    assert_eq!(open.get("deleting_at"), None, "{open}");

    let deleted = front.delete(ACME).token(OPERATOR).send().await.json();
    let deleting = front.get(RECEIPTS).send().await.json();
    assert_eq!(deleting["deleting_at"], deleted["deleting_at"]);
    assert_eq!(deleting["complete"], false, "{deleting}");

    complete_deletions(&front).await;
    let by_id = format!("/v1/orgs/{}/receipts", deleted["id"].as_str().unwrap());
    let done = front.get(&by_id).send().await.json();
    assert_eq!(done["complete"], true, "{done}");
    let projects: Vec<(&Value, usize)> = done["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|project| (&project["project"], project["items"].as_array().unwrap().len()))
        .collect();
    assert_eq!(projects, [(&json!("blog"), 1), (&json!("shop"), 2)]);
    assert_eq!(front.get(&by_id).token(OPERATOR).send().await.json(), done);
    front.get(&by_id).token(STRANGER).send().await.must_be(404, "TU1003");
}

#[tokio::test]
async fn org_without_projects_is_complete_only_once_its_deletion_is_requested() {
    let front = Front::new().await;
    let complete = async || {
        let receipts = front.get("/v1/orgs/other/receipts").token(OPERATOR).send().await.json();
        (receipts["complete"].clone(), receipts["items"].clone())
    };
    assert_eq!(complete().await, (json!(false), json!([])));
    let deleted = front.delete("/v1/orgs/other").token(OPERATOR).send().await;
    assert_eq!(deleted.status, StatusCode::ACCEPTED, "{}", deleted.text());
    assert_eq!(complete().await, (json!(true), json!([])));
}
