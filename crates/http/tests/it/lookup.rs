//! Ids: each leads to its object, of the own org only.

use serde_json::json;

use crate::drift::{diverged, fought_over};
use crate::front::{Front, STRANGER, VIEWER, WEB};

#[tokio::test]
async fn every_id_leads_to_its_object() {
    let front = Front::with_web().await;
    front.seal().await;
    let id = |value: &serde_json::Value| value["id"].as_str().unwrap().to_owned();
    let web = id(&front.get(WEB).send().await.json());
    let project = id(&front.get("/v1/projects/shop").send().await.json());
    let release = front.get(&format!("{WEB}/releases")).send().await.json();
    let cluster = id(&front.get("/v1/clusters/test").send().await.json());
    let events = front.get("/v1/events?type=ServiceQueued").send().await.json();
    let (release, event) = (id(&release["items"][0]), id(&events["items"][0]));
    let divergence = diverged(&front, "spec.replicas", "open").await;
    let conflict = fought_over(&front, "spec.paused").await;
    for (id, kind, name, is_of_service) in [
        (&web, "service", "web", true),
        (&project, "project", "shop", false),
        (&release, "release", "1", true),
        (&cluster, "cluster", "test", false),
        (&event, "event", "ServiceQueued", true),
        (&divergence, "divergence", "", true),
        (&conflict, "conflict", "", true),
    ] {
        let found = front.get(&format!("/v1/lookup/{id}")).token(VIEWER).send().await.json();
        assert_eq!((&found["kind"], &found["id"]), (&json!(kind), &json!(id)), "{found:#}");
        assert!(found["name"].as_str().unwrap().contains(name), "{found:#}");
        assert_eq!(found["service_id"] == json!(web), is_of_service, "{found:#}");
        let path = found["path"].as_str().unwrap();
        assert_eq!(front.get(path).send().await.status, 200, "{path}");
        if kind != "cluster" {
            let path = format!("/v1/lookup/{id}");
            front.get(&path).token(STRANGER).send().await.must_be(404, "TU1003");
        }
    }
    for none in ["web", "svc_", "svc_01h455vb4pex5vsknk084sn02q", "%00"] {
        front.get(&format!("/v1/lookup/{none}")).send().await.must_be(404, "TU1003");
    }
}

#[tokio::test]
async fn event_is_read_by_its_id_once_it_is_sealed() {
    let front = Front::with_web().await;
    front.seal().await;
    let events = front.get("/v1/events").send().await.json();
    for event in events["items"].as_array().unwrap() {
        let path = format!("/v1/events/{}", event["id"].as_str().unwrap());
        assert_eq!(&front.get(&path).send().await.json(), event);
        front.get(&path).token(STRANGER).send().await.must_be(404, "TU1003");
    }
}
