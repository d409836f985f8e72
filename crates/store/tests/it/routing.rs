//! The routing of a cluster: a change wakes the services with verified hosts, of every org.

use trueup_model::OrgId;
use trueup_model::cluster::Routing;
use trueup_model::domain::Host;
use trueup_model::order::Body;
use trueup_store::door::DomainRequest;

use crate::stage::{PROJECT, Stage, at, unit};

/// Adds a verified host to a service of an org.
async fn verified(stage: &Stage, org: OrgId, service: &str, text: &str) {
    stage.add(org, service, text).await.unwrap();
    let host: Host = text.parse().unwrap();
    let wanted = DomainRequest { project: PROJECT, service, host: &host, if_generation: None };
    stage.db.app.verify_domain(org, &wanted, true, &stage.context(), at(4)).await.unwrap();
}

async fn put(stage: &Stage, issuer: &str, dry: bool) -> bool {
    let cluster = stage.db.app.list_clusters().await.unwrap().remove(0);
    let routing = Routing { issuer: Some(issuer.to_owned()), ..Routing::default() };
    let dry_run = stage.db.app.dry_run();
    let app = if dry { dry_run.app() } else { &stage.db.app };
    app.put_routing(&cluster, &routing, &stage.context(), at(9)).await.unwrap()
}

/// The lanes of the wakes of services, in the order of their names.
async fn lanes(stage: &Stage) -> Vec<String> {
    let statement =
        "select s.name || ' ' || w.lane from wakes w join services s on s.id = w.subject_id
                     where w.subject_kind = 'service' order by s.name, s.org_id";
    stage.all(statement).await
}

#[tokio::test]
async fn a_change_of_routing_wakes_the_services_with_verified_hosts() {
    let stage = Stage::new().await;
    let ours = stage.db.org;
    for service in ["plain", "unverified", "web"] {
        stage.declare(service, "nginx:1").await;
    }
    let theirs = stage.others().await;
    verified(&stage, ours, "web", "www.example.org").await;
    verified(&stage, theirs, "web", "www.example.net").await;
    stage.add(ours, "unverified", "www.example.com").await.unwrap();
    sqlx::query("delete from wakes").execute(&stage.owner).await.unwrap();
    let before = stage.find("web").await.unwrap();

    assert!(put(&stage, "ca", true).await);
    assert_eq!(lanes(&stage).await, Vec::<String>::new(), "a dry run wakes nothing");
    assert!(put(&stage, "ca", false).await);
    assert_eq!(lanes(&stage).await, ["web repair", "web repair"], "one of each org");
    let after = stage.find("web").await.unwrap();
    assert_eq!(after.service.generation, before.service.generation);

    // The same again changes nothing.
    sqlx::query("delete from wakes").execute(&stage.owner).await.unwrap();
    assert!(!put(&stage, "ca", false).await);
    assert_eq!(lanes(&stage).await, Vec::<String>::new());
}

#[tokio::test]
async fn the_woken_service_gets_the_new_routing_with_its_order() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    verified(&stage, stage.db.org, "web", "www.example.org").await;
    stage.order_of("web").await;
    sqlx::query("delete from wakes").execute(&stage.owner).await.unwrap();
    put(&stage, "ca", false).await;
    let lease = stage.lease().await;
    let orders = stage.db.worker.claim_orders(lease, 100, at(10)).await.unwrap();
    let order = orders.into_iter().map(|(_, order)| order).find(|order| order.unit == unit(&row));
    let Body::Service(body) = order.unwrap().body else { panic!("a service") };
    assert_eq!(body.routing.issuer.as_deref(), Some("ca"));
}
