//! Orders that are only rehearsed: what a cluster says they would do, and that they do nothing.

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

/// On a cluster in memory and on a real one alike.
pub(crate) fn checks() -> Vec<(&'static str, Check)> {
    vec![
        ("a rehearsed service is told whole and not made", |rig| makes(rig).boxed()),
        ("a rehearsed change is told field by field and not made", |rig| changes(rig).boxed()),
        ("what is as it shall be stays in a rehearsal", |rig| keeps(rig).boxed()),
        ("what others changed is part of a rehearsal", |rig| tells_drift(rig).boxed()),
        ("what would go is told and stays", |rig| tells_end(rig).boxed()),
        ("of secrets only names are told", |rig| hides(rig).boxed()),
        ("what is not ours stops a rehearsal", |rig| stops(rig).boxed()),
        ("a plan holds until what it would change is changed", |rig| holds(rig).boxed()),
    ]
}

fn object<'a>(plan: &'a ExactPreview, key: &ResourceKey) -> &'a ExactObject {
    let found = plan.objects.iter().find(|object| object.key == *key);
    found.unwrap_or_else(|| unreachable!("{key} should be in {plan:#?}"))
}

/// The fields of an object that would change: where, from what, to what.
fn fields(object: &ExactObject) -> Vec<(&str, Value, Value)> {
    let side = |value: &Option<Value>| value.clone().unwrap_or_default();
    let told = object.fields.iter();
    told.map(|field| (field.path.as_str(), side(&field.before), side(&field.after))).collect()
}

/// What stands at an order's keys, without what controllers write all the time.
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

async fn rehearsed(rig: &Rig, order: &Order) -> ExactPreview {
    let before = standing(rig, order).await;
    let plan = rig.executor.dry_run(order.clone()).await.expect("it should be rehearsed");
    assert_eq!(standing(rig, order).await, before, "nothing may be written");
    plan
}

/// The next generation of a running service.
fn next(rig: &Rig, was: Spec, spec: Spec) -> Order {
    Rig::after(&rig.service(1, was), rig.service(2, spec))
}

/// A new executor that knows of the project, and not of the service: nobody repairs it.
async fn unattended(rig: Rig) -> Rig {
    let mut rig = rig.restart();
    rig.order_until(rig.project(), converged).await;
    rig
}

async fn makes(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, web(2));
    let plan = rehearsed(&rig, &order).await;
    let kinds: Vec<Kind> = plan.objects.iter().map(|object| object.key.kind).collect();
    let (config, budget) = (Kind::ConfigMap, Kind::PodDisruptionBudget);
    assert_eq!(kinds, [config, config, Kind::Secret, Kind::Deployment, Kind::Service, budget]);
    assert!(plan.objects.iter().all(|object| object.verb == ExactVerb::Create), "{plan:#?}");
    assert!(plan.objects.iter().all(|object| object.refused.is_none()), "{plan:#?}");
    assert_eq!(plan.stops, None);
    assert!(plan.footing.iter().all(|standing| standing.uid.is_none()));
    assert_eq!(rig.executor.is_broken(order.unit, &plan.footing).await, Ok(None));
    // What was rehearsed is what then happens.
    rig.order_until(order.clone(), converged).await;
    let made: Vec<ResourceKey> = standing(&rig, &order).await.into_keys().collect();
    let planned: Vec<ResourceKey> = plan.objects.into_iter().map(|object| object.key).collect();
    assert_eq!(made, planned);
}

async fn changes(mut rig: Rig) {
    rig.running(web(1)).await;
    let (replicas, greeting) = (json!(3), json!({ "GREETING": "hi", "MORE": "x" }));
    let changed =
        spec(&json!({ "workload": "deployment", "replicas": replicas, "image": "example:2",
        "variables": greeting }));
    let order = next(&rig, web(1), changed);
    let plan = rehearsed(&rig, &order).await;
    let config = object(&plan, &key(&order, Kind::ConfigMap, names::config));
    assert_eq!(
        fields(config),
        [("data.GREETING", json!("hello"), json!("hi")), ("data.MORE", Value::Null, json!("x"))]
    );
    let deployment = object(&plan, &key(&order, Kind::Deployment, str::to_owned));
    assert_eq!(deployment.verb, ExactVerb::Update);
    let told = fields(deployment);
    let image = "spec.template.spec.containers.main.image";
    assert!(told.contains(&(image, json!("example:1"), json!("example:2"))), "{told:?}");
    assert!(told.contains(&("spec.replicas", json!(1), json!(3))), "{told:?}");
    // Besides, the pods say which variables they read, and nothing else differs.
    assert_eq!(told.len(), 3, "{told:?}");
    let service = object(&plan, &key(&order, Kind::Service, str::to_owned));
    assert_eq!((service.verb, service.fields.len()), (ExactVerb::Keep, 0));
    let budget = key(&order, Kind::PodDisruptionBudget, str::to_owned);
    assert_eq!(object(&plan, &budget).verb, ExactVerb::Create);
    assert_eq!(plan.stops, None);
}

async fn keeps(mut rig: Rig) {
    rig.running(web(1)).await;
    let plan = rehearsed(&rig, &rig.service(1, web(1))).await;
    assert!(plan.objects.iter().all(|object| object.verb == ExactVerb::Keep), "{plan:#?}");
    assert_eq!((plan.objects.len(), plan.footing.len(), plan.stops), (5, 0, None));
}

async fn tells_drift(mut rig: Rig) {
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
    let plan = rehearsed(&rig, &order).await;
    let told = object(&plan, &deployment);
    assert_eq!((told.verb, &told.refused), (ExactVerb::Update, &None), "{plan:#?}");
    let paths: Vec<&str> = told.fields.iter().map(|field| field.path.as_str()).collect();
    let env = "spec.template.spec.containers.main.env";
    assert_eq!(paths, ["spec.replicas", env], "{plan:#?}");
    assert_eq!(plan.stops, None);
}

async fn tells_end(mut rig: Rig) {
    rig.running(elastic("example:1", 1, 3)).await;
    let order = next(&rig, elastic("example:1", 1, 3), web(1));
    let plan = rehearsed(&rig, &order).await;
    let scaler = key(&order, Kind::HorizontalPodAutoscaler, str::to_owned);
    assert_eq!(object(&plan, &scaler).verb, ExactVerb::Delete, "{plan:#?}");
    assert!(rig.get(&scaler).await.is_some());
    let standing = plan.footing.iter().find(|standing| standing.key == scaler);
    assert!(standing.is_some_and(|standing| standing.uid.is_some()));
}

async fn hides(mut rig: Rig) {
    rig.running(web(1)).await;
    let mut order = next(&rig, web(1), web(1));
    if let Body::Service(body) = &mut order.body {
        body.secrets.insert("KEY".to_owned(), SecretValue::new("canary-1".to_owned()));
        body.secrets.insert("NEW".to_owned(), SecretValue::new("canary-2".to_owned()));
    }
    let plan = rehearsed(&rig, &order).await;
    let secret = object(&plan, &key(&order, Kind::Secret, names::secret));
    let hidden = || json!("(hidden)");
    assert_eq!(
        fields(secret),
        [("data.KEY", hidden(), hidden()), ("data.NEW", Value::Null, hidden())]
    );
    let told = format!("{plan:?}{}", serde_json::to_string(&plan).expect("it should be JSON"));
    // As base64 knows them: "canary", "s3cret".
    for secret in ["canary", "Y2FuYXJ5", "s3cret", "czNjcmV0"] {
        assert!(!told.contains(secret), "{secret} is in {told}");
    }
    let deployment = object(&plan, &key(&order, Kind::Deployment, str::to_owned));
    assert_eq!(deployment.verb, ExactVerb::Update, "its pods read it when they start");
}

async fn stops(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, web(1));
    let service = key(&order, Kind::Service, str::to_owned);
    let theirs = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": service.name },
        "spec": { "ports": [{ "port": 80 }] } });
    rig.cluster.apply(&service, &theirs).await.expect("the test should be set up right");
    let plan = rehearsed(&rig, &order).await;
    let why = plan.stops.as_deref().unwrap_or_default();
    assert!(why.contains("is not ours") && why.contains(&service.name), "{plan:#?}");
    assert_eq!(object(&plan, &service).verb, ExactVerb::Keep);
}

async fn holds(mut rig: Rig) {
    rig.running(web(1)).await;
    let rig = unattended(rig).await;
    let order = next(&rig, web(1), web(2));
    let plan = rehearsed(&rig, &order).await;
    let broken = async || rig.executor.is_broken(order.unit, &plan.footing).await;
    assert_eq!(broken().await, Ok(None));
    let deployment = key(&order, Kind::Deployment, str::to_owned);
    // What the plan does not touch may change.
    let note = json!({ "metadata": { "annotations": { "example.com/note": "x" } } });
    rig.cluster.patch(&deployment, &note).await.expect("the test should be set up right");
    assert_eq!(broken().await, Ok(None));
    let patch = json!({ "spec": { "replicas": 4 } });
    rig.cluster.patch(&deployment, &patch).await.expect("the test should be set up right");
    let told = tokio::time::timeout(crate::rig::LONG, async {
        loop {
            if let Ok(Some(why)) = broken().await {
                return why;
            }
            rig.clock.sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    let told = told.await.expect("the change should be heard of");
    assert_eq!(told, format!("{deployment} has another spec.replicas now"));
}

#[tokio::test(start_paused = true)]
async fn what_a_webhook_refuses_is_told_in_its_words_and_the_rest_is_tried() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.order_until(rig.project(), converged).await;
    fake.set_webhook(|key, _| match key.kind {
        Kind::Service => Err(CallError::Refused("policy: no services on Mondays".to_owned())),
        _ => Ok(()),
    });
    let writes = fake.journal().len();
    let order = rig.service(1, web(1));
    let plan = rehearsed(&rig, &order).await;
    let refused: Vec<(Kind, &str)> = plan
        .objects
        .iter()
        .filter_map(|object| Some((object.key.kind, object.refused.as_deref()?)))
        .collect();
    assert_eq!(refused, [(Kind::Service, "policy: no services on Mondays")]);
    let workload = object(&plan, &key(&order, Kind::Deployment, str::to_owned));
    assert_eq!((workload.verb, &workload.refused), (ExactVerb::Create, &None));
    assert_eq!((fake.journal().len(), plan.stops), (writes, None));
}

#[tokio::test(start_paused = true)]
async fn what_a_webhook_changes_on_its_way_in_is_told() {
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
    let plan = rehearsed(&rig, &order).await;
    let told = object(&plan, &key(&order, Kind::Deployment, str::to_owned)).refused.clone();
    let words = "the cluster changes it on its way in, at spec.replicas";
    assert_eq!(told.as_deref(), Some(words));
}

#[tokio::test]
async fn a_real_quota_that_has_no_room_is_told_in_its_words() {
    let kubeconfig = real_kube::shared().await;
    let kube = Kube::from_kubeconfig(&kubeconfig).expect("should be a kubeconfig");
    let mut rig = Rig::start(Arc::new(kube));
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, web(1));
    limit(&wire::client(&kubeconfig), &order.namespace, "services", "0").await;
    let service = key(&order, Kind::Service, str::to_owned);
    let told = tokio::time::timeout(crate::rig::LONG, async {
        loop {
            // A quota counts from when its controller has seen it.
            let plan = rehearsed(&rig, &order).await;
            if let Some(words) = object(&plan, &service).refused.clone() {
                return words;
            }
            rig.clock.sleep(std::time::Duration::from_millis(100)).await;
        }
    });
    let told = told.await.expect("it should be refused");
    assert!(told.contains("exceeded quota"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_now_is_asked_later_and_what_is_frozen_never() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let order = rig.service(1, web(1));
    let early = rig.executor.dry_run(order.clone()).await;
    let waits = |answer: &Result<ExactPreview, DryRunError>, words: &str| {
        let Err(DryRunError::Later(why)) = answer else { return false };
        why.contains(words)
    };
    let not_yet = waits(&early, "namespace and policies") || waits(&early, "seen whole");
    assert!(not_yet, "{early:?}");
    rig.order_until(rig.project(), converged).await;
    let away = CallError::Unanswered("lost".to_owned());
    fake.fail_next(Verb::Rehearse, away, When::After);
    let lost = rig.executor.dry_run(order.clone()).await;
    assert!(waits(&lost, "no answer came"), "{lost:?}");
    assert!(rig.executor.dry_run(order.clone()).await.is_ok());

    rig.fence.close();
    let fenced = rig.executor.dry_run(order.clone()).await;
    assert!(waits(&fenced, "the lease on this cluster is over"), "{fenced:?}");
    let since = jiff::Timestamp::UNIX_EPOCH;
    let (by, why) = ("an operator".to_owned(), "an audit".to_owned());
    rig.executor.brake().set(Some(Freeze { scope: FreezeScope::Cluster, by, why, since }));
    let frozen = rig.executor.dry_run(order).await;
    assert!(matches!(&frozen, Err(DryRunError::Never(why)) if why.contains("an audit")));
}
