//! The permissions of each role; a refusal comes before anything is read or saved.

use axum::http::Method;
use serde_json::{Value, json};

use crate::front::{DEVELOPER, Front, OPERATOR, OWNER, STRANGER, VIEWER, WEB, web};

#[tokio::test]
async fn each_role_has_the_permissions_of_its_row() {
    let front = Front::with_web().await;
    let reads = [
        "/v1/projects",
        "/v1/projects/shop",
        "/v1/services",
        "/v1/services?project=shop",
        WEB,
        "/v1/events",
        "/v1/templates",
        "/v1/clusters",
    ];
    for token in [VIEWER, DEVELOPER, OWNER] {
        for path in reads {
            let status = front.get(path).token(token).send().await.status;
            assert_eq!(status, 200, "{token} {path}");
        }
    }
    let project = json!({});
    let table: [(Method, &str, Value, [u16; 3]); 3] = [
        (Method::PUT, "/v1/projects/blog", project, [403, 403, 202]),
        (Method::PUT, WEB, web("nginx:2"), [403, 202, 200]),
        (Method::DELETE, WEB, json!({}), [403, 202, 200]),
    ];
    for (method, path, body, expected) in table {
        for (token, status) in [VIEWER, DEVELOPER, OWNER].into_iter().zip(expected) {
            let before = front.rows().await;
            let reply = front.request(method.clone(), path).token(token).json(&body).send().await;
            if status == 403 {
                reply.must_be(403, "TU1002");
                assert_eq!(front.rows().await, before, "{token} {method} {path}");
            } else {
                assert_eq!(reply.status, status, "{token} {method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn refusal_does_not_reveal_whether_an_object_exists() {
    let front = Front::with_web().await;
    let missing = "/v1/projects/none/services/none";
    let there = front.delete(WEB).token(VIEWER).send().await;
    let not_there = front.delete(missing).token(VIEWER).send().await;
    there.must_be(403, "TU1002");
    assert_eq!(there.masked(), not_there.masked());
}

#[tokio::test]
async fn operator_must_name_the_org() {
    let front = Front::with_web().await;
    let request = || front.get("/v1/services").token(OPERATOR);
    let problem = request().send().await.must_be(400, "TU1103");
    assert!(problem["detail"].as_str().unwrap().contains("Trueup-Org"));
    for unknown in ["", "unknown", "org_01h455vb4pex5vsknk084sn02q", "acme' or true --"] {
        request().header("trueup-org", unknown).send().await.must_be(404, "TU1003");
    }
    let (ours, theirs) = (front.db.org.to_string(), front.other_org.to_string());
    for (org, services) in [("acme", 1), (&ours, 1), ("other", 0), (&theirs, 0)] {
        let reply = request().header("trueup-org", org).send().await;
        assert_eq!(reply.json()["items"].as_array().unwrap().len(), services, "{org}");
    }
    let made = front.put("/v1/projects/blog").token(OPERATOR).header("trueup-org", "other");
    assert_eq!(made.send().await.status, 202);
    let found = front.get("/v1/projects/blog").token(STRANGER).send().await;
    assert_eq!(found.status, 200);
}

#[tokio::test]
async fn metrics_require_an_operator() {
    let front = Front::new().await;
    for token in [VIEWER, DEVELOPER, OWNER, STRANGER] {
        front.get("/metrics").token(token).send().await.must_be(403, "TU1002");
    }
    let reply = front.get("/metrics").token(OPERATOR).send().await;
    assert_eq!(reply.status, 200);
    assert!(reply.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(reply.text().ends_with("# EOF\n"));
}
