//! The end of a project through all loops, and through a process that dies in the middle of it.

use serde_json::json;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::receipt::ProofLevel;
use trueup_store::ProjectRow;
use trueup_store::door::RequestContext;

use crate::rig::Rig;

impl Rig {
    async fn end_project(&self) -> String {
        let owner = self.db.owner();
        let (context, now) = (RequestContext::new(&owner, None), self.clock.now());
        let ended = self.db.app.delete_project(self.db.org, "shop", &context, now).await;
        self.signals.wake();
        ended.expect("the end should be accepted").row.project.id.to_string()
    }

    async fn project(&self, id: &str) -> ProjectRow {
        let found = self.db.app.find_project(self.db.org, id).await;
        found.expect("the database should answer").expect("the project should be there")
    }

    /// Waits until the cluster has an object of this kind that is like this, and names it.
    async fn until_there(
        &self,
        kind: Kind,
        wanted: impl Fn(&serde_json::Value) -> bool,
    ) -> ResourceKey {
        let reached = tokio::time::timeout(crate::rig::LONG, async {
            loop {
                if let Some(object) = self.fake.objects(kind).iter().find(|it| wanted(it)) {
                    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                    return ResourceKey::new(kind, text("namespace"), text("name"));
                }
                tokio::time::sleep(crate::rig::LOOK).await;
            }
        });
        reached.await.expect("there should be such an object")
    }
}

/// What was looked at before the namespace went is on record before it goes, so the process that proves the
/// end can say so, whoever looked.
#[tokio::test]
async fn a_takeover_between_the_look_and_the_proof_loses_no_look() {
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    let quota = rig.until_there(Kind::ResourceQuota, |_| true).await;
    let hold = |rig: &Rig, by: &[&str]| {
        rig.fake.edit(&quota, |object| object["metadata"]["finalizers"] = json!(by));
    };
    hold(&rig, &["example.com/hold"]);
    let id = rig.end_project().await;
    let goes = |it: &serde_json::Value| !it["metadata"]["deletionTimestamp"].is_null();
    rig.until_there(Kind::Namespace, goes).await;
    rig.crash().await;
    assert_eq!(rig.project(&id).await.receipt, None);

    hold(&rig, &[]);
    rig.start("one");
    let proved = tokio::time::timeout(crate::rig::LONG, async {
        loop {
            if let Some(receipt) = rig.project(&id).await.receipt {
                return receipt;
            }
            tokio::time::sleep(crate::rig::LOOK).await;
        }
    });
    let receipt = proved.await.expect("the end should be proved");
    assert_eq!(receipt.level, ProofLevel::ApiAbsence);
    let survey = receipt.survey.expect("what was looked at should be known");
    assert!(survey.kinds.contains("Secret"), "{survey:?}");
    rig.until_wakes(0).await;
}
