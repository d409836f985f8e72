//! Volumes that grow, where the storage class allows it.

use std::sync::Arc;

use http::Request;
use serde_json::{Value, json};
use trueup_cluster::CallError;
use trueup_cluster::kube::Kube;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::report::{Outcome, Report};
use trueup_model::spec::Spec;
use trueup_rules::render::names;
use trueup_testkit::fake_cluster::FakeCluster;
use trueup_testkit::real_kube;

use crate::rig::{Rig, converged, healthy, key, spec, with_receipt};
use crate::wire;

const SIZE: &str = "/spec/resources/requests/storage";
const TEMPLATE: &str = "/spec/volumeClaimTemplates/0";

fn sized(image: &str, gib: u32) -> Spec {
    spec(&json!({"workload": "stateful_set", "replicas": 1, "image": image,
                 "volume": {"size_gib": gib, "path": "/data"}}))
}

fn refused(report: &Report) -> bool {
    matches!(report.outcome, Outcome::Refused { .. })
}

fn why(report: &Report) -> &str {
    match &report.outcome {
        Outcome::Refused { why } => why,
        other => unreachable!("a refusal was expected, not {other:?}"),
    }
}

/// The claim of the pod with this ordinal.
fn claim(order: &Order, ordinal: u32) -> ResourceKey {
    key(order, Kind::PersistentVolumeClaim, |name| names::claim(name, ordinal))
}

/// Waits until a claim requests this size.
async fn until_size(rig: &Rig, claim: &ResourceKey, size: &str) {
    rig.get_until(claim, |live| live.and_then(|it| it.pointer(SIZE)) == Some(&json!(size))).await;
}

/// The size in the claim template of the StatefulSet, and its image.
async fn template(rig: &Rig, order: &Order) -> (Option<Value>, Value) {
    let set = key(order, Kind::StatefulSet, str::to_owned);
    let live = rig.get(&set).await.expect("the StatefulSet should be there");
    let image = live["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    (live.pointer(&format!("{TEMPLATE}{SIZE}")).cloned(), image)
}

#[tokio::test(start_paused = true)]
async fn claim_grows_and_the_stateful_set_keeps_its_claim_template() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(sized("example:1", 1)).await;
    let first = rig.service(1, sized("example:1", 1));
    let second = Rig::after(&first, rig.service(2, sized("example:1", 2)));
    rig.order_until(second.clone(), converged).await;
    until_size(&rig, &claim(&second, 0), "2Gi").await;
    assert_eq!(template(&rig, &second).await.0, Some(json!("1Gi")));
    // A new pod gets a claim of the new size.
    let two = Spec { replicas: 2, ..sized("example:1", 2) };
    let third = Rig::after(&second, rig.service(3, two));
    rig.order_until(third.clone(), healthy).await;
    until_size(&rig, &claim(&third, 1), "2Gi").await;
}

#[tokio::test(start_paused = true)]
async fn refused_growth_does_not_stop_other_changes() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(sized("example:1", 1)).await;
    fake.set_webhook(|key, object| {
        let grows =
            key.kind == Kind::PersistentVolumeClaim && object.pointer(SIZE) == Some(&json!("2Gi"));
        if grows { Err(CallError::Refused("no growth".to_owned())) } else { Ok(()) }
    });
    let first = rig.service(1, sized("example:1", 1));
    let second = Rig::after(&first, rig.service(2, sized("example:2", 2)));
    let report = rig.order_until(second.clone(), refused).await;
    assert!(why(&report).contains("no growth"), "{}", why(&report));
    assert_eq!(template(&rig, &second).await, (Some(json!("1Gi")), json!("example:2")));
    fake.remove_webhook();
    rig.until(second.unit, converged).await;
    until_size(&rig, &claim(&second, 0), "2Gi").await;
}

/// Lets volumes of the default storage class grow, or not.
async fn allow_growth(client: &kube::Client, allowed: bool) {
    let request = Request::patch("/apis/storage.k8s.io/v1/storageclasses/standard")
        .header("content-type", "application/merge-patch+json")
        .body(json!({ "allowVolumeExpansion": allowed }).to_string().into_bytes())
        .expect("a request");
    client.request::<Value>(request).await.expect("the storage class should be patched");
}

/// One test for both: the storage class is shared.
#[tokio::test]
async fn real_claim_grows_once_its_storage_class_allows_it() {
    let kubeconfig = real_kube::shared().await;
    let client = wire::client(&kubeconfig);
    allow_growth(&client, false).await;
    let kube = Kube::from_kubeconfig(&kubeconfig).expect("should be a kubeconfig");
    let mut rig = Rig::start(Arc::new(kube));
    rig.running(sized("example:1", 1)).await;
    let first = rig.service(1, sized("example:1", 1));
    let second = Rig::after(&first, rig.service(2, sized("example:2", 2)));
    let report = rig.order_until(second.clone(), refused).await;
    let expected = "storage class `standard` does not allow growth";
    assert!(why(&report).contains(expected), "{}", why(&report));
    assert_eq!(template(&rig, &second).await, (Some(json!("1Gi")), json!("example:2")));
    until_size(&rig, &claim(&second, 0), "1Gi").await;

    allow_growth(&client, true).await;
    rig.until(second.unit, converged).await;
    until_size(&rig, &claim(&second, 0), "2Gi").await;
    assert_eq!(template(&rig, &second).await.0, Some(json!("1Gi")));

    allow_growth(&client, false).await;
    let gone = Rig::after(&second, rig.gone(3, sized("example:2", 2)));
    rig.order_until(gone, with_receipt).await;
}
