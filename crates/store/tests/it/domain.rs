//! Domains: any org may add a host, one org can verify it, and no org learns of others.

use trueup_model::OrgId;
use trueup_model::domain::{Domain, DomainState, Host, Tls};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::{Admission, RouteSeen, Sighting};
use trueup_model::order::Body;
use trueup_model::report::Report;
use trueup_rules::admit::{AdmissionRequest, Refused};
use trueup_rules::render::names;
use trueup_store::door::{Accepted, DomainRequest, Refusal, ServiceRequest};
use trueup_testkit::report_batch::RecordReports as _;
use trueup_testkit::test_db::name;

use crate::stage::{PROJECT, Stage, at, converged, gone, seen, web};

const HOST: &str = "www.example.org";
const NONE: [String; 0] = [];

fn host(text: &str) -> Host {
    text.parse().unwrap()
}

impl Stage {
    pub(crate) async fn add(
        &self,
        org: OrgId,
        service: &str,
        text: &str,
    ) -> Result<Accepted<Domain>, Refusal> {
        let host = host(text);
        let wanted = DomainRequest { project: PROJECT, service, host: &host, if_generation: None };
        self.db.app.add_domain(org, &wanted, Tls::Auto, &self.context(), at(3)).await
    }

    async fn verify(&self, org: OrgId, verified: bool) -> Result<Accepted<Domain>, Refusal> {
        let host = host(HOST);
        let wanted =
            DomainRequest { project: PROJECT, service: "web", host: &host, if_generation: None };
        self.db.app.verify_domain(org, &wanted, verified, &self.context(), at(4)).await
    }

    async fn remove(&self, org: OrgId) -> Result<(), Refusal> {
        let host = host(HOST);
        let wanted =
            DomainRequest { project: PROJECT, service: "web", host: &host, if_generation: None };
        self.db.app.remove_domain(org, &wanted, &self.context(), at(5)).await
    }

    /// Another org with a service of the same name.
    pub(crate) async fn others(&self) -> OrgId {
        let theirs = self.db.setup.ensure_org("other", at(0)).await.unwrap();
        self.project(theirs).await;
        let (name, request) = (name("web"), web("nginx:1"));
        let wanted = ServiceRequest::declare(PROJECT, &name, &request);
        self.db.app.accept_service(theirs, &wanted, &self.context(), at(1)).await.unwrap();
        theirs
    }

    async fn routes(&self) -> Vec<String> {
        let order = self.order_of("web").await;
        let Body::Service(body) = order.body else { panic!("a service") };
        body.routes.iter().map(|route| route.host.to_string()).collect()
    }
}

#[tokio::test]
async fn a_host_is_routed_once_it_is_verified() {
    let stage = Stage::new().await;
    let (org, row) = (stage.db.org, stage.declare("web", "nginx:1").await.row);
    let added = stage.add(org, "web", HOST).await.unwrap();
    assert_eq!((added.changed, added.row.state), (true, DomainState::Unverified));
    assert!(!stage.add(org, "web", HOST).await.unwrap().changed, "idempotent");
    assert_eq!(stage.routes().await, NONE);
    let proved = stage.verify(org, true).await.unwrap();
    assert_eq!((proved.changed, proved.row.state), (true, DomainState::Pending));
    assert!(!stage.verify(org, true).await.unwrap().changed, "idempotent");
    assert_eq!(stage.routes().await, [HOST]);
    stage.remove(org).await.unwrap();
    assert!(matches!(stage.remove(org).await, Err(Refusal::NotFound("domain"))));
    assert_eq!(stage.routes().await, NONE);
    let kinds = stage.events_of(row.service.id.uuid()).await;
    for kind in ["DomainAdded", "DomainVerified", "DomainRemoved"] {
        assert_eq!(kinds.iter().filter(|one| *one == kind).count(), 1, "{kind}");
    }
    assert_eq!(stage.find("web").await.unwrap().service.generation, 4);
}

#[tokio::test]
async fn a_host_is_open_once_its_controller_says_so_and_not_before() {
    let stage = Stage::new().await;
    let (org, lease) = (stage.db.org, stage.lease().await);
    stage.declare("web", "nginx:1").await;
    let id = stage.add(org, "web", HOST).await.unwrap().row.id;
    stage.verify(org, true).await.unwrap();
    let row = stage.find("web").await.unwrap();
    let generation = row.service.generation;
    let name = names::domain(&row.service.object_name, id);
    let expected = [
        (None, DomainState::Opening),
        (Some(Admission::Pending), DomainState::Opening),
        (Some(Admission::Admitted), DomainState::Open),
    ];
    for (admission, state) in expected {
        let mut observation = seen(&row, generation, 1);
        observation.objects.push(Sighting {
            key: ResourceKey::new(Kind::Ingress, &row.namespace, &name),
            uid: "uid-2".to_owned(),
            resource_version: "8".to_owned(),
            terminating: false,
            bound: None,
            route: admission.map(|admission| RouteSeen { host: HOST.to_owned(), admission }),
            certificate: None,
        });
        let report = Report { observation: Some(observation), ..converged(&row, generation) };
        stage.db.worker.record_reports(lease, &[report], at(6)).await.unwrap();
        let listed = stage.db.app.list_domains(org, PROJECT).await.unwrap().unwrap();
        assert_eq!(listed[0].state, state);
    }
}

/// S15, S26: adding a host never reveals its owner; only verification reports that it is taken.
#[tokio::test]
async fn a_verified_host_belongs_to_one_org_and_others_cannot_see_that() {
    let stage = Stage::new().await;
    let ours = stage.db.org;
    stage.declare("web", "nginx:1").await;
    let theirs = stage.others().await;
    stage.add(ours, "web", HOST).await.unwrap();
    stage.verify(ours, true).await.unwrap();
    let added = stage.add(theirs, "web", HOST).await.unwrap();
    assert_eq!((added.changed, added.row.state), (true, DomainState::Unverified));
    assert!(matches!(stage.verify(theirs, true).await, Err(Refusal::NameTaken(_))));
    // The operator moves the host from one org to the other.
    assert_eq!(stage.verify(ours, false).await.unwrap().row.state, DomainState::Unverified);
    assert_eq!(stage.verify(theirs, true).await.unwrap().row.state, DomainState::Pending);
    assert!(matches!(stage.verify(ours, true).await, Err(Refusal::NameTaken(_))));
    assert_eq!(stage.routes().await, NONE);
}

#[tokio::test]
async fn a_host_belongs_to_one_service_with_an_http_port() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    stage.declare("next", "nginx:1").await;
    let game = AdmissionRequest {
        template: "minecraft@1".parse().unwrap(),
        parameters: serde_json::Map::new(),
        ..web("nginx:1")
    };
    stage.try_declare("game", &game, None, 1).await.unwrap();
    stage.add(stage.db.org, "web", HOST).await.unwrap();
    for (service, field) in [("next", "host"), ("game", "service")] {
        match stage.add(stage.db.org, service, HOST).await {
            Err(Refusal::Refused(Refused::Invalid(errors))) => {
                assert_eq!(errors[0].field, field, "{service}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_hosts_of_a_service_are_free_once_its_absence_is_verified() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    stage.add(stage.db.org, "web", HOST).await.unwrap();
    let row = stage.delete("web").await.unwrap().row;
    let lease = stage.lease().await;
    stage.db.worker.record_reports(lease, &[gone(&row, 3)], at(6)).await.unwrap();
    stage.declare("next", "nginx:1").await;
    assert!(stage.add(stage.db.org, "next", HOST).await.unwrap().changed);
}

/// Both read before either has written: one transaction is retried and finds the other's domain.
#[tokio::test]
async fn concurrent_requests_for_a_host_give_it_to_one_service_and_refuse_the_other() {
    let stage = Stage::new().await;
    let org = stage.db.org;
    stage.declare("web", "nginx:1").await;
    stage.declare("next", "nginx:1").await;
    for round in 0..20 {
        let text = format!("www{round}.example.org");
        let (one, other) =
            tokio::join!(stage.add(org, "web", &text), stage.add(org, "next", &text));
        let refused = match (one, other) {
            (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused,
            both => panic!("{both:?}"),
        };
        assert!(
            matches!(&refused, Refusal::Refused(Refused::Invalid(errors))
                if errors[0].message.contains("remove it there first")),
            "{refused:?}"
        );
    }
}
