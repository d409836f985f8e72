//! Selected fault plans on a real API server: a service is created, updated and deleted, and one
//! request meets a fault. All runs end like the run without faults.
//!
//! Thousands of other plans run on the fake cluster, see `plans`; this checks that the fake is
//! faithful.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use trueup_cluster::{CallError, List, Scope};
use trueup_model::key::Kind;
use trueup_model::order::{Body, Order};
use trueup_model::report::{Outcome, Report};
use trueup_model::spec::Spec;
use trueup_testkit::real_kube;

use crate::rig::{Rig, converged, healthy, spec, with_receipt};
use crate::wire::{At, Fault, Wire};

/// As many as the server can run without delaying each other.
const AT_ONCE: usize = 6;
/// How many kinds of fault each write meets, in turn; with `TRUEUP_ALL_PLANS=1` it meets all.
const EACH: usize = 1;

/// How often a list is tried, at up to ten seconds each.
const LIST_TRIES: usize = 12;

/// Condition on a report.
type Wanted = fn(&Report) -> bool;

/// The objects of a namespace, without what differs from run to run.
type Stage = BTreeMap<String, Value>;

/// Result of a run.
struct Story {
    stages: Vec<Stage>,
    writes: Vec<String>,
    fired: bool,
}

/// One process after another on one wire, running the same steps.
struct Run {
    rig: Rig,
    wire: Wire,
}

fn web(greeting: &str) -> Spec {
    let variables = json!({ "GREETING": greeting });
    spec(&json!({ "workload": "deployment", "replicas": 2, "variables": variables }))
}

impl Run {
    /// Sends an order and waits until it is done. A process that crashes is followed by another
    /// one, which gets the project's order first.
    async fn until(mut self, order: Order, wanted: Wanted) -> Self {
        let mut orders: Vec<(Order, Wanted)> = vec![(order, wanted)];
        loop {
            let wire = self.wire.clone();
            tokio::select! {
                () = wire.crashed() => {}
                () = self.give(&orders) => return self,
            }
            wire.revive();
            self.rig = self.rig.restart();
            let project = self.rig.project();
            if orders.iter().all(|(order, _)| order.unit != project.unit) {
                orders.insert(0, (project, converged));
            }
        }
    }

    async fn give(&mut self, orders: &[(Order, Wanted)]) {
        for (order, wanted) in orders {
            self.rig.order_until(order.clone(), *wanted).await;
        }
    }

    /// Our objects of a kind, or `None` if the server does not serve it. Retries on a busy server.
    async fn list(&self, kind: Kind) -> Option<List> {
        let mut answer = self.rig.cluster.list(kind, Scope::Ours).await;
        for _again in 1..LIST_TRIES {
            if matches!(answer, Ok(_) | Err(CallError::UnknownKind(_))) {
                break;
            }
            answer = self.rig.cluster.list(kind, Scope::Ours).await;
        }
        match answer {
            Err(CallError::UnknownKind(_)) => None,
            list => Some(list.expect("it should list")),
        }
    }

    async fn stage(&self, order: &Order) -> Stage {
        let mut stage = Stage::new();
        for kind in Kind::WATCHED.into_iter().filter(|kind| *kind != Kind::Pod) {
            let Some(list) = self.list(kind).await else { continue };
            let ours = list.objects.into_iter().filter(|it| {
                [&it["metadata"]["namespace"], &it["metadata"]["name"]]
                    .contains(&&json!(order.namespace))
            });
            for object in ours {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                stage.insert(neutral(order, &format!("{kind} {name}")), content(order, &object));
            }
        }
        stage
    }
}

/// The text without names that are unique to this run.
fn neutral(order: &Order, text: &str) -> String {
    let mut text = text.replace(&order.namespace, "NAMESPACE");
    if let Body::Service(service) = &order.body {
        text = text.replace(&service.object_name, "NAME");
    }
    text.replace(&order.unit.to_string(), "UNIT")
        .replace(&order.project.to_string(), "PROJECT")
        .replace(&order.org.to_string(), "ORG")
}

/// The content of an object, without fields that are set by the server or unique to this run.
fn content(order: &Order, object: &Value) -> Value {
    let mut spec = object["spec"].clone();
    for given in ["clusterIP", "clusterIPs", "finalizers"] {
        spec.as_object_mut().map(|fields| fields.remove(given));
    }
    // The digest of secrets differs for each service.
    if let Some(template) = spec.pointer_mut("/template/metadata").and_then(Value::as_object_mut) {
        template.remove("annotations");
    }
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let owners: Vec<Value> = owners.map(|it| json!([it["kind"], it["name"]])).collect();
    let whole = json!({
        "labels": object["metadata"]["labels"], "owners": owners,
        "spec": spec, "data": object["data"], "type": object["type"],
    });
    neutral(order, &whole.to_string()).parse().expect("it should still be JSON")
}

/// Creates, updates and deletes a service over this wire.
async fn run(kubeconfig: &Path, fault: Option<(At, Fault)>) -> Story {
    let wire = Wire::new(kubeconfig, fault);
    let mut run = Run { rig: Rig::start(Arc::new(wire.cluster())), wire: wire.clone() };
    let (first, second) = (run.rig.service(1, web("hello")), run.rig.service(2, web("hi")));
    let (project, gone) = (run.rig.project(), run.rig.gone(3, web("hi")));
    let mut stages = Vec::new();
    run = run.until(project, converged).await;
    stages.push(run.stage(&first).await);
    run = run.until(first.clone(), healthy).await;
    stages.push(run.stage(&first).await);
    run = run.until(second.clone(), healthy).await;
    stages.push(run.stage(&first).await);

    let at_rest = wire.writes().len();
    let passed = run.rig.executor.order(second).await.await;
    assert_eq!(passed, Ok(Outcome::Converged), "{fault:?}");
    assert_eq!(
        wire.writes()[at_rest..],
        [""; 0],
        "{fault:?}: a converged service is not written again"
    );

    run = run.until(gone, with_receipt).await;
    stages.push(run.stage(&first).await);
    Story { stages, writes: wire.writes(), fired: wire.fired() }
}

/// Every write meets some of the faults, and each fault happens many times.
fn plans(writes: usize) -> Vec<(At, Fault)> {
    let all = std::env::var("TRUEUP_ALL_PLANS").is_ok_and(|all| all == "1");
    let each = if all { Fault::ALL.len() } else { EACH };
    let on_writes = (1..=writes).flat_map(|write| {
        let turns = (0..each).map(move |turn| (write + turn) % Fault::ALL.len());
        turns.map(move |turn| (At::Write(write), Fault::ALL[turn]))
    });
    let on_watches = [Fault::Answered(410), Fault::Answered(503), Fault::Unreachable, Fault::Cut];
    let on_watches = on_watches.into_iter().enumerate();
    on_writes.chain(on_watches.map(|(turn, fault)| (At::Watch(3 * turn + 1), fault))).collect()
}

#[tokio::test]
async fn transport_faults_on_a_real_server_do_not_change_the_end_state() {
    let kubeconfig = real_kube::shared().await;
    let calm = run(&kubeconfig, None).await;
    assert_eq!(calm.stages[0], calm.stages[3], "nothing of the service is left");
    assert!(calm.stages[1].len() > calm.stages[0].len() + 4, "{:?}", calm.stages[1].keys());

    let plans = plans(calm.writes.len());
    for fault in Fault::ALL {
        assert!(
            plans.iter().any(|(at, one)| matches!(at, At::Write(_)) && *one == fault),
            "{fault:?}"
        );
    }
    let runs = plans.iter().map(|plan| {
        let kubeconfig = &kubeconfig;
        async move { (plan, run(kubeconfig, Some(*plan)).await) }
    });
    let ended: Vec<_> = stream::iter(runs).buffer_unordered(AT_ONCE).collect().await;
    println!("{} plans, {} writes without faults", ended.len(), calm.writes.len());
    for (plan, story) in ended {
        assert!(story.fired, "{plan:?} never happened: {:#?}", story.writes);
        assert_eq!(story.stages, calm.stages, "{plan:?} ends in another state");
    }
}
