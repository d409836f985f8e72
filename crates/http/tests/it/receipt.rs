//! Deletion receipts: one bundle for each project, and each receipt by the id of its subject.

use axum::http::StatusCode;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use trueup_model::receipt::{Reading, Receipt};

use crate::front::{Front, OPERATOR, STRANGER, VIEWER, WEB, web};

const SHOP: &str = "/v1/projects/shop";
const RECEIPTS: &str = "/v1/projects/shop/receipts";
const VERIFIED: &str = "2026-01-01T00:00:01Z";

/// Completes every deletion with a receipt, as the reports of an executor would.
pub(crate) async fn complete_deletions(front: &Front) {
    let at = VERIFIED.parse().unwrap();
    let reading = Reading { began_at: at, ended_at: at };
    let receipt = Receipt::of_absence(Vec::new(), "one", vec![reading]);
    let receipt = serde_json::to_string(&receipt).unwrap();
    for (table, kind) in [("services", "service"), ("projects", "project")] {
        let statement = format!(
            "with gone as (update {table} set deleted_at = $2::text::timestamptz
                           where desired = 'deleted' and deleted_at is null returning id, org_id)
             insert into receipts (subject_kind, subject_id, org_id, receipt, verified_at)
             select '{kind}', id, org_id, $1::text::jsonb, $2::text::timestamptz from gone"
        );
        sqlx::query(AssertSqlSafe(statement))
            .bind(receipt.as_str())
            .bind(VERIFIED)
            .execute(&front.owner)
            .await
            .unwrap();
    }
}

/// A project that was created and deleted; returns it as it was shown last.
pub(crate) async fn deleted_project(front: &Front) -> Value {
    let path = "/v1/projects/former";
    assert_eq!(front.put(path).send().await.status, StatusCode::ACCEPTED);
    let deleted = front.delete(path).send().await;
    assert_eq!(deleted.status, StatusCode::ACCEPTED, "{}", deleted.text());
    complete_deletions(front).await;
    deleted.json()
}

/// Kind and name of each entry of a list.
fn named(list: &Value) -> Vec<(String, String)> {
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap().to_owned();
    let entries = list.as_array().unwrap().iter();
    entries.map(|entry| (text(entry, "kind"), text(entry, "name"))).collect()
}

fn units(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned())).collect()
}

#[tokio::test]
async fn bundle_is_complete_when_the_project_and_every_service_have_a_receipt() {
    let front = Front::with_web().await;
    let old = format!("{SHOP}/services/old");
    assert_eq!(front.put(&old).json(&web("old:1")).send().await.status, StatusCode::ACCEPTED);
    assert_eq!(front.delete(&old).send().await.status, StatusCode::ACCEPTED);
    complete_deletions(&front).await;

    let open = front.get(RECEIPTS).token(VIEWER).send().await.json();
    assert_eq!((&open["project"], &open["complete"]), (&json!("shop"), &json!(false)));
    assert_eq!(named(&open["items"]), units(&[("service", "old")]), "deleted earlier");
    assert_eq!(named(&open["missing"]), units(&[("service", "web"), ("project", "shop")]));
    assert_eq!(open["missing"][0]["desired"], "active");

    assert_eq!(front.delete(SHOP).send().await.status, StatusCode::ACCEPTED);
    let deleting = front.get(RECEIPTS).send().await.json();
    assert_eq!(deleting["complete"], false);
    assert_eq!(deleting["missing"][0]["desired"], "deleted");

    complete_deletions(&front).await;
    let done = front.get(RECEIPTS).send().await.json();
    assert_eq!((&done["complete"], &done["missing"]), (&json!(true), &json!([])), "{done}");
    let all = units(&[("service", "old"), ("service", "web"), ("project", "shop")]);
    assert_eq!(named(&done["items"]), all);
    for item in done["items"].as_array().unwrap() {
        assert_eq!(item["project_id"], done["project_id"], "{item}");
        assert_eq!(item["verified_at"], VERIFIED, "{item}");
        assert_eq!(item["receipt"]["level"], "api_absence", "{item}");
    }
}

#[tokio::test]
async fn pages_cover_the_bundle_and_each_says_whether_it_is_complete() {
    let front = Front::with_web().await;
    // The name `old` is used twice: each of the services has its own receipt.
    for service in ["old", "old", "api"] {
        let path = format!("{SHOP}/services/{service}");
        assert_eq!(front.put(&path).json(&web("old:1")).send().await.status, 202);
        assert_eq!(front.delete(&path).send().await.status, 202);
        complete_deletions(&front).await;
    }
    let whole = front.get(RECEIPTS).send().await.json();
    let all = units(&[("service", "api"), ("service", "old"), ("service", "old")]);
    assert_eq!((named(&whole["items"]), &whole["next"]), (all, &Value::Null));
    let (mut items, mut missing, mut pages) = (Vec::new(), Vec::new(), 0);
    let mut path = format!("{RECEIPTS}?limit=2");
    loop {
        let page = front.get(&path).token(VIEWER).send().await.json();
        assert_eq!(page["complete"], false, "the whole bundle is not: {page}");
        items.extend(page["items"].as_array().unwrap().clone());
        missing.extend(page["missing"].as_array().unwrap().clone());
        pages += 1;
        let Some(next) = page["next"].as_str() else { break };
        path = format!("{RECEIPTS}?limit=2&after={next}");
    }
    assert_eq!((json!(items), json!(missing)), (whole["items"].clone(), whole["missing"].clone()));
    assert_eq!(pages, 3);
    let full = front.get(&format!("{RECEIPTS}?limit=5")).send().await.json();
    assert_eq!(full["next"], Value::Null, "a full last page has no `next`");
    for bad in ["limit=0", "limit=1001", "after=web", "after=", "cursor=x"] {
        front.get(&format!("{RECEIPTS}?{bad}")).send().await.must_be(400, "TU1103");
    }
}

#[tokio::test]
async fn bundle_of_a_deleted_project_stays_readable_by_id_when_its_name_is_taken_again() {
    let front = Front::with_web().await;
    assert_eq!(front.delete(SHOP).send().await.status, StatusCode::ACCEPTED);
    complete_deletions(&front).await;
    let done = front.get(RECEIPTS).send().await.json();
    let id = done["project_id"].as_str().unwrap();

    assert_eq!(front.put(SHOP).send().await.status, StatusCode::ACCEPTED);
    let next = front.get(RECEIPTS).send().await.json();
    assert_ne!(next["project_id"], done["project_id"], "the name means the new project");
    assert_eq!((&next["items"], &next["complete"]), (&json!([]), &json!(false)));
    let by_id = format!("/v1/projects/{id}/receipts");
    assert_eq!(front.get(&by_id).send().await.json(), done);
    let operator = front.get(&by_id).token(OPERATOR).header("trueup-org", "acme").send().await;
    assert_eq!(operator.json(), done);
    front.get(&by_id).token(STRANGER).send().await.must_be(404, "TU1003");
    front.get("/v1/projects/never/receipts").send().await.must_be(404, "TU1003");
}

#[tokio::test]
async fn receipt_is_read_by_the_id_of_its_subject() {
    let front = Front::with_web().await;
    let service = front.get(WEB).send().await.json();
    let of_web = format!("/v1/receipts/{}", service["id"].as_str().unwrap());
    let none = front.get(&of_web).send().await.must_be(404, "TU1003");
    assert!(none["detail"].as_str().unwrap().contains("once the deletion is complete"), "{none}");

    assert_eq!(front.delete(SHOP).send().await.status, StatusCode::ACCEPTED);
    complete_deletions(&front).await;
    let done = front.get(RECEIPTS).send().await.json();
    for item in done["items"].as_array().unwrap() {
        let path = format!("/v1/receipts/{}", item["subject"].as_str().unwrap());
        assert_eq!(&front.get(&path).token(VIEWER).send().await.json(), item);
        front.get(&path).token(STRANGER).send().await.must_be(404, "TU1003");
    }
    assert_eq!(front.get(&of_web).send().await.json()["name"], "web");
    for text in ["web", "shop", "svc_", "org_01h455vb4pex5vsknk084sn02q"] {
        front.get(&format!("/v1/receipts/{text}")).send().await.must_be(404, "TU1003");
    }
}
