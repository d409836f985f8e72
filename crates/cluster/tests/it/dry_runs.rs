//! Dry runs of orders: what they would change, and that they change nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use serde_json::{Value, json};
use trueup_cluster::kube::Kube;
use trueup_cluster::{CallError, DryRunError};
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, Order, SecretValue};
use trueup_model::preview_request::{ExactObject, ExactPreview, ExactVerb};
use trueup_model::spec::Spec;
use trueup_rules::render::names;
use trueup_testkit::fake_cluster::{FakeCluster, Verb, When};
use trueup_testkit::real_kube;

use crate::causes::limit;
use crate::executor::Check;
use crate::rig::{Rig, converged, elastic, key, spec, web};
use crate::wire;

/// On the fake cluster and on a real one.
pub(crate) fn checks() -> Vec<(&'static str, Check)> {
    vec![
        ("a dry run of a new service lists every object and creates none", |rig| {
            makes(rig).boxed()
        }),
        ("a dry run of an update lists every field and changes none", |rig| changes(rig).boxed()),
        ("a dry run of a converged service changes nothing", |rig| keeps(rig).boxed()),
        ("a dry run shows drift", |rig| shows_drift(rig).boxed()),
        ("a dry run shows deletions without deleting", |rig| shows_deletions(rig).boxed()),
        ("a dry run shows only the names of secrets", |rig| hides(rig).boxed()),
        ("a foreign object stops a dry run", |rig| stops(rig).boxed()),
        ("a preview is valid until the objects it changes are changed", |rig| holds(rig).boxed()),
    ]
}

fn object<'a>(preview: &'a ExactPreview, key: &ResourceKey) -> &'a ExactObject {
    let found = preview.objects.iter().find(|object| object.key == *key);
    found.unwrap_or_else(|| unreachable!("{key} should be in {preview:#?}"))
}

/// The fields of an object that would change: where, from what, to what.
fn fields(object: &ExactObject) -> Vec<(&str, Value, Value)> {
    let side = |value: &Option<Value>| value.clone().unwrap_or_default();
    let changes = object.fields.iter();
    changes.map(|field| (field.path.as_str(), side(&field.before), side(&field.after))).collect()
}

/// The live objects at an order's keys, without what controllers keep changing.
async fn standing(rig: &Rig, order: &Order) -> BTreeMap<ResourceKey, Value> {
    let mut all = BTreeMap::new();
    for key in order.recorded.keys() {
        let Some(mut found) = rig.get(key).await else { continue };
        let kept = ["uid", "generation", "labels", "annotations", "ownerReferences", "finalizers"];
        if let Some(metadata) = found["metadata"].as_object_mut() {
            metadata.retain(|name, _| kept.contains(&name.as_str()));
        }
        found["status"] = Value::Null;
        all.insert(key.clone(), found);
    }
    all
}

async fn dry_run(rig: &Rig, order: &Order) -> ExactPreview {
    let before = standing(rig, order).await;
    let preview = rig.executor.dry_run(order.clone()).await.expect("the dry run should succeed");
    assert_eq!(standing(rig, order).await, before, "nothing may be written");
    preview
}

/// The next generation of a running service.
fn next(rig: &Rig, was: Spec, spec: Spec) -> Order {
    Rig::after(&rig.service(1, was), rig.service(2, spec))
}

/// A new executor with the project's order only, so that the service is not repaired.
async fn unattended(rig: Rig) -> Rig {
    let mut rig = rig.restart();
    rig.order_until(rig.project(), converged).await;
    rig
}

async fn makes(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, web(2));
    let preview = dry_run(&rig, &order).await;
    let kinds: Vec<Kind> = preview.objects.iter().map(|object| object.key.kind).collect();
    let (config, budget) = (Kind::ConfigMap, Kind::PodDisruptionBudget);
    assert_eq!(kinds, [config, config, Kind::Secret, Kind::Deployment, Kind::Service, budget]);
    assert!(preview.objects.iter().all(|object| object.verb == ExactVerb::Create), "{preview:#?}");
    assert!(preview.objects.iter().all(|object| object.refused.is_none()), "{preview:#?}");
    assert_eq!(preview.stops, None);
    assert!(preview.footing.iter().all(|standing| standing.uid.is_none()));
    assert_eq!(rig.executor.is_broken(order.unit, &preview.footing).await, Ok(None));
    // The order then does what the dry run showed.
    rig.order_until(order.clone(), converged).await;
    let made: Vec<ResourceKey> = standing(&rig, &order).await.into_keys().collect();
    let planned: Vec<ResourceKey> = preview.objects.into_iter().map(|object| object.key).collect();
    assert_eq!(made, planned);
}

async fn changes(mut rig: Rig) {
    rig.running(web(1)).await;
    let (replicas, greeting) = (json!(3), json!({ "GREETING": "hi", "MORE": "x" }));
    let changed =
        spec(&json!({ "workload": "deployment", "replicas": replicas, "image": "example:2",
        "variables": greeting }));
    let order = next(&rig, web(1), changed);
    let preview = dry_run(&rig, &order).await;
    let config = object(&preview, &key(&order, Kind::ConfigMap, names::config));
    assert_eq!(
        fields(config),
        [("data.GREETING", json!("hello"), json!("hi")), ("data.MORE", Value::Null, json!("x"))]
    );
    let deployment = object(&preview, &key(&order, Kind::Deployment, str::to_owned));
    assert_eq!(deployment.verb, ExactVerb::Update);
    let changes = fields(deployment);
    let image = "spec.template.spec.containers.main.image";
    assert!(changes.contains(&(image, json!("example:1"), json!("example:2"))), "{changes:?}");
    assert!(changes.contains(&("spec.replicas", json!(1), json!(3))), "{changes:?}");
    // The third one is the digest of the variables on the pods.
    assert_eq!(changes.len(), 3, "{changes:?}");
    let service = object(&preview, &key(&order, Kind::Service, str::to_owned));
    assert_eq!((service.verb, service.fields.len()), (ExactVerb::Keep, 0));
    let budget = key(&order, Kind::PodDisruptionBudget, str::to_owned);
    assert_eq!(object(&preview, &budget).verb, ExactVerb::Create);
    assert_eq!(preview.stops, None);
}

async fn keeps(mut rig: Rig) {
    rig.running(web(1)).await;
    let preview = dry_run(&rig, &rig.service(1, web(1))).await;
    assert!(preview.objects.iter().all(|object| object.verb == ExactVerb::Keep), "{preview:#?}");
    assert_eq!((preview.objects.len(), preview.footing.len(), preview.stops), (5, 0, None));
}

async fn shows_drift(mut rig: Rig) {
    rig.running(web(1)).await;
    let rig = unattended(rig).await;
    let order = rig.service(1, web(1));
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    let live = rig.get(&deployment).await.expect("the Deployment should be there");
    let mut containers = live["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["env"] = json!([{ "name": "LD_PRELOAD", "value": "theirs.so" }]);
    let patch =
        json!({ "spec": { "replicas": 2, "template": { "spec": { "containers": containers } } } });
    rig.cluster.patch(&deployment, &patch).await.expect("the test should be set up right");
    let preview = dry_run(&rig, &order).await;
    let changed = object(&preview, &deployment);
    assert_eq!((changed.verb, &changed.refused), (ExactVerb::Update, &None), "{preview:#?}");
    let paths: Vec<&str> = changed.fields.iter().map(|field| field.path.as_str()).collect();
    let env = "spec.template.spec.containers.main.env";
    assert_eq!(paths, ["spec.replicas", env], "{preview:#?}");
    assert_eq!(preview.stops, None);
}

async fn shows_deletions(mut rig: Rig) {
    rig.running(elastic("example:1", 1, 3)).await;
    let order = next(&rig, elastic("example:1", 1, 3), web(1));
    let preview = dry_run(&rig, &order).await;
    let scaler = key(&order, Kind::HorizontalPodAutoscaler, str::to_owned);
    assert_eq!(object(&preview, &scaler).verb, ExactVerb::Delete, "{preview:#?}");
    assert!(rig.get(&scaler).await.is_some());
    let standing = preview.footing.iter().find(|standing| standing.key == scaler);
    assert!(standing.is_some_and(|standing| standing.uid.is_some()));
}

async fn hides(mut rig: Rig) {
    rig.running(web(1)).await;
    let mut order = next(&rig, web(1), web(1));
    if let Body::Service(body) = &mut order.body {
        body.secrets.insert("KEY".to_owned(), SecretValue::new("canary-1".to_owned()));
        body.secrets.insert("NEW".to_owned(), SecretValue::new("canary-2".to_owned()));
    }
    let preview = dry_run(&rig, &order).await;
    let secret = object(&preview, &key(&order, Kind::Secret, names::secret));
    let hidden = || json!("(hidden)");
    assert_eq!(
        fields(secret),
        [("data.KEY", hidden(), hidden()), ("data.NEW", Value::Null, hidden())]
    );
    let text =
        format!("{preview:?}{}", serde_json::to_string(&preview).expect("it should be JSON"));
    // In plain text and in base64: "canary", "s3cret".
    for secret in ["canary", "Y2FuYXJ5", "s3cret", "czNjcmV0"] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    let deployment = object(&preview, &key(&order, Kind::Deployment, str::to_owned));
    assert_eq!(deployment.verb, ExactVerb::Update, "its pods must restart to read the new secret");
}

async fn stops(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, web(1));
    let service = key(&order, Kind::Service, str::to_owned);
    let theirs = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": service.name },
        "spec": { "ports": [{ "port": 80 }] } });
    rig.cluster.apply(&service, &theirs).await.expect("the test should be set up right");
    let preview = dry_run(&rig, &order).await;
    let why = preview.stops.as_deref().unwrap_or_default();
    assert!(why.contains("is not owned by Trueup") && why.contains(&service.name), "{preview:#?}");
    assert_eq!(object(&preview, &service).verb, ExactVerb::Keep);
}

async fn holds(mut rig: Rig) {
    rig.running(web(1)).await;
    let rig = unattended(rig).await;
    let order = next(&rig, web(1), web(2));
    let preview = dry_run(&rig, &order).await;
    let broken = async || rig.executor.is_broken(order.unit, &preview.footing).await;
    assert_eq!(broken().await, Ok(None));
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    // A field that the preview does not touch may change.
    let note = json!({ "metadata": { "annotations": { "example.com/note": "x" } } });
    rig.cluster.patch(&deployment, &note).await.expect("the test should be set up right");
    assert_eq!(broken().await, Ok(None));
    let patch = json!({ "spec": { "replicas": 4 } });
    rig.cluster.patch(&deployment, &patch).await.expect("the test should be set up right");
    let why = tokio::time::timeout(crate::rig::LONG, async {
        loop {
            if let Ok(Some(why)) = broken().await {
                return why;
            }
            rig.clock.sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    let why = why.await.expect("the change should be seen");
    assert_eq!(why, format!("{deployment} changed: spec.replicas has another value"));
}

#[tokio::test(start_paused = true)]
async fn webhook_rejection_is_shown_and_the_other_objects_are_tried() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.order_until(rig.project(), converged).await;
    fake.set_webhook(|key, _| match key.kind {
        Kind::Service => Err(CallError::Refused("policy: no services on Mondays".to_owned())),
        _ => Ok(()),
    });
    let writes = fake.journal().len();
    let order = rig.service(1, web(1));
    let preview = dry_run(&rig, &order).await;
    let refused: Vec<(Kind, &str)> = preview
        .objects
        .iter()
        .filter_map(|object| Some((object.key.kind, object.refused.as_deref()?)))
        .collect();
    assert_eq!(refused, [(Kind::Service, "policy: no services on Mondays")]);
    let workload = object(&preview, &key(&order, Kind::Deployment, str::to_owned));
    assert_eq!((workload.verb, &workload.refused), (ExactVerb::Create, &None));
    assert_eq!((fake.journal().len(), preview.stops), (writes, None));
}

#[tokio::test(start_paused = true)]
async fn webhook_mutation_is_shown() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.order_until(rig.project(), converged).await;
    fake.set_webhook(|key, object| {
        if key.kind == Kind::Deployment {
            object["spec"]["replicas"] = json!(7);
        }
        Ok(())
    });
    let order = rig.service(1, web(1));
    let preview = dry_run(&rig, &order).await;
    let refused = object(&preview, &key(&order, Kind::Deployment, str::to_owned)).refused.clone();
    let words = "the cluster changes the object on admission, at spec.replicas";
    assert_eq!(refused.as_deref(), Some(words));
}

#[tokio::test]
async fn exceeded_real_quota_is_shown() {
    let kubeconfig = real_kube::shared().await;
    let kube = Kube::from_kubeconfig(&kubeconfig).expect("should be a kubeconfig");
    let mut rig = Rig::start(Arc::new(kube));
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, web(1));
    limit(&wire::client(&kubeconfig), &order.namespace, "services", "0").await;
    let service = key(&order, Kind::Service, str::to_owned);
    let why = tokio::time::timeout(crate::rig::LONG, async {
        loop {
            // A quota is in force only after its controller has seen it.
            let preview = dry_run(&rig, &order).await;
            if let Some(words) = object(&preview, &service).refused.clone() {
                return words;
            }
            rig.clock.sleep(std::time::Duration::from_millis(100)).await;
        }
    });
    let why = why.await.expect("it should be refused");
    assert!(why.contains("exceeded quota"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn unavailable_cluster_is_retried_and_a_frozen_one_is_not() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let order = rig.service(1, web(1));
    let early = rig.executor.dry_run(order.clone()).await;
    let waits = |answer: &Result<ExactPreview, DryRunError>, words: &str| {
        let Err(DryRunError::Later(why)) = answer else { return false };
        why.contains(words)
    };
    let not_yet = waits(&early, "namespace and policies") || waits(&early, "initial list");
    assert!(not_yet, "{early:?}");
    rig.order_until(rig.project(), converged).await;
    let unanswered = CallError::Unanswered("lost".to_owned());
    fake.fail_next(Verb::DryRun, unanswered, When::After);
    let lost = rig.executor.dry_run(order.clone()).await;
    assert!(waits(&lost, "no response"), "{lost:?}");
    assert!(rig.executor.dry_run(order.clone()).await.is_ok());

    rig.fence.close();
    let fenced = rig.executor.dry_run(order.clone()).await;
    assert!(waits(&fenced, "the lease on this cluster expired"), "{fenced:?}");
    let since = jiff::Timestamp::UNIX_EPOCH;
    let (by, why) = ("an operator".to_owned(), "an audit".to_owned());
    rig.executor.brake().set(Some(Freeze { scope: FreezeScope::Cluster, by, why, since }));
    let frozen = rig.executor.dry_run(order).await;
    assert!(matches!(&frozen, Err(DryRunError::Never(why)) if why.contains("an audit")));
}
