//! What the controllers that come with a cluster do.

use serde_json::{Value, json};
use trueup_cluster::Scope;
use trueup_model::key::{Kind, ResourceKey};

use super::place::{labelled, text};
use super::{Check, Place};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("a_deployment_becomes_ready", |at| Box::pin(a_deployment_becomes_ready(at))),
    ("a_pod_says_where_it_runs_and_since_when", |at| {
        Box::pin(a_pod_says_where_it_runs_and_since_when(at))
    }),
    ("scaling_to_zero_removes_the_pods", |at| Box::pin(scaling_to_zero_removes_the_pods(at))),
    ("a_changed_template_replaces_the_pods", |at| {
        Box::pin(a_changed_template_replaces_the_pods(at))
    }),
    ("a_deleted_deployment_takes_its_pods_with_it", |at| {
        Box::pin(a_deleted_deployment_takes_its_pods_with_it(at))
    }),
    ("the_generation_follows_the_spec_and_nothing_else", |at| {
        Box::pin(the_generation_follows_the_spec_and_nothing_else(at))
    }),
    ("a_stateful_claim_is_bound_and_its_volume_goes_with_it", |at| {
        Box::pin(a_stateful_claim_is_bound_and_its_volume_goes_with_it(at))
    }),
    ("a_retained_volume_outlives_its_claim", |at| {
        Box::pin(a_retained_volume_outlives_its_claim(at))
    }),
    ("a_claim_of_our_own_is_bound_and_held_while_in_use", |at| {
        Box::pin(a_claim_of_our_own_is_bound_and_held_while_in_use(at))
    }),
    ("a_job_completes_and_takes_its_pods_with_it", |at| {
        Box::pin(a_job_completes_and_takes_its_pods_with_it(at))
    }),
    ("a_job_that_is_held_back_has_no_pods", |at| Box::pin(a_job_that_is_held_back_has_no_pods(at))),
    ("the_pods_of_a_job_cannot_be_changed", |at| Box::pin(the_pods_of_a_job_cannot_be_changed(at))),
    ("a_cron_takes_another_schedule", |at| Box::pin(a_cron_takes_another_schedule(at))),
];

/// What transitions are made of: the node, the times, and the node's own word on itself.
async fn a_pod_says_where_it_runs_and_since_when(at: &Place) {
    let (key, object) = deployment(at, "web", 1);
    at.apply(&key, &object).await;
    until_ready(at, &key, 1).await;
    let pod = at.until_pods(1).await.remove(0);
    let is_time = |value: &Value| value.as_str().is_some_and(|text| text.ends_with('Z'));
    let status = &pod["status"];
    assert!(is_time(&pod["metadata"]["creationTimestamp"]) && is_time(&status["startTime"]));
    let running = &status["containerStatuses"][0]["state"]["running"];
    assert!(is_time(&running["startedAt"]), "{pod:#}");
    for name in ["PodScheduled", "Ready"] {
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut named = conditions.filter(|condition| condition["type"] == name);
        let condition = named.next().expect("should have the condition");
        assert_eq!(condition["status"], "True");
        assert!(is_time(&condition["lastTransitionTime"]), "{pod:#}");
    }
    // Nobody labels nodes for us: all of them are seen.
    let nodes = at.cluster.list(Kind::Node, Scope::Ours).await.expect("should list").objects;
    let node = nodes.iter().find(|node| node["metadata"]["name"] == pod["spec"]["nodeName"]);
    let node = node.expect("should list the pod's node");
    assert_eq!(node["metadata"]["labels"]["trueup.dev/node-class"], "simulated");
    assert!(node["status"]["capacity"]["cpu"].is_string());
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    assert!(conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True"));
}

/// A Job with one pod that ends.
fn job(at: &Place, name: &str, held: bool) -> (ResourceKey, Value) {
    let key = at.key(Kind::Job, name);
    let mut object = labelled(&key);
    let mut template = workload(name, 1)["template"].clone();
    template["spec"]["restartPolicy"] = "Never".into();
    object["spec"] = json!({ "suspend": held, "backoffLimit": 0, "template": template });
    (key, object)
}

pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind && condition["status"] == "True")
}

async fn a_job_completes_and_takes_its_pods_with_it(at: &Place) {
    let (key, object) = job(at, "train", false);
    at.apply(&key, &object).await;
    at.until(&key, "complete", |job| condition(job, "Complete").is_some()).await;
    let pods = at.until_pods(1).await;
    assert_eq!(pods[0]["status"]["phase"], "Succeeded");
    assert_eq!(pods[0]["metadata"]["labels"]["trueup.dev/name"], "train");
    // What the server filled in is not ours: applying again changes nothing.
    let before = at.get(&key).await.expect("should be there");
    assert_eq!(at.apply(&key, &object).await["spec"], before["spec"]);
    at.delete(&key).await;
    at.until_gone(&key).await;
    at.until_pods(0).await;
}

async fn a_job_that_is_held_back_has_no_pods(at: &Place) {
    let (key, object) = job(at, "train", true);
    at.apply(&key, &object).await;
    at.until(&key, "suspended", |job| condition(job, "Suspended").is_some()).await;
    at.until_pods(0).await;
    let (_, object) = job(at, "train", false);
    at.apply(&key, &object).await;
    at.until(&key, "complete", |job| condition(job, "Complete").is_some()).await;
    // A run that has ended may be held back and let go again, and does not run twice.
    for held in [true, false] {
        let (_, object) = job(at, "train", held);
        at.apply(&key, &object).await;
    }
    at.until_pods(1).await;
}

async fn the_pods_of_a_job_cannot_be_changed(at: &Place) {
    let (key, mut object) = job(at, "train", false);
    let stored = at.apply(&key, &object).await;
    // The very same pods are no change, whoever completed them.
    object["spec"]["template"] = stored["spec"]["template"].clone();
    at.apply(&key, &object).await;
    object["spec"]["template"]["spec"]["containers"][0]["image"] = "other:1".into();
    let refused = at.cluster.apply(&key, &object).await;
    assert!(matches!(refused, Err(trueup_cluster::CallError::Refused(_))), "{refused:?}");
}

async fn a_cron_takes_another_schedule(at: &Place) {
    let key = at.key(Kind::CronJob, "report");
    let mut object = labelled(&key);
    let run = job(at, "report", false).1["spec"].clone();
    object["spec"] = json!({ "schedule": "0 0 1 1 *", "jobTemplate": { "spec": run } });
    at.apply(&key, &object).await;
    object["spec"]["schedule"] = "0 0 2 1 *".into();
    let stored = at.apply(&key, &object).await;
    assert_eq!(stored["spec"]["schedule"], "0 0 2 1 *");
    at.delete(&key).await;
    at.until_gone(&key).await;
}

/// A small Deployment.
pub(super) fn deployment(at: &Place, name: &str, replicas: u32) -> (ResourceKey, Value) {
    let key = at.key(Kind::Deployment, name);
    let mut object = labelled(&key);
    object["spec"] = workload(name, replicas);
    (key, object)
}

pub(super) fn workload(name: &str, replicas: u32) -> Value {
    let labels = json!({ "trueup.dev/name": name });
    json!({
        "replicas": replicas,
        "selector": { "matchLabels": labels },
        "template": {
            "metadata": { "labels": labels },
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{ "name": "main", "image": "registry.invalid/contract:1" }],
            },
        },
    })
}

async fn until_ready(at: &Place, key: &ResourceKey, replicas: u32) -> Value {
    at.until(key, "ready", |object| {
        let status = &object["status"];
        status["observedGeneration"] == object["metadata"]["generation"]
            && ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
                .iter()
                .all(|count| status[count].as_u64().unwrap_or_default() == u64::from(replicas))
    })
    .await
}

async fn a_deployment_becomes_ready(at: &Place) {
    let (key, object) = deployment(at, "web", 2);
    at.apply(&key, &object).await;
    let ready = until_ready(at, &key, 2).await;
    let conditions = ready["status"]["conditions"].as_array().expect("should have conditions");
    let available = conditions.iter().find(|condition| condition["type"] == "Available");
    assert_eq!(available.map(|condition| &condition["status"]), Some(&json!("True")));
    for pod in at.until_pods(2).await {
        assert_eq!(pod["kind"], "Pod");
        assert_eq!(pod["metadata"]["labels"]["trueup.dev/name"], "web");
        assert_eq!(pod["status"]["phase"], "Running");
    }
}

async fn scaling_to_zero_removes_the_pods(at: &Place) {
    let (key, object) = deployment(at, "web", 2);
    at.apply(&key, &object).await;
    until_ready(at, &key, 2).await;
    let (_, object) = deployment(at, "web", 0);
    at.apply(&key, &object).await;
    at.until_pods(0).await;
    until_ready(at, &key, 0).await;
}

async fn a_changed_template_replaces_the_pods(at: &Place) {
    let (key, mut object) = deployment(at, "web", 1);
    at.apply(&key, &object).await;
    until_ready(at, &key, 1).await;
    let old = text(&at.until_pods(1).await[0], "uid");
    object["spec"]["template"]["spec"]["containers"][0]["image"] =
        "registry.invalid/contract:2".into();
    at.apply(&key, &object).await;
    until_ready(at, &key, 1).await;
    let pods = at.until_pods(1).await;
    assert_ne!(text(&pods[0], "uid"), old);
    assert_eq!(pods[0]["spec"]["containers"][0]["image"], "registry.invalid/contract:2");
}

async fn a_deleted_deployment_takes_its_pods_with_it(at: &Place) {
    let (key, object) = deployment(at, "web", 2);
    at.apply(&key, &object).await;
    until_ready(at, &key, 2).await;
    at.delete(&key).await;
    at.until_pods(0).await;
}

async fn the_generation_follows_the_spec_and_nothing_else(at: &Place) {
    let (key, mut object) = deployment(at, "web", 0);
    assert_eq!(at.apply(&key, &object).await["metadata"]["generation"], 1);
    object["metadata"]["labels"]["extra"] = "yes".into();
    assert_eq!(at.apply(&key, &object).await["metadata"]["generation"], 1);
    object["spec"]["minReadySeconds"] = 1.into();
    assert_eq!(at.apply(&key, &object).await["metadata"]["generation"], 2);
}

async fn a_stateful_claim_is_bound_and_its_volume_goes_with_it(at: &Place) {
    let key = at.key(Kind::StatefulSet, "db");
    let mut object = labelled(&key);
    object["spec"] = workload("db", 1);
    object["spec"]["serviceName"] = "db".into();
    object["spec"]["volumeClaimTemplates"] =
        json!([{ "metadata": { "name": "data" }, "spec": claim_spec() }]);
    at.apply(&key, &object).await;
    until_ready(at, &key, 1).await;
    let claim_key = at.key(Kind::PersistentVolumeClaim, "data-db-0");
    let volume_key = bound(at, &claim_key).await;
    at.delete(&key).await;
    at.until_pods(0).await;
    let claim = at.get(&claim_key).await.expect("should outlive its set");
    assert_eq!(claim["status"]["phase"], "Bound");
    at.delete(&claim_key).await;
    at.until_gone(&claim_key).await;
    at.until_gone(&volume_key).await;
}

async fn a_retained_volume_outlives_its_claim(at: &Place) {
    let claim_key = at.key(Kind::PersistentVolumeClaim, "disk");
    let mut claim = labelled(&claim_key);
    claim["spec"] = claim_spec();
    at.apply(&claim_key, &claim).await;
    let (key, mut object) = deployment(at, "web", 1);
    object["spec"]["template"]["spec"]["volumes"] =
        json!([{ "name": "disk", "persistentVolumeClaim": { "claimName": "disk" } }]);
    at.apply(&key, &object).await;
    let volume_key = bound(at, &claim_key).await;
    at.patch(&volume_key, &json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})).await;
    at.delete(&key).await;
    at.delete(&claim_key).await;
    at.until_gone(&claim_key).await;
    let released = |volume: &Value| volume["status"]["phase"] == "Released";
    let volume = at.until(&volume_key, "released", released).await;
    assert_eq!(volume["spec"]["claimRef"]["name"], "disk");
    at.delete(&volume_key).await;
    at.until_gone(&volume_key).await;
}

async fn a_claim_of_our_own_is_bound_and_held_while_in_use(at: &Place) {
    let claim_key = at.key(Kind::PersistentVolumeClaim, "disk");
    let mut claim = labelled(&claim_key);
    claim["spec"] = claim_spec();
    at.apply(&claim_key, &claim).await;
    let (key, mut object) = deployment(at, "web", 1);
    object["spec"]["template"]["spec"]["volumes"] =
        json!([{ "name": "disk", "persistentVolumeClaim": { "claimName": "disk" } }]);
    at.apply(&key, &object).await;
    until_ready(at, &key, 1).await;
    let volume_key = bound(at, &claim_key).await;
    // What the cluster filled in is not ours: applying again changes nothing.
    let before = at.get(&claim_key).await.expect("should be there");
    assert_eq!(at.apply(&claim_key, &claim).await, before);
    at.delete(&claim_key).await;
    let held = at.get(&claim_key).await.expect("should be held by the pod");
    assert!(super::place::is_dying(&held));
    at.delete(&key).await;
    at.until_gone(&claim_key).await;
    at.until_gone(&volume_key).await;
}

/// Waits for a claim's volume and checks that the two name each other.
async fn bound(at: &Place, claim_key: &ResourceKey) -> ResourceKey {
    let claim = at.until(claim_key, "bound", |claim| claim["status"]["phase"] == "Bound").await;
    let name = claim["spec"]["volumeName"].as_str().expect("should name its volume");
    let volume_key = ResourceKey::new(Kind::PersistentVolume, "", name);
    let volumes = at.cluster.list(Kind::PersistentVolume, Scope::All).await.expect("should list");
    let volume = volumes
        .objects
        .into_iter()
        .find(|volume| text(volume, "name") == name)
        .expect("should list the volume");
    let reference = &volume["spec"]["claimRef"];
    assert_eq!(reference["namespace"], at.namespace.as_str());
    assert_eq!(reference["name"], claim_key.name.as_str());
    assert_eq!(reference["uid"], claim["metadata"]["uid"]);
    volume_key
}

fn claim_spec() -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } },
    })
}
