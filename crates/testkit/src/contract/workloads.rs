//! The built-in controllers of a cluster.

use serde_json::{Value, json};
use trueup_cluster::Scope;
use trueup_model::key::{Kind, ResourceKey};

use super::place::{labelled, text};
use super::{Check, Place};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("deployment_becomes_ready", |at| Box::pin(deployment_becomes_ready(at))),
    ("pod_reports_its_node_and_times", |at| Box::pin(pod_reports_its_node_and_times(at))),
    ("scaling_to_zero_removes_pods", |at| Box::pin(scaling_to_zero_removes_pods(at))),
    ("changed_template_replaces_pods", |at| Box::pin(changed_template_replaces_pods(at))),
    ("deployment_is_deleted_with_its_pods", |at| Box::pin(deployment_is_deleted_with_its_pods(at))),
    ("generation_follows_the_spec_only", |at| Box::pin(generation_follows_the_spec_only(at))),
    ("stateful_claim_is_bound_and_deleted_with_its_volume", |at| {
        Box::pin(stateful_claim_is_bound_and_deleted_with_its_volume(at))
    }),
    ("retained_volume_outlives_its_claim", |at| Box::pin(retained_volume_outlives_its_claim(at))),
    ("our_claim_is_bound_and_not_deleted_while_in_use", |at| {
        Box::pin(our_claim_is_bound_and_not_deleted_while_in_use(at))
    }),
    ("job_completes_and_is_deleted_with_its_pods", |at| {
        Box::pin(job_completes_and_is_deleted_with_its_pods(at))
    }),
    ("suspended_job_has_no_pods", |at| Box::pin(suspended_job_has_no_pods(at))),
    ("pod_template_of_job_is_immutable", |at| Box::pin(pod_template_of_job_is_immutable(at))),
    ("cron_job_schedule_can_change", |at| Box::pin(cron_job_schedule_can_change(at))),
];

/// The inputs of transitions: a pod's node and times, and the node's conditions.
async fn pod_reports_its_node_and_times(at: &Place) {
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
    // Nodes carry no label of ours: all of them are listed.
    let nodes = at.cluster.list(Kind::Node, Scope::Ours).await.expect("should list").objects;
    let node = nodes.iter().find(|node| node["metadata"]["name"] == pod["spec"]["nodeName"]);
    let node = node.expect("should list the pod's node");
    assert_eq!(node["metadata"]["labels"]["trueup.dev/node-class"], "simulated");
    assert!(node["status"]["capacity"]["cpu"].is_string());
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    assert!(conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True"));
}

/// A Job with one pod that ends, suspended or not.
fn job(at: &Place, name: &str, suspended: bool) -> (ResourceKey, Value) {
    let key = at.key(Kind::Job, name);
    let mut object = labelled(&key);
    let mut template = workload(name, 1)["template"].clone();
    template["spec"]["restartPolicy"] = "Never".into();
    object["spec"] = json!({ "suspend": suspended, "backoffLimit": 0, "template": template });
    (key, object)
}

pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind && condition["status"] == "True")
}

async fn job_completes_and_is_deleted_with_its_pods(at: &Place) {
    let (key, object) = job(at, "train", false);
    at.apply(&key, &object).await;
    at.until(&key, "complete", |job| condition(job, "Complete").is_some()).await;
    let pods = at.until_pods(1).await;
    assert_eq!(pods[0]["status"]["phase"], "Succeeded");
    assert_eq!(pods[0]["metadata"]["labels"]["trueup.dev/name"], "train");
    // The server's defaults are not ours: applying again changes nothing.
    let before = at.get(&key).await.expect("should be there");
    assert_eq!(at.apply(&key, &object).await["spec"], before["spec"]);
    at.delete(&key).await;
    at.until_gone(&key).await;
    at.until_pods(0).await;
}

async fn suspended_job_has_no_pods(at: &Place) {
    let (key, object) = job(at, "train", true);
    at.apply(&key, &object).await;
    at.until(&key, "suspended", |job| condition(job, "Suspended").is_some()).await;
    at.until_pods(0).await;
    let (_, object) = job(at, "train", false);
    at.apply(&key, &object).await;
    at.until(&key, "complete", |job| condition(job, "Complete").is_some()).await;
    // A Job that has ended may be suspended and resumed, and does not run twice.
    for suspended in [true, false] {
        let (_, object) = job(at, "train", suspended);
        at.apply(&key, &object).await;
    }
    at.until_pods(1).await;
}

async fn pod_template_of_job_is_immutable(at: &Place) {
    let (key, mut object) = job(at, "train", false);
    let stored = at.apply(&key, &object).await;
    // The same template with the server's defaults is not a change.
    object["spec"]["template"] = stored["spec"]["template"].clone();
    at.apply(&key, &object).await;
    object["spec"]["template"]["spec"]["containers"][0]["image"] = "other:1".into();
    let refused = at.cluster.apply(&key, &object).await;
    assert!(matches!(refused, Err(trueup_cluster::CallError::Refused(_))), "{refused:?}");
}

async fn cron_job_schedule_can_change(at: &Place) {
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

pub(super) async fn until_ready(at: &Place, key: &ResourceKey, replicas: u32) -> Value {
    at.until(key, "ready", |object| {
        let status = &object["status"];
        status["observedGeneration"] == object["metadata"]["generation"]
            && ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
                .iter()
                .all(|count| status[count].as_u64().unwrap_or_default() == u64::from(replicas))
    })
    .await
}

async fn deployment_becomes_ready(at: &Place) {
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

async fn scaling_to_zero_removes_pods(at: &Place) {
    let (key, object) = deployment(at, "web", 2);
    at.apply(&key, &object).await;
    until_ready(at, &key, 2).await;
    let (_, object) = deployment(at, "web", 0);
    at.apply(&key, &object).await;
    at.until_pods(0).await;
    until_ready(at, &key, 0).await;
}

async fn changed_template_replaces_pods(at: &Place) {
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

async fn deployment_is_deleted_with_its_pods(at: &Place) {
    let (key, object) = deployment(at, "web", 2);
    at.apply(&key, &object).await;
    until_ready(at, &key, 2).await;
    at.delete(&key).await;
    at.until_pods(0).await;
}

async fn generation_follows_the_spec_only(at: &Place) {
    let (key, mut object) = deployment(at, "web", 0);
    assert_eq!(at.apply(&key, &object).await["metadata"]["generation"], 1);
    object["metadata"]["labels"]["extra"] = "yes".into();
    assert_eq!(at.apply(&key, &object).await["metadata"]["generation"], 1);
    object["spec"]["minReadySeconds"] = 1.into();
    assert_eq!(at.apply(&key, &object).await["metadata"]["generation"], 2);
}

async fn stateful_claim_is_bound_and_deleted_with_its_volume(at: &Place) {
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
    let claim = at.get(&claim_key).await.expect("the claim should outlive its StatefulSet");
    assert_eq!(claim["status"]["phase"], "Bound");
    at.delete(&claim_key).await;
    at.until_gone(&claim_key).await;
    at.until_gone(&volume_key).await;
}

async fn retained_volume_outlives_its_claim(at: &Place) {
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

async fn our_claim_is_bound_and_not_deleted_while_in_use(at: &Place) {
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
    // The cluster's defaults are not ours: applying again changes nothing.
    let before = at.get(&claim_key).await.expect("should be there");
    assert_eq!(at.apply(&claim_key, &claim).await, before);
    at.delete(&claim_key).await;
    let terminating = at.get(&claim_key).await.expect("the pod should keep the claim");
    assert!(super::place::is_terminating(&terminating));
    at.delete(&key).await;
    at.until_gone(&claim_key).await;
    at.until_gone(&volume_key).await;
}

/// Waits until a claim is bound and checks that claim and volume refer to each other.
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
