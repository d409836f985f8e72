//! The port pool: each port has one endpoint, and is reused only after that is observed to be gone.

use std::collections::BTreeSet;
use trueup_testkit::report_batch::RecordReports as _;

use serde_json::Map;
use trueup_model::OrgId;
use trueup_model::endpoint::{Endpoint, EndpointState};
use trueup_model::order::Body;
use trueup_model::spec::Protocol;
use trueup_rules::admit::{AdmissionRequest, Refused};
use trueup_store::door::{Accepted, EndpointRequest, EndpointTarget, Refusal};
use trueup_testkit::test_db::{ENDPOINT_PORTS, name};

use crate::stage::{PROJECT, Stage, at, converged, gone, web};

impl Stage {
    pub(crate) async fn open(
        &self,
        org: OrgId,
        service: &str,
        endpoint: &str,
    ) -> Result<Accepted<Endpoint>, Refusal> {
        let name = name(endpoint);
        let wanted =
            EndpointRequest { project: PROJECT, service, name: &name, if_generation: None };
        let target = EndpointTarget { port: "http", protocol: None };
        self.db.app.open_endpoint(org, &wanted, &target, &self.context(), at(3)).await
    }

    pub(crate) async fn close(&self, service: &str, endpoint: &str) -> Result<(), Refusal> {
        let name = name(endpoint);
        let wanted =
            EndpointRequest { project: PROJECT, service, name: &name, if_generation: None };
        self.db.app.close_endpoint(self.db.org, &wanted, &self.context(), at(4)).await
    }

    async fn endpoints(&self) -> Vec<(String, u16, EndpointState)> {
        let listed = self.db.app.list_endpoints(self.db.org, PROJECT).await.unwrap().unwrap();
        listed.into_iter().map(|one| (one.name.to_string(), one.node_port, one.state)).collect()
    }
}

#[tokio::test]
async fn an_endpoint_takes_the_lowest_free_port_and_is_an_accepted_change() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let before = stage.rows().await;
    let open = stage.open(stage.db.org, "web", "one").await.unwrap();
    assert!(open.changed);
    assert_eq!((open.row.node_port, open.row.protocol), (*ENDPOINT_PORTS.start(), Protocol::Tcp));
    let grown: Vec<(String, i64)> =
        [("endpoints", 1), ("event_queue", 2), ("events", 2), ("releases", 1), ("usage_marks", 1)]
            .map(|(table, count)| (table.to_owned(), count))
            .to_vec();
    assert_eq!(stage.grown(&before).await, grown);
    let again = stage.open(stage.db.org, "web", "one").await.unwrap();
    assert_eq!((again.changed, &again.row), (false, &open.row), "idempotent");
    assert_eq!(stage.open(stage.db.org, "web", "two").await.unwrap().row.node_port, 30_001);
    assert_eq!(stage.find("web").await.unwrap().service.generation, 3);
    let kinds = stage.events_of(row.service.id.uuid()).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "EndpointOpened").count(), 2);

    let order = stage.order_of("web").await;
    let Body::Service(body) = &order.body else { panic!("a service") };
    let ports: Vec<u16> = body.endpoints.iter().map(|open| open.node_port).collect();
    assert_eq!(ports, [30_000, 30_001]);
    let keys = order.recorded.keys().filter(|key| key.name.contains("-ep")).count();
    assert_eq!(keys, 4, "both objects of both are recorded");
}

#[tokio::test]
async fn concurrent_endpoints_get_distinct_ports_until_the_pool_is_empty() {
    let stage = Stage::new().await;
    let theirs = stage.db.setup.ensure_org("other", at(0)).await.unwrap();
    stage.project(theirs).await;
    stage.declare("web", "nginx:1").await;
    let wanted: Vec<String> = (0..10).map(|number| format!("e{number}")).collect();
    let requests = wanted.iter().map(|name| stage.open(stage.db.org, "web", name));
    let (mut taken, mut refused) = (BTreeSet::new(), 0);
    for answer in futures::future::join_all(requests).await {
        match answer {
            Ok(open) => assert!(taken.insert(open.row.node_port), "a port was allocated twice"),
            Err(Refusal::Refused(Refused::Invalid(_))) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(taken, ENDPOINT_PORTS.collect());
    assert_eq!(refused, 2);
    let held: i64 =
        stage.one("select count(*) from endpoint_ports where endpoint_id is null").await;
    assert_eq!(held, 0, "refused requests hold no port");
}

#[tokio::test]
async fn a_port_is_released_only_after_the_cluster_was_observed_without_it() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.open(stage.db.org, "web", "one").await.unwrap();
    let lease = stage.lease().await;
    let report = async |generation| {
        let report = converged(&row, generation);
        stage.db.worker.record_reports(lease, &[report], at(5)).await.unwrap();
    };
    report(2).await;
    stage.close("web", "one").await.unwrap();
    assert!(matches!(stage.close("web", "one").await, Err(Refusal::NotFound("endpoint"))));
    assert_eq!(stage.endpoints().await, [("one".to_owned(), 30_000, EndpointState::Closing)]);
    // The same name again is a new endpoint with another port.
    assert_eq!(stage.open(stage.db.org, "web", "one").await.unwrap().row.node_port, 30_001);
    // A report about an older generation releases nothing.
    report(2).await;
    assert_eq!(stage.endpoints().await.len(), 2);
    assert_eq!(stage.open(stage.db.org, "web", "two").await.unwrap().row.node_port, 30_002);
    report(3).await;
    let left: Vec<u16> = stage.endpoints().await.into_iter().map(|(_, port, _)| port).collect();
    assert_eq!(left, [30_001, 30_002]);
    assert_eq!(stage.open(stage.db.org, "web", "three").await.unwrap().row.node_port, 30_000);
}

#[tokio::test]
async fn the_ports_of_a_service_are_free_once_its_absence_is_verified() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    stage.open(stage.db.org, "web", "one").await.unwrap();
    let row = stage.delete("web").await.unwrap().row;
    let late = stage.open(stage.db.org, &row.service.id.to_string(), "two").await;
    assert!(matches!(late, Err(Refusal::Refused(Refused::BeingDeleted))));
    stage.declare("other", "nginx:1").await;
    assert_eq!(stage.open(stage.db.org, "other", "one").await.unwrap().row.node_port, 30_001);
    let lease = stage.lease().await;
    stage.db.worker.record_reports(lease, &[gone(&row, 3)], at(6)).await.unwrap();
    assert_eq!(stage.open(stage.db.org, "other", "two").await.unwrap().row.node_port, 30_000);
}

#[tokio::test]
async fn an_endpoint_must_name_a_port_of_the_service() {
    let stage = Stage::new().await;
    let game = AdmissionRequest {
        template: "minecraft@1".parse().unwrap(),
        parameters: Map::new(),
        ..web("nginx:1")
    };
    stage.try_declare("game", &game, None, 1).await.unwrap();
    let before = stage.rows().await;
    let endpoint = name("one");
    let wanted =
        EndpointRequest { project: PROJECT, service: "game", name: &endpoint, if_generation: None };
    let wrong = [("http", None, "port"), ("game", Some(Protocol::Udp), "protocol")];
    for (port, protocol, field) in wrong {
        let target = EndpointTarget { port, protocol };
        let (app, org) = (&stage.db.app, stage.db.org);
        let refused = app.open_endpoint(org, &wanted, &target, &stage.context(), at(3)).await;
        match refused {
            Err(Refusal::Refused(Refused::Invalid(errors))) => {
                assert_eq!(errors[0].field, field);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(stage.grown(&before).await, []);
    let free: i64 =
        stage.one("select count(*) from endpoint_ports where endpoint_id is null").await;
    assert_eq!(free, 8, "a refused request holds no port");
}
