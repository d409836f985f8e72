//! What Kubernetes says, read as evidence.

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
fn everything_of_ours_is_seen_with_its_incarnation() {
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
fn what_is_not_ours_is_not_evidence() {
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
fn a_workload_counts_only_what_its_controller_has_seen() {
    let counts = json!({"replicas": 3, "updatedReplicas": 2, "readyReplicas": 1});
    let seen = |generation: Value| {
        let mut status = counts.clone();
        status["observedGeneration"] = generation;
        with_status(status)
    };
    let expected =
        WorkloadSeen { wanted: 2, existing: 3, updated: 2, ready: 1, current: true, runs: None };
    assert_eq!(seen(json!(7)), expected);
    assert_eq!(seen(json!(6)), WorkloadSeen { current: false, ..expected });
    let silent =
        WorkloadSeen { wanted: 2, existing: 0, updated: 0, ready: 0, current: false, runs: None };
    assert_eq!(with_status(json!({})), silent, "no word at all");
}

#[test]
fn each_trouble_of_a_pod_has_its_cause() {
    let table = [
        ("ImagePullBackOff", Some(Cause::ImagePull)),
        ("ErrImagePull", Some(Cause::ImagePull)),
        ("InvalidImageName", Some(Cause::ImagePull)),
        ("CrashLoopBackOff", Some(Cause::CrashLoop)),
        ("CreateContainerConfigError", Some(Cause::ContainerConfig)),
        ("CreateContainerError", Some(Cause::ContainerConfig)),
        ("ContainerCreating", None),
        ("PodInitializing", None),
    ];
    for (reason, cause) in table {
        let seen = pod(json!({
            "metadata": {"name": "p", "uid": "u"},
            "status": {"containerStatuses": [
                {"state": {"running": {}}},
                {"state": {"waiting": {"reason": reason, "message": "what it says"}}},
            ]},
        }));
        assert_eq!(seen.problem.as_ref().map(|problem| problem.cause), cause, "{reason}");
        if let Some(problem) = seen.problem {
            assert_eq!(problem.detail, "what it says");
        }
        assert!(!seen.ready);
    }
}

#[test]
fn a_pod_without_a_node_says_why() {
    let seen = pod(json!({
        "metadata": {"name": "p", "uid": "u"},
        "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
             "message": "0/3 nodes are available: 3 Insufficient memory."},
        ]},
    }));
    let problem = seen.problem.unwrap();
    assert_eq!(problem.cause, Cause::Unschedulable);
    assert!(problem.detail.contains("Insufficient memory"));
    assert!(!seen.simulated);
}

#[test]
fn a_pod_that_waits_for_its_disk_is_not_one_without_room() {
    let seen = pod(json!({
        "metadata": {"name": "p", "uid": "u"},
        "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
             "message": "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."},
        ]},
    }));
    assert_eq!(seen.problem.unwrap().cause, Cause::VolumePending);
}

#[test]
fn the_local_clusters_nodes_are_known_to_be_simulated() {
    let seed = format!("{}/../../local/kube/internal/seed/seed.go", env!("CARGO_MANIFEST_DIR"));
    let seed = std::fs::read_to_string(seed).unwrap();
    let (_, rest) = seed.split_once("simulatedNode(fmt.Sprintf(\"").unwrap();
    let (pattern, _) = rest.split_once('"').unwrap();
    let on = |node: &str| {
        pod(json!({"metadata": {"name": "p"}, "spec": {"nodeName": node}, "status": {}})).simulated
    };
    assert!(on(&pattern.replace("%d", "1")), "{pattern} as local/kube names its nodes");
    for real in ["node-1", "ip-10-0-0-7.example.org", "not-simulated-1"] {
        assert!(!on(real), "{real}");
    }
    assert!(!pod(json!({"metadata": {"name": "p"}})).simulated, "no node yet");
}
