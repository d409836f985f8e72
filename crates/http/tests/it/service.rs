//! The API of services: responses, preconditions and caching.

use std::time::Duration;
use trueup_testkit::report_batch::RecordReports as _;

use axum::http::StatusCode;
use futures::FutureExt;
use serde_json::{Value, json};
use trueup_model::Clock;
use trueup_model::observation::Observation;
use trueup_model::report::{Outcome, Report};

use crate::front::{Front, PATIENCE, WEB, web};

#[tokio::test]
async fn accepted_declaration_returns_location_and_watch_url() {
    let front = Front::new().await;
    let reply = front.put(WEB).json(&web("nginx:1")).send().await;
    assert_eq!(reply.status, StatusCode::ACCEPTED);
    let service = reply.json();
    let id = service["id"].as_str().unwrap();
    assert!(id.starts_with("svc_"), "{id}");
    let address = format!("/v1/projects/shop/services/{id}");
    assert_eq!(reply.header("location"), Some(address.as_str()));
    assert_eq!(reply.header("etag"), Some("\"g1.p1.f0\""));
    assert_eq!(service["watch"], format!("{address}/watch"));
    assert_eq!(service["generation"], 1);
    assert_eq!(service["status"]["phase"], "accepted");
    assert_eq!(service["status"]["health"], "unknown");
    assert_eq!(service["reconciliation"], "pending");
    assert_eq!(front.get(&address).send().await.json()["id"], id);
}

#[tokio::test]
async fn only_changes_wake_the_loops() {
    let front = Front::new().await;
    let signals = &front.state.signals;
    let signalled =
        || futures::future::join(signals.woken(), signals.recorded()).now_or_never().is_some();
    // Creating the project was a change.
    assert!(signalled());
    front.get(WEB).send().await.must_be(404, "TU1003");
    front.put(WEB).json(&json!({"template": "web@1"})).send().await.must_be(422, "TU1201");
    assert!(!signalled());
    front.declare("nginx:1").await;
    assert!(signalled());
    assert_eq!(front.put(WEB).json(&web("nginx:1")).send().await.status, 200);
    assert!(!signalled());
}

#[tokio::test]
async fn redeclaration_returns_200_and_the_same_response() {
    let front = Front::new().await;
    let first = front.declare("nginx:1").await;
    let before = front.rows().await;
    front.clock.advance(Duration::from_secs(5));
    let mut whole = web("nginx:1");
    whole["kind"] = json!("Service");
    whole["name"] = json!("web");
    whole["project"] = json!("shop");
    for body in [web("nginx:1"), whole] {
        let again = front.put(WEB).json(&body).send().await;
        assert_eq!(again.status, StatusCode::OK);
        assert_eq!(again.body, first.body);
        for name in ["location", "etag"] {
            assert_eq!(again.header(name), first.header(name));
        }
    }
    assert_eq!(front.rows().await, before);
}

#[tokio::test]
async fn stale_generation_is_refused() {
    let front = Front::with_web().await;
    let tag = front.get(WEB).send().await.header("etag").unwrap().to_owned();
    let change = |tag: &str, image: &str| front.put(WEB).header("if-match", tag).json(&web(image));
    assert_eq!(change(&tag, "nginx:2").send().await.status, StatusCode::ACCEPTED);
    let before = front.rows().await;
    // Only the generation counts: a newer projection or another freshness is no conflict.
    for old in [tag.as_str(), "\"g1\"", "\"g0\"", "\"g3.p1.f0\""] {
        let problem = change(old, "nginx:3").send().await.must_be(412, "TU1301");
        assert!(problem["detail"].as_str().unwrap().contains("generation is now 2"), "{problem}");
        let delete = front.delete(WEB).header("if-match", old).send().await;
        delete.must_be(412, "TU1301");
    }
    for nonsense in ["", "*", "\"\"", "2", "\"p2\"", "\"g\"", "\"gx.p1.f0\""] {
        change(nonsense, "nginx:3").send().await.must_be(400, "TU1103");
    }
    assert_eq!(front.rows().await, before);
    assert_eq!(change("\"g2.p99.f1\"", "nginx:3").send().await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn if_none_match_returns_304_when_unchanged() {
    let front = Front::with_web().await;
    let seen = async || front.get(WEB).send().await.header("etag").unwrap().to_owned();
    let again = async |tag: &str| front.get(WEB).header("if-none-match", tag).send().await;
    let first = seen().await;
    let reply = again(&first).await;
    assert_eq!(reply.status, StatusCode::NOT_MODIFIED);
    assert_eq!(reply.header("etag"), Some(first.as_str()));
    assert!(reply.body.is_empty());

    // The cluster is observed, then silent for too long: the same rows give another ETag.
    front.db.record_heartbeat(front.clock.now()).await;
    assert_eq!(again(&first).await.status, StatusCode::OK);
    let fresh = seen().await;
    assert_eq!(fresh, "\"g1.p1.f1\"");
    front.clock.advance(Duration::from_secs(46));
    assert_eq!(again(&fresh).await.status, StatusCode::OK);

    front.declare("nginx:2").await;
    assert_eq!(again(&first).await.status, StatusCode::OK);
    assert_eq!(seen().await, "\"g2.p1.f0\"");
}

impl Front {
    /// Records that a pass has observed every unit now.
    async fn observe(&self) {
        let (worker, now) = (&self.db.worker, self.clock.now());
        let lease = worker.acquire_lease(self.db.cluster, "one", None, now).await;
        let lease = lease.unwrap().ours().unwrap();
        for (_, order) in worker.claim_orders(lease, 10, now).await.unwrap() {
            let observation = Observation {
                generation: order.generation,
                applied: true,
                objects: Vec::new(),
                workload: None,
                pods: Vec::new(),
                missing: Vec::new(),
                divergences: Vec::new(),
                as_of: now,
            };
            let report = Report {
                unit: order.unit,
                org: order.org,
                generation: order.generation,
                observation: Some(observation),
                outcome: Outcome::Converged,
                changes: Vec::new(),
                receipt: None,
                survey: None,
            };
            worker.record_reports(lease, &[report], now).await.unwrap();
        }
    }
}

#[tokio::test]
async fn idle_service_and_project_stay_confirmed_and_say_when_they_become_stale() {
    let front = Front::with_web().await;
    let heard = async || front.db.record_heartbeat(front.clock.now()).await;
    let shown = async || {
        let json = async |path: &str| front.get(path).send().await.json();
        let service = json(WEB).await["status"].clone();
        let project = json("/v1/projects/shop").await["status"].clone();
        let services = json("/v1/services").await["items"][0]["status"].clone();
        let projects = json("/v1/projects").await["items"][0]["status"].clone();
        assert_eq!((&service, &project), (&services, &projects), "lists show the same");
        [service, project]
    };
    let time = |status: &Value, field: &str| -> Option<jiff::Timestamp> {
        status[field].as_str().map(|time| time.parse().unwrap())
    };
    let is_stale = |status: &Value| {
        let conditions = status["conditions"].as_array().unwrap();
        conditions.iter().any(|condition| condition["reason"] == "stale")
    };
    heard().await;
    for status in shown().await {
        assert_eq!(time(&status, "confirmed_at"), None, "nothing was observed yet: {status}");
    }
    let observed_at = front.clock.now();
    front.observe().await;
    // Nothing changes for an hour, and the watches are alive.
    for _ in 0..90 {
        front.clock.advance(Duration::from_secs(40));
        heard().await;
    }
    let confirmed_at = front.clock.now();
    front.clock.advance(Duration::from_secs(45));
    for status in shown().await {
        assert_eq!(time(&status, "observed_at"), Some(observed_at), "{status}");
        assert_eq!(time(&status, "confirmed_at"), Some(confirmed_at), "{status}");
        assert_eq!(time(&status, "stale_at"), Some(front.clock.now()), "{status}");
        assert!(!is_stale(&status), "{status}");
    }
    front.clock.advance(Duration::from_millis(1));
    for status in shown().await {
        assert!(is_stale(&status), "{status}");
        assert_eq!(time(&status, "confirmed_at"), Some(confirmed_at), "{status}");
    }
}

#[tokio::test]
async fn repeated_deletion_is_unchanged() {
    let front = Front::with_web().await;
    let first = front.delete(WEB).send().await;
    assert_eq!(first.status, StatusCode::ACCEPTED);
    let service = first.json();
    assert_eq!((&service["desired"], &service["generation"]), (&json!("deleted"), &json!(2)));
    assert!(first.header("location").is_some() && first.header("etag").is_some());
    let before = front.rows().await;
    let second = front.delete(WEB).send().await;
    assert_eq!(second.status, StatusCode::OK);
    assert_eq!(second.body, first.body);
    front.put(WEB).json(&web("nginx:2")).send().await.must_be(409, "TU1302");
    assert_eq!(front.rows().await, before);
    front.delete("/v1/projects/shop/services/none").send().await.must_be(404, "TU1003");
}

#[tokio::test]
async fn lists_show_existing_objects_and_reject_unknown_filters() {
    let front = Front::with_web().await;
    let items = async |path: &str| front.get(path).send().await.json()["items"].clone();
    let names = |items: &Value| -> Vec<String> {
        let items = items.as_array().unwrap().iter();
        items.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(front.put("/v1/projects/blog").send().await.status, 202);
    assert_eq!(names(&items("/v1/projects").await), ["blog", "shop"]);
    assert_eq!(names(&items("/v1/services").await), ["web"]);
    assert_eq!(names(&items("/v1/services?project=blog").await), Vec::<String>::new());
    assert_eq!(names(&items("/v1/templates").await), ["minecraft@1", "web@1"]);
    assert_eq!(names(&items("/v1/clusters").await), ["test"]);
    assert_eq!(items("/v1/clusters").await[0]["reachability"], "unreachable");
    let refused = front.get("/v1/services?org=other").send().await.must_be(400, "TU1103");
    assert!(refused["detail"].as_str().unwrap().contains("`org`"), "{refused}");
}

#[tokio::test]
async fn concurrent_identical_declarations_get_the_same_response() {
    let front = Front::new().await;
    let body = web("nginx:1");
    let requests = (0..12).map(|_| front.put(WEB).json(&body).send());
    let replies = futures::future::join_all(requests);
    let replies = tokio::time::timeout(PATIENCE, replies).await.unwrap();
    let made = replies.iter().filter(|reply| reply.status == StatusCode::ACCEPTED).count();
    assert_eq!(made, 1);
    assert!(replies.iter().all(|reply| reply.body == replies[0].body));
}
