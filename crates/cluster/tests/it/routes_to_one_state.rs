//! Different routes to one desired state end in the same objects.
//!
//! On the fake cluster every route of up to three moves is generated: all routes of one move and a
//! fixed part of the others always run, with `TRUEUP_ALL_PLANS=1` all of them. A chosen set runs on
//! a real API server.
//!
//! All objects are compared as a whole, except for what says when and how often an object was
//! written: uids, versions, times, field managers, `metadata.generation`, the generation label, the
//! stamp, and the number of the anchor. On the real API server each route has a service of its own,
//! so names and ids are replaced, and the proofs and digests that depend on them are left out;
//! addresses that the server allocates, and the revision of a Deployment, are left out as well.

mod journey;
mod writer;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use futures::future::join_all;
use serde_json::Value;
use tokio::runtime::Builder;
use trueup_model::order::{Body, Order};
use trueup_rules::plan::{Ownership, ownership};
use trueup_rules::render::names;
use trueup_testkit::fake_cluster::FakeCluster;
use trueup_testkit::harness::stage::{Stage, compare, without_generations};

use crate::pains::outside::Outside;
use crate::rig::{Rig, proofs};
use journey::{Journey, Move, target};
use writer::Writer;

/// The most moves of a route.
const LONGEST: u32 = 3;
/// One in this many of the longer routes always runs. It has no factor in common with the number
/// of moves, so that every move is made at every place.
const ONE_OF: usize = 17;
/// The same ids in every run, so that runs can be compared.
const SERIAL: u64 = 7;

/// Names the route of a run that panics.
struct Named<'a>(&'a [Move]);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            writeln!(std::io::stderr(), "on the route {:?}", self.0).ok();
        }
    }
}

/// The cluster at the end of a route, in virtual time.
fn end_of(route: &[Move]) -> Stage {
    let _named = Named(route);
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime should be built");
    runtime.block_on(async {
        let fake = FakeCluster::new();
        let rig = Rig::numbered(Arc::new(fake.clone()), SERIAL);
        let mut journey = Journey::start(rig, Writer::Fake(fake.clone())).await;
        for step in route {
            journey.rest().await;
            journey = Box::pin(journey.go(*step)).await;
        }
        journey.declare(target()).await;
        journey.rest().await;
        without_generations(&fake.snapshot())
    })
}

/// The routes of this many moves, in a fixed order.
fn routes_of(moves: u32) -> Vec<Vec<Move>> {
    (0..moves).fold(vec![Vec::new()], |shorter, _| {
        let longer = |route: &Vec<Move>| {
            let route = route.clone();
            Move::ALL.map(move |step| [route.as_slice(), &[step]].concat())
        };
        shorter.iter().flat_map(longer).collect()
    })
}

/// The routes that always run, or all of them if requested.
fn chosen() -> Vec<Vec<Move>> {
    let longer: Vec<Vec<Move>> = (2..=LONGEST).flat_map(routes_of).collect();
    let all = std::env::var("TRUEUP_ALL_PLANS").is_ok_and(|all| all == "1");
    let step = if all { 1 } else { ONE_OF };
    routes_of(1).into_iter().chain(longer.into_iter().step_by(step)).collect()
}

#[test]
fn every_generated_route_ends_in_the_same_objects() {
    let routes = chosen();
    let places = routes.iter().flat_map(|route| route.iter().enumerate());
    let places: BTreeSet<(usize, &Move)> = places.collect();
    assert_eq!(places.len(), 3 * Move::ALL.len(), "every move is made at every place");

    let expected = end_of(&[]);
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(route) = routes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = compare(&expected, &end_of(route));
                    if !found.is_empty() {
                        wrong.lock().expect("no thread should panic").push((route, found));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no thread should panic");
    println!("{} routes", routes.len());
    assert!(wrong.is_empty(), "{} of {} routes differ: {wrong:#?}", wrong.len(), routes.len());
}

#[test]
fn comparison_of_ends_notices_a_value_that_was_left_behind() {
    let expected = end_of(&[]);
    let (key, _) = expected.iter().find(|(key, _)| key.starts_with("Deployment/")).expect("one");
    let mut end = expected.clone();
    end.get_mut(key).expect("it should be there")["spec"]["replicas"] = 5.into();
    assert_eq!(compare(&expected, &end).len(), 1);
}

/// The objects of a service at the end of a route on the real API server.
async fn real_end(route: &[Move]) -> Stage {
    let _named = Named(route);
    let (cluster, outside) = Outside::real().await;
    let writer = Writer::Real(outside);
    let mut journey = Journey::start(Rig::start(cluster), writer.clone()).await;
    for step in route {
        journey = Box::pin(journey.go(*step)).await;
    }
    journey.declare(target()).await;
    journey.pass().await;
    let mut stage = Stage::new();
    for key in journey.order.recorded.keys() {
        if let Some(object) = writer.get(key).await {
            let owner = ownership(&journey.order, key, &object, &proofs());
            assert_eq!(owner, Ownership::Ours, "{key}");
            stage.insert(neutral(&journey.order, &key.to_string()), plain(&journey.order, object));
        }
    }
    without_generations(&stage)
}

/// An object without what the server and its controllers add, and without names and ids.
fn plain(order: &Order, mut object: Value) -> Value {
    let compared = ["labels", "annotations", "ownerReferences", "finalizers"];
    let allocated = ["clusterIP", "clusterIPs"];
    let dependent = [names::PROOF_ANNOTATION, names::CONFIG_ANNOTATION, REVISION];
    let retain = |place: Option<&mut Value>, is_kept: &dyn Fn(&str) -> bool| {
        if let Some(fields) = place.and_then(Value::as_object_mut) {
            fields.retain(|name, _| is_kept(name.as_str()));
        }
    };
    retain(Some(&mut object), &|name| name != "status");
    retain(object.get_mut("metadata"), &|name| compared.contains(&name));
    retain(object.get_mut("spec"), &|name| !allocated.contains(&name));
    for place in ["/metadata/annotations", "/spec/template/metadata/annotations"] {
        retain(object.pointer_mut(place), &|name| !dependent.contains(&name));
    }
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten() {
        retain(Some(owner), &|name| name != "uid");
    }
    neutral(order, &object.to_string()).parse().expect("the replaced text should be valid JSON")
}

/// Written by the controller of Deployments.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// A text with the same names and ids for every order.
fn neutral(order: &Order, text: &str) -> String {
    let Body::Service(body) = &order.body else { return text.to_owned() };
    let own = [
        (order.unit.to_string(), "SERVICE"),
        (order.project.to_string(), "PROJECT"),
        (order.org.to_string(), "ORG"),
        (order.namespace.clone(), "NAMESPACE"),
        (body.object_name.clone(), "NAME"),
    ];
    own.iter().fold(text.to_owned(), |text, (own, neutral)| text.replace(own, neutral))
}

#[tokio::test]
async fn chosen_routes_end_in_the_same_objects_on_a_real_cluster() {
    let routes: [&[Move]; 8] = [
        &[],
        &[Move::Change],
        &[Move::Upgrade],
        &[Move::Edit, Move::Delete],
        &[Move::Add, Move::Relabel],
        &[Move::Adopt],
        &[Move::Ignore],
        &[Move::Pause, Move::Freeze, Move::Restart],
    ];
    let ends = join_all(routes.map(real_end)).await;
    let expected = ends.first().expect("the direct route");
    assert!(expected.len() >= 6, "the service has objects: {:?}", expected.keys());
    for (route, end) in routes.iter().zip(&ends) {
        let wrong = compare(expected, end);
        assert!(wrong.is_empty(), "{route:?}: {wrong:#?}");
    }
}
