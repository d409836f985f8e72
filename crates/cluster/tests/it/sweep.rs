//! The sweep finds orphaned objects; a finding is removed only if it is unchanged.

use std::time::Duration;

use serde_json::{Value, json};
use trueup_cluster::CallError;
use trueup_model::finding::{Finding, FindingClass, OrphanCandidate, SweepResult};
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::id::FindingId;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::{Clock, ClusterId};
use trueup_rules::render::names;
use trueup_testkit::fake_cluster::FakeCluster;

use crate::rig::{Rig, key, web};

/// Longer than a resync round over all kinds.
const ROUND: Duration = Duration::from_secs(750);

/// The next sweep of a kind.
async fn swept(rig: &Rig, kind: Kind) -> SweepResult {
    let swept = async {
        loop {
            let swept = rig.notices.take_sweeps().await;
            if swept.kind == kind {
                return swept;
            }
        }
    };
    tokio::time::timeout(ROUND, swept).await.expect("a kind should be swept in each round")
}

fn found(candidate: &OrphanCandidate, clock: &dyn Clock) -> Finding {
    Finding {
        id: FindingId::from_uuid(uuid::Uuid::from_u128(1)),
        cluster: ClusterId::from_uuid(uuid::Uuid::from_u128(7)),
        class: FindingClass::Orphan,
        key: candidate.key.clone(),
        uid: candidate.uid.clone(),
        resource_version: candidate.resource_version.clone(),
        unit: candidate.unit.clone(),
        found_at: clock.now(),
        seen_at: clock.now(),
        closed: None,
        remove_by: Some("an operator".to_owned()),
        kept_why: None,
    }
}

#[tokio::test(start_paused = true)]
async fn object_without_an_order_is_found_and_a_copied_proof_is_invalid() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let config = key(&order, Kind::ConfigMap, names::config);
    let ours = fake.find(&config).expect("the ConfigMap should be there");
    let copy = ResourceKey::new(Kind::ConfigMap, &order.namespace, "copied");
    fake.edit(&copy, |object| {
        object["metadata"]["labels"] = ours["metadata"]["labels"].clone();
        object["metadata"]["annotations"] = ours["metadata"]["annotations"].clone();
    });
    let result = swept(&rig, Kind::ConfigMap).await;
    let names: Vec<_> = result.candidates.iter().map(|it| (&it.key, it.proved)).collect();
    assert_eq!(names, [(&copy, false)], "recorded objects are no candidates");

    // An executor without orders finds everything, and recognises our objects by their proof.
    let blank = Rig::fake(&fake);
    let result = swept(&blank, Kind::ConfigMap).await;
    let candidate =
        result.candidates.iter().find(|it| it.key == config).expect("it should be found");
    assert!(candidate.proved);
    assert_eq!(candidate.unit, Some(order.unit.to_string()));
}

#[tokio::test(start_paused = true)]
async fn only_an_unchanged_finding_with_a_valid_proof_is_removed() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    drop(rig);
    let blank = Rig::fake(&fake);
    let result = swept(&blank, Kind::ConfigMap).await;
    let of = |wanted: &dyn Fn(&Value) -> bool| {
        let is = |it: &&OrphanCandidate| fake.find(&it.key).is_some_and(|live| wanted(&live));
        found(result.candidates.iter().find(is).expect("it should be found"), &*blank.clock)
    };
    let anchor = of(&|live| live["metadata"]["finalizers"].is_array());
    blank.fence.open(blank.clock.monotonic(), Duration::from_secs(3600));

    let freeze = Freeze {
        scope: FreezeScope::Cluster,
        by: "an operator".to_owned(),
        why: "an audit".to_owned(),
        since: blank.clock.now(),
    };
    blank.executor.brake().set(Some(freeze));
    assert!(matches!(blank.executor.remove(&anchor).await, Err(CallError::Refused(_))));
    blank.executor.brake().set(None);
    let older = Finding { resource_version: "1".to_owned(), ..anchor.clone() };
    assert!(matches!(blank.executor.remove(&older).await, Err(CallError::Conflict(_))));
    let namespace = ResourceKey::new(Kind::Namespace, "", &order.namespace);
    let live = fake.find(&namespace).expect("the namespace should be there");
    let text = |name: &str| live["metadata"][name].as_str().unwrap_or_default().to_owned();
    let whole = Finding {
        key: namespace.clone(),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..anchor.clone()
    };
    assert!(matches!(blank.executor.remove(&whole).await, Err(CallError::Refused(_))));
    blank.fence.close();
    assert!(matches!(blank.executor.remove(&anchor).await, Err(CallError::Unreachable(_))));
    blank.fence.open(blank.clock.monotonic(), Duration::from_secs(3600));
    assert!(fake.find(&anchor.key).is_some() && fake.find(&namespace).is_some());

    // Without a proof the object is foreign, whatever its labels.
    let config = key(&order, Kind::ConfigMap, names::config);
    let mut stripped = of(&|live| live["metadata"]["name"] == config.name.as_str());
    let proof = fake.find(&config).expect("it should be there")["metadata"]["annotations"].clone();
    fake.edit(&config, |object| object["metadata"]["annotations"] = json!({}));
    stripped.resource_version = version(&fake, &config);
    assert!(matches!(blank.executor.remove(&stripped).await, Err(CallError::Refused(_))));
    assert!(fake.find(&config).is_some());
    fake.edit(&config, |object| object["metadata"]["annotations"] = proof);
    stripped.resource_version = version(&fake, &config);
    assert_eq!(blank.executor.remove(&stripped).await, Ok(()), "with the proof it is ours");
    assert_eq!(fake.find(&config), None);

    assert_eq!(blank.executor.remove(&anchor).await, Ok(()));
    assert_eq!(fake.find(&anchor.key), None, "our own finalizer does not block it");
    assert_eq!(blank.executor.remove(&anchor).await, Ok(()), "a removed object is a success");
}

/// The version of the live object at a key.
fn version(fake: &FakeCluster, key: &ResourceKey) -> String {
    let live = fake.find(key).expect("it should be there");
    live["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}
