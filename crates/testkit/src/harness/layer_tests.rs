//! Tests of the layer: when faults count as happened, and which violations it records.

use std::sync::Arc;

use serde_json::{Value, json};
use trueup_cluster::{Cluster, Fence};
use trueup_model::Clock;
use trueup_model::key::{Kind, ResourceKey};

use super::layer::Layer;
use super::outside;
use super::plan::{Fault, FaultAction, Side, Trigger};
use crate::fake_cluster::FakeCluster;
use crate::virtual_clock::VirtualClock;

const SPACE: &str = "space";

fn object(kind: Kind, name: &str) -> (ResourceKey, Value) {
    let key = ResourceKey::new(kind, if kind == Kind::Namespace { "" } else { SPACE }, name);
    let mut object = json!({
        "apiVersion": kind.api_version(), "kind": kind.as_str(), "metadata": { "name": name },
    });
    if kind != Kind::Namespace {
        object["metadata"]["namespace"] = SPACE.into();
    }
    if kind == Kind::Deployment {
        object["spec"] = json!({
            "selector": { "matchLabels": { "a": "b" } },
            "template": {
                "metadata": { "labels": { "a": "b" } },
                "spec": { "containers": [{ "name": "c", "image": "i:1" }] },
            },
        });
    }
    (key, object)
}

async fn start(faults: &[(Trigger, FaultAction)]) -> (FakeCluster, Layer, Arc<dyn Clock>) {
    let (fake, clock) = (FakeCluster::new(), Arc::new(VirtualClock::new()));
    let (key, namespace) = object(Kind::Namespace, SPACE);
    fake.apply(&key, &namespace).await.expect("a namespace should be created");
    let faults = faults.iter().cloned().map(|(at, then)| Fault { at, then });
    let faults: Vec<Fault> = faults.collect();
    let layer = Layer::new(&fake, Arc::<VirtualClock>::clone(&clock), &faults);
    (fake, layer, clock)
}

async fn apply(layer: &Layer, kind: Kind, name: &str) {
    let (key, object) = object(kind, name);
    layer.apply(&key, &object).await.expect("the object should be applied");
}

#[tokio::test(start_paused = true)]
async fn foreign_change_waits_until_the_object_exists() {
    for action in
        [FaultAction::ForeignEdit, FaultAction::ForeignDelete, FaultAction::ForeignRelabel]
    {
        let (_fake, layer, _clock) = start(&[(Trigger::Write(1), action)]).await;
        apply(&layer, Kind::ConfigMap, "one").await;
        assert_eq!(layer.fired(), [false], "the object does not exist yet");
        apply(&layer, Kind::ConfigMap, "one").await;
        assert_eq!(layer.fired(), [true]);
    }
}

/// The Service in the cluster, with the field that is taken over as Trueup states it.
async fn apply_service(layer: &Layer) -> Value {
    let (key, mut service) = object(Kind::Service, "one");
    service["spec"] = json!({ "internalTrafficPolicy": "Cluster", "ports": [{ "port": 80 }] });
    layer.apply(&key, &service).await.expect("the Service should be applied")
}

#[tokio::test(start_paused = true)]
async fn field_is_taken_over_before_or_after_the_write() {
    let of = |object: &Value| object["spec"]["internalTrafficPolicy"].clone();
    let (key, _) = object(Kind::Service, "one");
    for (side, fired, stored) in [(Side::Before, false, "Cluster"), (Side::After, true, "Local")] {
        let taken = FaultAction::ForeignTakeOver(side);
        let (fake, layer, _clock) = start(&[(Trigger::Write(1), taken)]).await;
        let answer = apply_service(&layer).await;
        assert_eq!(of(&answer), "Cluster", "the response is older than the take-over");
        assert_eq!(layer.fired(), [fired], "nothing can be taken over before a create");
        assert_eq!(of(&fake.find(&key).expect("the Service should exist")), stored);
        let stands = outside::standing(&layer.notes(), &fake);
        assert_eq!(stands.len(), usize::from(fired), "{stands:?}");

        apply_service(&layer).await;
        assert_eq!(layer.fired(), [true], "{side:?}");
        assert_eq!(of(&fake.find(&key).expect("the Service should exist")), "Cluster");
        assert!(outside::standing(&layer.notes(), &fake).is_empty());
        let lost = outside::overwritten(&layer.notes(), &fake);
        assert!(lost.len() == 1 && lost[0].starts_with("O13"), "{lost:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn refusal_counts_as_happened_once_a_write_is_refused() {
    let refuse = FaultAction::Refuse(Kind::Secret, 90);
    let (_fake, layer, _clock) = start(&[(Trigger::Write(1), refuse)]).await;
    apply(&layer, Kind::ConfigMap, "one").await;
    assert_eq!(layer.fired(), [false], "another kind is not refused");
    let (key, secret) = object(Kind::Secret, "one");
    layer.apply(&key, &secret).await.expect_err("the Secret should be refused");
    assert_eq!(layer.fired(), [true]);
}

#[tokio::test(start_paused = true)]
async fn write_after_lease_end_is_a_violation() {
    let (_fake, layer, clock) = start(&[(Trigger::Write(2), FaultAction::LeaseEnds(40))]).await;
    layer.set_fence(Arc::new(Fence::closed(Arc::clone(&clock))));
    apply(&layer, Kind::ConfigMap, "one").await;
    apply(&layer, Kind::ConfigMap, "two").await;
    assert_eq!((layer.notes().wrong.len(), layer.fired()), (0, vec![true]));
    layer.renew_lease();
    apply(&layer, Kind::ConfigMap, "three").await;
    let wrong = layer.notes().wrong;
    assert!(wrong.len() == 1 && wrong[0].starts_with("O5"), "{wrong:?}");
    clock.sleep(std::time::Duration::from_secs(40)).await;
    layer.renew_lease();
    apply(&layer, Kind::ConfigMap, "four").await;
    assert_eq!(layer.notes().wrong.len(), 1, "the lease is held again");
}

#[tokio::test(start_paused = true)]
async fn workload_created_without_its_policies_is_a_violation() {
    let (fake, layer, _clock) = start(&[]).await;
    let (policy, _) = object(Kind::NetworkPolicy, "wall");
    layer.guard_workloads_with([policy.clone()]);
    apply(&layer, Kind::NetworkPolicy, "wall").await;
    apply(&layer, Kind::Deployment, "good").await;
    assert_eq!(layer.notes().wrong, [""; 0]);
    fake.remove(&policy);
    apply(&layer, Kind::Deployment, "bad").await;
    let wrong = layer.notes().wrong;
    assert!(wrong.len() == 1 && wrong[0].starts_with("F05"), "{wrong:?}");
}
