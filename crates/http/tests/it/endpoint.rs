//! The API of endpoints.

use axum::http::{Method, StatusCode};
use serde_json::json;

use crate::front::{DEVELOPER, Front, OPERATOR, STRANGER, VIEWER, WEB};

const LIST: &str = "/v1/projects/shop/endpoints";

#[tokio::test]
async fn an_endpoint_is_opened_listed_and_closed() {
    let front = Front::with_web().await;
    let path = format!("{WEB}/endpoints/public");
    let open = front.put(&path).token(DEVELOPER).json(&json!({"port": "http"})).send().await;
    assert_eq!(open.status, StatusCode::ACCEPTED, "{}", open.text());
    let shown = open.json();
    assert_eq!((&shown["node_port"], &shown["protocol"]), (&json!(30_000), &json!("TCP")));
    assert_eq!((&shown["state"], &shown["service"]), (&json!("opening"), &json!("web")));
    let again = front.put(&path).json(&json!({"port": "http", "protocol": "TCP"})).send().await;
    assert_eq!((again.status, again.json()), (StatusCode::OK, shown.clone()));
    assert_eq!(front.get(LIST).token(VIEWER).send().await.json(), json!({"items": [shown]}));
    assert_eq!(front.delete(&path).send().await.status, StatusCode::ACCEPTED);
    front.delete(&path).send().await.must_be(404, "TU1003");
    let left = front.get(LIST).send().await.json();
    assert_eq!(
        left["items"][0]["state"], "closing",
        "its port is reserved until its absence is observed"
    );
}

#[tokio::test]
async fn address_of_the_nodes_is_part_of_what_a_customer_gets() {
    let front = Front::with_web().await;
    let path = format!("{WEB}/endpoints/public");
    let open = front.put(&path).json(&json!({"port": "http"})).send().await.json();
    assert_eq!(open.get("address"), None, "nobody said where the nodes are");
    let routing = "/v1/clusters/test/routing";
    for bad in ["Play.example.org", "play.example.org:80", "", "a b"] {
        let wrong = front.put(routing).token(OPERATOR).json(&json!({"address": bad}));
        wrong.send().await.must_be(422, "TU1201");
    }
    let wanted = json!({"address": "play.example.org"});
    let set = front.put(routing).token(OPERATOR).json(&wanted).send().await;
    assert_eq!((set.status, set.json()), (StatusCode::OK, wanted));
    let listed = front.get(LIST).token(VIEWER).send().await.json();
    assert_eq!(listed["items"][0]["address"], "play.example.org:30000");
}

#[tokio::test]
async fn invalid_endpoint_is_refused_and_reserves_no_port() {
    let front = Front::with_web().await;
    let path = format!("{WEB}/endpoints/public");
    for body in [json!({"port": "none"}), json!({"port": "http", "protocol": "SCTP"})] {
        front.put(&path).json(&body).send().await.must_be(422, "TU1201");
    }
    front
        .put(&path)
        .json(&json!({"port": "http", "node_port": 80}))
        .send()
        .await
        .must_be(400, "TU1101");
    let bad_name = format!("{WEB}/endpoints/Public");
    front.put(&bad_name).json(&json!({"port": "http"})).send().await.must_be(422, "TU1201");
    for method in [Method::PUT, Method::DELETE] {
        let request = || front.request(method.clone(), &path).json(&json!({"port": "http"}));
        request().token(VIEWER).send().await.must_be(403, "TU1002");
        request().token(STRANGER).send().await.must_be(404, "TU1003");
    }
    front.get(LIST).token(STRANGER).send().await.must_be(404, "TU1003");
    let open = front.put(&path).json(&json!({"port": "http"})).send().await;
    assert_eq!(open.json()["node_port"], 30_000);
}
