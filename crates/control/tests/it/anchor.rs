//! Anchors that are deleted repeatedly from outside.

use serde_json::Value;
use trueup_cluster::Cluster;
use trueup_model::key::{Kind, ResourceKey};
use trueup_rules::render::names;

use crate::rig::Rig;

impl Rig {
    async fn until_object(&self, key: &ResourceKey, wanted: impl Fn(Option<&Value>) -> bool) {
        let reached = tokio::time::timeout(crate::rig::LONG, async {
            while !wanted(self.fake.get(key).await.expect("it should answer").as_ref()) {
                tokio::time::sleep(crate::rig::POLL).await;
            }
        });
        assert!(reached.await.is_ok(), "{key} did not reach the expected state");
    }
}

#[tokio::test]
async fn f46_repeatedly_deleted_anchor_is_replaced_without_a_new_order() {
    let mut rig = Rig::new().await;
    let _stop = rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "nginx:1").await;
    let row = rig.until_running("web").await.row;
    let at = |kind, name: &str| ResourceKey::new(kind, &row.namespace, name);
    let anchor = |n| at(Kind::ConfigMap, &names::anchor(&row.service.object_name, n));
    let deployment = at(Kind::Deployment, &row.service.object_name);
    let before = rig.fake.get(&deployment).await.unwrap().unwrap();

    for n in 1..=4 {
        rig.fake.remove(&anchor(n));
        rig.until_object(&anchor(n + 1), |found| found.is_some()).await;
        rig.until_object(&anchor(n), |found| found.is_none()).await;
        let next = rig.fake.get(&anchor(n + 1)).await.unwrap().unwrap();
        let after = rig.fake.get(&deployment).await.unwrap().unwrap();
        assert_eq!(
            after["metadata"]["uid"], before["metadata"]["uid"],
            "the workload is never deleted"
        );
        let owners = &after["metadata"]["ownerReferences"];
        assert_eq!(owners[0]["uid"], next["metadata"]["uid"]);
        assert!(owners[1].is_null(), "{owners}");
    }
    assert_eq!(rig.until_running("web").await.row.service.generation, 1);
    // The recorded anchor names are always one ahead of the one in use.
    rig.until_wakes(0).await;
    let id = rig.delete("web").await;
    let detail = rig.until(&id, crate::rig::deleted).await;
    let absent = detail.receipt.expect("a receipt").absent;
    assert!(absent.iter().any(|absence| absence.key == anchor(5)), "{absent:#?}");
}
