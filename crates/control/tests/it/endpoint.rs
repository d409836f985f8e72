//! The lifecycle of an endpoint: the port is opened, and later nothing of it is left.

use trueup_model::key::Kind;
use trueup_model::name::Name;
use trueup_store::door::{EndpointRequest, EndpointTarget, RequestContext};

use crate::rig::{Rig, deleted};

impl Rig {
    async fn open(&self, endpoint: &str) -> u16 {
        let owner = self.db.owner();
        let context = RequestContext::new(&owner, None);
        let name: Name = endpoint.parse().expect("a test's name should be valid");
        let wanted =
            EndpointRequest { project: "shop", service: "web", name: &name, if_generation: None };
        let target = EndpointTarget { port: "http", protocol: None };
        let (app, now) = (&self.db.app, self.clock.now());
        let open = app.open_endpoint(self.db.org, &wanted, &target, &context, now).await;
        self.signals.wake();
        open.expect("an endpoint should be opened").row.node_port
    }

    async fn close(&self, endpoint: &str) {
        let owner = self.db.owner();
        let context = RequestContext::new(&owner, None);
        let name: Name = endpoint.parse().expect("a test's name should be valid");
        let wanted =
            EndpointRequest { project: "shop", service: "web", name: &name, if_generation: None };
        let closed =
            self.db.app.close_endpoint(self.db.org, &wanted, &context, self.clock.now()).await;
        closed.expect("an endpoint should be closed");
        self.signals.wake();
    }

    /// The node ports in the cluster.
    fn node_ports(&self) -> Vec<u64> {
        let services = self.fake.objects(Kind::Service);
        services.iter().filter_map(|one| one["spec"]["ports"][0]["nodePort"].as_u64()).collect()
    }
}

#[tokio::test]
async fn endpoint_is_opened_kept_open_and_closed() {
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    rig.until_running("web").await;
    let policies = rig.fake.objects(Kind::NetworkPolicy).len();

    let port = rig.open("game").await;
    rig.until_running("web").await;
    assert_eq!(rig.node_ports(), [u64::from(port)]);
    assert_eq!(rig.fake.objects(Kind::NetworkPolicy).len(), policies + 1);
    let listed = rig.db.app.list_endpoints(rig.db.org, "shop").await.unwrap().unwrap();
    assert_eq!(listed[0].state.into_str(), "open");

    rig.close("game").await;
    rig.until_running("web").await;
    assert!(rig.node_ports().is_empty(), "{:?}", rig.node_ports());
    assert_eq!(rig.fake.objects(Kind::NetworkPolicy).len(), policies);
    assert_eq!(rig.db.app.list_endpoints(rig.db.org, "shop").await.unwrap().unwrap(), []);
    assert_eq!(rig.open("again").await, port, "the port is free again");
    rig.until_running("web").await;

    let id = rig.delete("web").await;
    let detail = rig.until(&id, deleted).await;
    let receipt = detail.receipt.expect("a receipt should be there");
    let verified = receipt.absent.iter().filter(|absent| absent.key.name.contains("-ep")).count();
    assert_eq!(verified, 4, "objects of closed endpoints are verified absent as well");
    assert!(rig.node_ports().is_empty());
    assert_eq!(rig.fake.objects(Kind::NetworkPolicy).len(), policies);
}
