//! The API of volumes and single clusters: stored observations only.

use axum::http::StatusCode;
use serde_json::{Value, json};
use trueup_model::Clock;
use trueup_model::key::Kind;
use trueup_model::observation::{Observation, Sighting};
use trueup_model::order::Order;
use trueup_model::report::{Outcome, Report};
use trueup_testkit::report_batch::RecordReports as _;

use crate::front::{Front, STRANGER, VIEWER};

const VOLUMES: &str = "/v1/projects/shop/volumes";

async fn volumes(front: &Front) -> Vec<Value> {
    let reply = front.get(VOLUMES).token(VIEWER).send().await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    reply.json()["items"].as_array().unwrap().clone()
}

/// The report of a pass that observed the claim, bound or not.
fn saw(order: &Order, bound: bool, front: &Front) -> Report {
    let found = order.recorded.keys().find(|key| key.kind == Kind::PersistentVolumeClaim);
    let claim = Sighting {
        key: found.unwrap().clone(),
        uid: "uid-1".to_owned(),
        resource_version: "7".to_owned(),
        terminating: false,
        bound: Some(bound),
        route: None,
        certificate: None,
    };
    Report {
        unit: order.unit,
        org: order.org,
        generation: order.generation,
        observation: Some(Observation {
            generation: order.generation,
            applied: true,
            objects: vec![claim],
            workload: None,
            pods: Vec::new(),
            missing: Vec::new(),
            divergences: Vec::new(),
            as_of: front.clock.now(),
        }),
        outcome: Outcome::Converged,
        changes: Vec::new(),
        receipt: None,
        survey: None,
    }
}

#[tokio::test]
async fn volume_shows_what_was_observed() {
    let front = Front::with_web().await;
    assert_eq!(volumes(&front).await, Vec::<Value>::new());
    let game = json!({"template": "minecraft@1", "parameters": {"world_gib": 25}});
    let made = front.put("/v1/projects/shop/services/game").json(&game).send().await;
    assert_eq!(made.status, StatusCode::ACCEPTED);
    assert_eq!(volumes(&front).await, Vec::<Value>::new(), "no order yet");

    let (worker, now) = (&front.db.worker, front.clock.now());
    let lease =
        worker.acquire_lease(front.db.cluster, "one", None, now).await.unwrap().ours().unwrap();
    let orders = worker.claim_orders(lease, 10, now).await.unwrap();
    let [volume] = volumes(&front).await.try_into().unwrap();
    assert_eq!((&volume["service"], &volume["size_gib"]), (&json!("game"), &json!(25)));
    assert_eq!((&volume["path"], &volume["bound"]), (&json!("/data"), &Value::Null));
    assert_eq!((&volume["uid"], &volume["observed_at"]), (&Value::Null, &Value::Null));

    let has_claim =
        |order: &Order| order.recorded.keys().any(|key| key.kind == Kind::PersistentVolumeClaim);
    let (_, order) = orders.iter().find(|(_, order)| has_claim(order)).unwrap();
    for bound in [false, true] {
        worker.record_reports(lease, &[saw(order, bound, &front)], now).await.unwrap();
        let [volume] = volumes(&front).await.try_into().unwrap();
        assert_eq!((&volume["bound"], &volume["uid"]), (&json!(bound), &json!("uid-1")));
        assert!(volume["observed_at"].is_string());
    }
    front.get(VOLUMES).token(STRANGER).send().await.must_be(404, "TU1003");
}

#[tokio::test]
async fn cluster_counts_only_the_orgs_own_objects() {
    let front = Front::with_web().await;
    let cluster = front.get("/v1/clusters/test").send().await.json();
    assert_eq!((&cluster["projects"], &cluster["services"]), (&json!(1), &json!(1)));
    assert_eq!(cluster["reachability"], "unreachable");
    assert!(cluster["created_at"].is_string());
    let id = cluster["id"].as_str().unwrap();
    let same = front.get(&format!("/v1/clusters/{id}")).send().await.json();
    assert_eq!(same, cluster);
    let theirs = front.get("/v1/clusters/test").token(STRANGER).send().await.json();
    assert_eq!((&theirs["projects"], &theirs["services"]), (&json!(0), &json!(0)));
    front.get("/v1/clusters/none").send().await.must_be(404, "TU1003");
}
