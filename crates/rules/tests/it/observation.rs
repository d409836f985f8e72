//! Kubernetes objects as evidence.

use serde_json::{Value, json};
use trueup_model::key::Kind;
use trueup_model::observation::{Cause, PodSeen, WorkloadSeen};

use crate::given;
use crate::world::World;

fn running() -> World {
    let mut world = World::service(given::template("web"), json!({"image": "a", "replicas": 2}));
    world.reconcile();
    world.server.catch_up();
    world
}

fn with_status(status: Value) -> WorkloadSeen {
    let mut world = running();
    let key = world.server.objects.keys().find(|key| key.kind == Kind::Deployment).cloned();
    let live = key.and_then(|key| world.server.objects.get_mut(&key)).expect("a deployment");
    live["metadata"]["generation"] = json!(7);
    live["status"] = status;
    world.observation(true).workload.expect("a workload that was seen")
}

fn pod(pod: Value) -> PodSeen {
    let mut world = running();
    world.server.pods = vec![pod];
    world.observation(true).pods.remove(0)
}

#[test]
fn owned_objects_are_observed_with_their_uid() {
    let mut world = running();
    let seen = world.observation(true);
    let kinds: Vec<Kind> = seen.objects.iter().map(|sighting| sighting.key.kind).collect();
    let (config, budget) = (Kind::ConfigMap, Kind::PodDisruptionBudget);
    assert_eq!(kinds, [config, config, Kind::Secret, Kind::Deployment, Kind::Service, budget]);
    assert!(seen.objects.iter().all(|sighting| sighting.uid.starts_with("uid-")));
    assert!(seen.objects.iter().all(|sighting| !sighting.terminating));
    assert_eq!(seen.pods.len(), 2);
    assert!(seen.pods.iter().all(|pod| pod.ready && pod.problem.is_none()));
}

#[test]
fn foreign_objects_are_not_evidence() {
    let mut world = running();
    let key = world.server.objects.keys().find(|key| key.kind == Kind::Deployment).cloned();
    let key = key.unwrap();
    world.server.delete(&key);
    world.server.edit(&key, |foreign| foreign["spec"] = json!({"replicas": 2}));
    let seen = world.observation(false);
    assert_eq!(seen.workload, None);
    assert!(seen.objects.iter().all(|sighting| sighting.key != key));
}

#[test]
fn a_workload_is_current_only_if_its_generation_was_observed() {
    let counts = json!({"replicas": 3, "updatedReplicas": 2, "readyReplicas": 1});
    let seen = |generation: Value| {
        let mut status = counts.clone();
        status["observedGeneration"] = generation;
        with_status(status)
    };
    let expected = WorkloadSeen {
        wanted: 2,
        existing: 3,
        updated: 2,
        ready: 1,
        current: true,
        ..WorkloadSeen::default()
    };
    assert_eq!(seen(json!(7)), expected);
    assert_eq!(seen(json!(6)), WorkloadSeen { current: false, ..expected });
    let silent = WorkloadSeen {
        wanted: 2,
        existing: 0,
        updated: 0,
        ready: 0,
        current: false,
        ..WorkloadSeen::default()
    };
    assert_eq!(with_status(json!({})), silent, "an empty status");
}

#[test]
fn a_pod_with_an_unbound_claim_is_volume_pending() {
    let seen = pod(json!({
        "metadata": {"name": "p", "uid": "u"},
        "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
             "message": "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."},
        ]},
    }));
    assert_eq!(seen.problem.unwrap().cause, Cause::VolumePending);
}
