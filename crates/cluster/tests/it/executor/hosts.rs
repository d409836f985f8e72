//! Hosts of a service: added, kept, moved behind a gateway and removed, on either cluster.

use futures::FutureExt;
use trueup_model::cluster::{GatewayRef, Routing};
use trueup_model::domain::{Route, Tls};
use trueup_model::id::DomainId;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, Order};
use trueup_model::report::Report;
use trueup_rules::render;
use trueup_rules::render::names;
use uuid::Uuid;

use crate::executor::Check;
use crate::rig::{Rig, converged, healthy, web, with_receipt};

/// Every behaviour with its description.
pub(crate) fn checks() -> Vec<(&'static str, Check)> {
    vec![
        ("a host is added, kept and removed", |rig| comes_and_goes(rig).boxed()),
        ("a gateway takes the hosts over", |rig| moves(rig).boxed()),
    ]
}

fn domain() -> DomainId {
    DomainId::from_uuid(Uuid::from_u128(7))
}

pub(crate) fn with_host(rig: &Rig, generation: i64, routing: Routing) -> Order {
    let mut order = rig.service(generation, web(1));
    if let Body::Service(body) = &mut order.body {
        // A separate host for each rig: an ingress controller may read all of them.
        let host = format!("{}.example.org", body.object_name).parse().expect("a host");
        body.routes = vec![Route { id: domain(), host, tls: Tls::Auto }];
        body.routing = routing;
    }
    for key in render::keys(&order) {
        order.recorded.entry(key).or_insert(None);
    }
    order
}

pub(crate) fn at(order: &Order, kind: Kind) -> ResourceKey {
    let Body::Service(body) = &order.body else { unreachable!("a service") };
    ResourceKey::new(kind, &order.namespace, &names::domain(&body.object_name, domain()))
}

pub(crate) fn with_issuer() -> Routing {
    Routing { issuer: Some("test".to_owned()), ..Routing::default() }
}

pub(crate) fn quiet(report: &Report) -> bool {
    converged(report) && healthy(report)
}

async fn comes_and_goes(mut rig: Rig) {
    rig.running(web(1)).await;
    let order = with_host(&rig, 2, with_issuer());
    rig.order_until(order.clone(), quiet).await;
    let (ingress, certificate) = (at(&order, Kind::Ingress), at(&order, Kind::Certificate));
    let first = rig.get(&ingress).await.expect("the Ingress should be there");
    assert!(rig.get(&certificate).await.is_some());
    // The same again writes nothing, whatever the server filled in.
    rig.executor.order(order.clone()).await.await.expect("a pass should end");
    let again = rig.get(&ingress).await.expect("the Ingress should be there");
    assert_eq!(again["metadata"]["generation"], first["metadata"]["generation"]);
    let without = Rig::after(&order, rig.service(3, web(1)));
    rig.order_until(without, quiet).await;
    for key in [&ingress, &certificate] {
        rig.get_until(key, |found| found.is_none()).await;
    }
    rig.order_until(rig.gone(4, web(1)), with_receipt).await;
}

async fn moves(mut rig: Rig) {
    rig.running(web(1)).await;
    let order = with_host(&rig, 2, with_issuer());
    rig.order_until(order.clone(), quiet).await;
    let gateway = GatewayRef { namespace: "infra".to_owned(), name: "public".to_owned() };
    let routing = Routing { gateway: Some(gateway), ..with_issuer() };
    let moved = Rig::after(&order, with_host(&rig, 3, routing));
    rig.order_until(moved.clone(), quiet).await;
    let route = rig.get(&at(&moved, Kind::HttpRoute)).await.expect("the route should be there");
    assert_eq!(route["spec"]["parentRefs"][0]["name"], "public");
    for kind in [Kind::Ingress, Kind::Certificate] {
        rig.get_until(&at(&order, kind), |found| found.is_none()).await;
    }
}
