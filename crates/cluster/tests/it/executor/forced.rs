//! Force-completed deletions of projects: nothing more is deleted, and what is left is named.

use futures::FutureExt;
use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::receipt::{Force, ProofLevel, Receipt};
use trueup_model::report::{Outcome, Report};

use super::{Check, hold};
use crate::rig::{Rig, converged, with_receipt};

pub(crate) fn checks() -> Vec<(&'static str, Check)> {
    vec![
        ("a blocked project can be force-completed", |rig| leaves_kept(rig).boxed()),
        ("a hanging project can be force-completed", |rig| leaves_hanging(rig).boxed()),
        ("force-completing a project that is gone proves its absence", |rig| proves(rig).boxed()),
    ]
}

/// Force-completes the deletion of a project; returns the receipt.
async fn force(rig: &mut Rig, end: Order) -> Receipt {
    let force =
        Force { principal: "owner".to_owned(), reason: "the controller is gone".to_owned() };
    let mut forced = Order { generation: end.generation + 1, ..end };
    forced.permit.force = Some(force.clone());
    let report = rig.order_until(forced, with_receipt).await;
    let receipt = report.receipt.expect("a receipt should be there");
    assert_eq!(receipt.force, Some(force));
    receipt
}

fn namespace(of: &Order) -> ResourceKey {
    ResourceKey::new(Kind::Namespace, "", &of.namespace)
}

async fn remove(rig: &Rig, key: &ResourceKey) {
    let live = rig.get(key).await.expect("it should be there");
    let text = |name: &str| live["metadata"][name].as_str().unwrap_or_default().to_owned();
    let removed = rig.cluster.delete(key, &text("uid"), &text("resourceVersion")).await;
    removed.expect("the test should be set up right");
}

/// A foreign object keeps the namespace.
async fn leaves_kept(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let end = rig.project_end();
    let theirs = ResourceKey::new(Kind::ConfigMap, &end.namespace, "precious");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "precious"}});
    rig.cluster.apply(&theirs, &object).await.expect("the test should be set up right");
    let kept = |report: &Report| matches!(&report.outcome, Outcome::Blocked { .. });
    rig.order_until(end.clone(), kept).await;

    let receipt = force(&mut rig, end.clone()).await;
    assert_eq!(receipt.level, ProofLevel::Forced);
    let recorded: Vec<_> = end.recorded.keys().collect();
    let left: Vec<_> = receipt.unproven.iter().map(|left| &left.key).collect();
    assert_eq!(left, recorded, "all of it still exists: {receipt:#?}");
    let remains = receipt.remains.expect("the receipt should list the other objects");
    let names: Vec<_> = remains.objects.iter().map(|item| (&*item.kind, &*item.name)).collect();
    assert_eq!((names, remains.more), (vec![("ConfigMap", "precious")], 0));
    assert_eq!(remains.unread, []);
    let live = rig.get(&namespace(&end)).await.expect("nothing is deleted");
    assert!(live["metadata"]["deletionTimestamp"].is_null(), "{live}");
    remove(&rig, &namespace(&end)).await;
}

/// The namespace is terminating and never ends, because of a foreign finalizer in it.
async fn leaves_hanging(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let end = rig.project_end();
    let quota = end.recorded.keys().find(|key| key.kind == Kind::ResourceQuota).cloned();
    let quota = quota.expect("a project should have a quota");
    hold(&rig, &quota, json!(["example.com/hold"])).await;
    let held = |report: &Report| matches!(&report.outcome, Outcome::Waiting { on } if on.contains("example.com/hold"));
    rig.order_until(end.clone(), held).await;

    let receipt = force(&mut rig, end.clone()).await;
    assert_eq!(receipt.level, ProofLevel::Forced);
    let left: Vec<_> = receipt.unproven.iter().map(|left| &left.key).collect();
    assert!(left.contains(&&namespace(&end)) && left.contains(&&quota), "{receipt:#?}");
    assert!(!receipt.absent.iter().any(|absence| left.contains(&&absence.key)));
    assert!(rig.get(&quota).await.is_some(), "the object with the finalizer stays");
    hold(&rig, &quota, Value::Null).await;
}

/// Force-completing a project that is gone gives the ordinary receipt.
async fn proves(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let end = rig.project_end();
    rig.order_until(end.clone(), with_receipt).await;
    let receipt = force(&mut rig, end).await;
    assert_eq!((receipt.level, receipt.unproven_count()), (ProofLevel::ApiAbsence, 0));
    assert_eq!(receipt.remains, None);
}
