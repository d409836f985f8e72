//! Invoices and credit: from usage to a document, and every decision about it.

use axum::http::StatusCode;
use serde_json::{Value, json};
use trueup_model::Clock;
use trueup_testkit::usage::store_hours;

use crate::front::{Front, OPERATOR, OWNER, Reply};

const INVOICES: &str = "/v1/invoices";

/// Stores that a pod of the service `web` ran for some hours.
pub(crate) async fn used(front: &Front, object: &str, hours: i64) {
    store_hours(&front.owner, (front.db.org, "web"), object, front.clock.now(), hours).await;
}

async fn post(front: &Front, path: &str, body: Value) -> Reply {
    front.post(path).token(OPERATOR).header("trueup-org", "acme").json(&body).send().await
}

/// Invoices what was used; returns the id of the invoice and of its first line.
pub(crate) async fn invoiced(front: &Front) -> (String, String) {
    let issued = post(front, INVOICES, json!({"early": true})).await;
    assert_eq!(issued.status, StatusCode::CREATED, "{}", issued.text());
    let invoice = issued.json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&invoice["id"]), text(&invoice["lines"][0]["id"]))
}

#[tokio::test]
async fn usage_becomes_an_invoice_once() {
    let front = Front::with_web().await;
    used(&front, "pod-a", 300).await;
    let draft = post(&front, &format!("{INVOICES}?dry_run=true"), json!({"early": true})).await;
    assert_eq!(draft.status, StatusCode::OK, "{}", draft.text());
    let draft = &draft.json()["result"];
    // 300 hours at 0.006 EUR.
    assert_eq!(draft["subtotal"]["text"], "1.80 EUR", "{draft}");

    let (id, line) = invoiced(&front).await;
    let invoice = front.get(&format!("{INVOICES}/ACME-0001")).token(OWNER).send().await.json();
    assert_eq!((&invoice["id"], &invoice["state"]), (&json!(id), &json!("issued")));
    assert_eq!(invoice["lines"][0]["quantity"], "1080000");
    let again = post(&front, INVOICES, json!({"early": true})).await;
    again.must_be(422, "TU1201");

    let path = format!("{INVOICES}/{id}/lines/{line}");
    let opened = front.get(&path).token(OWNER).send().await.json();
    assert_eq!(opened["unchanged"], true, "{opened}");
    assert_eq!(opened["intervals"][0]["object"], "pod-a");
    assert_eq!(opened["entries"][0]["seq"], 1);
}

#[tokio::test]
async fn a_paid_or_void_invoice_is_decided() {
    let front = Front::with_web().await;
    used(&front, "pod-a", 300).await;
    let (id, _) = invoiced(&front).await;
    let (pay, void) = (format!("{INVOICES}/{id}/pay"), format!("{INVOICES}/{id}/void"));
    let voided = post(&front, &void, json!({"reason": "wrong address"})).await;
    assert_eq!(voided.json()["state"], "void", "{}", voided.text());
    let problem = post(&front, &pay, json!({"method": "cash"})).await.must_be(409, "TU1306");
    assert!(problem["detail"].as_str().unwrap().contains("the invoice was voided"), "{problem}");

    // Its usage is on the next one, which has the next number.
    let (id, _) = invoiced(&front).await;
    let pay = format!("{INVOICES}/{id}/pay");
    let paid = post(&front, &pay, json!({"method": "cash"})).await.json();
    assert_eq!((&paid["state"], &paid["number"]), (&json!("paid"), &json!("ACME-0002")));
    post(&front, &pay, json!({"method": "cash"})).await.must_be(409, "TU1306");
    let accounts = front.get("/v1/ledger/accounts").token(OWNER).send().await.json();
    let sum = |name: &str| {
        let all = accounts["items"].as_array().unwrap();
        let found = all.iter().find(|one| one["account"].as_str().unwrap().starts_with(name));
        found.map(|one| one["sum"]["micros"].as_i64().unwrap())
    };
    assert_eq!((sum("receivable"), sum("cash")), (Some(0), Some(1_800_000)), "{accounts}");
}

#[tokio::test]
async fn credit_pays_first_and_comes_back_from_a_void_invoice() {
    let front = Front::with_web().await;
    used(&front, "pod-a", 300).await;
    let credit = json!({"micros": 1_000_000, "currency": "EUR", "reason": "welcome"});
    let granted = post(&front, "/v1/credits", credit).await;
    assert_eq!(granted.status, StatusCode::CREATED, "{}", granted.text());
    let left = async || {
        let list = front.get("/v1/credits").token(OWNER).send().await.json();
        list["left"]["text"].as_str().unwrap().to_owned()
    };
    let (id, _) = invoiced(&front).await;
    let invoice = front.get(&format!("{INVOICES}/{id}")).token(OWNER).send().await.json();
    assert_eq!(
        (&invoice["credit"]["text"], &invoice["due"]["text"]),
        (&json!("1.00 EUR"), &json!("0.80 EUR"))
    );
    assert_eq!(left().await, "0.00 EUR");
    post(&front, &format!("{INVOICES}/{id}/void"), json!({"reason": "wrong address"})).await;
    assert_eq!(left().await, "1.00 EUR");
    let other = json!({"micros": 1, "currency": "USD", "reason": "welcome"});
    post(&front, "/v1/credits", other).await.must_be(422, "TU1201");
}

#[tokio::test]
async fn a_document_is_the_same_bytes_every_time() {
    let front = Front::with_web().await;
    used(&front, "pod-a", 300).await;
    let (id, _) = invoiced(&front).await;
    for (format, begins) in
        [("pdf", "%PDF-"), ("csv", "invoice,line,item"), ("json", "{\"number\"")]
    {
        let path = format!("{INVOICES}/{id}/document?format={format}");
        let one = front.get(&path).token(OWNER).send().await;
        assert_eq!(one.status, StatusCode::OK);
        assert!(one.body.starts_with(begins.as_bytes()), "{format}");
        assert_eq!(one.body, front.get(&path).token(OWNER).send().await.body, "{format}");
    }
}

#[tokio::test]
async fn charges_are_exported_as_a_file_with_the_columns_of_focus() {
    let front = Front::with_web().await;
    used(&front, "pod-a", 300).await;
    invoiced(&front).await;
    let export = front.get("/v1/billing-export").token(OWNER).send().await;
    assert_eq!(export.status, StatusCode::OK, "{}", export.text());
    let text = export.text();
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row: Vec<&str> = lines.next().unwrap().split(',').collect();
    let field = |name: &str| row[columns.iter().position(|column| *column == name).unwrap()];
    let expected = [
        ("BilledCost", "1.800000"),
        ("ChargeCategory", "Usage"),
        ("InvoiceId", "ACME-0001"),
        ("PricingQuantity", "300.0"),
        ("ListUnitPrice", "0.006"),
        ("SubAccountName", "shop"),
        ("ResourceName", "web"),
    ];
    for (name, value) in expected {
        assert_eq!(field(name), value, "{name}");
    }
    assert_eq!(lines.next(), None, "nothing was rounded");
    let former = front.get("/v1/billing-export?period=2020-01").token(OWNER).send().await;
    assert_eq!(former.text().lines().count(), 1, "only the header");
    let bad = front.get("/v1/billing-export?period=2020-1").token(OWNER).send().await;
    bad.must_be(422, "TU1201");
}
