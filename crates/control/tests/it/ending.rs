//! The deletion of a project through all loops, with a crash in the middle.

use serde_json::json;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::receipt::ProofLevel;
use trueup_store::ProjectRow;
use trueup_store::door::RequestContext;

use crate::rig::Rig;

impl Rig {
    async fn delete_project_by_name(&self) -> String {
        let owner = self.db.owner();
        let (context, now) = (RequestContext::new(&owner, None), self.clock.now());
        let deleted = self.db.app.delete_project(self.db.org, "shop", &context, now).await;
        self.signals.wake();
        deleted.expect("the deletion should be accepted").row.project.id.to_string()
    }

    async fn project(&self, id: &str) -> ProjectRow {
        let found = self.db.app.find_project(self.db.org, id).await;
        found.expect("the database should answer").expect("the project should be there")
    }

    /// Waits until the cluster has a matching object of this kind; returns its key.
    async fn until_object_exists(
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
                tokio::time::sleep(crate::rig::POLL).await;
            }
        });
        reached.await.expect("there should be a matching object")
    }
}

/// The survey is recorded before the namespace is deleted, so the process that writes the receipt
/// can include a survey made by another process.
#[tokio::test]
async fn takeover_between_survey_and_receipt_keeps_the_survey() {
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    let quota = rig.until_object_exists(Kind::ResourceQuota, |_| true).await;
    let set_finalizers = |rig: &Rig, by: &[&str]| {
        rig.fake.edit(&quota, |object| object["metadata"]["finalizers"] = json!(by));
    };
    set_finalizers(&rig, &["example.com/hold"]);
    let id = rig.delete_project_by_name().await;
    let terminating = |it: &serde_json::Value| !it["metadata"]["deletionTimestamp"].is_null();
    rig.until_object_exists(Kind::Namespace, terminating).await;
    rig.crash().await;
    assert_eq!(rig.project(&id).await.receipt, None);

    set_finalizers(&rig, &[]);
    rig.start("one");
    let verified = tokio::time::timeout(crate::rig::LONG, async {
        loop {
            if let Some(receipt) = rig.project(&id).await.receipt {
                return receipt;
            }
            tokio::time::sleep(crate::rig::POLL).await;
        }
    });
    let receipt = verified.await.expect("absence should be verified");
    assert_eq!(receipt.level, ProofLevel::ApiAbsence);
    let survey = receipt.survey.expect("the receipt should have the survey");
    assert!(survey.kinds.contains("Secret"), "{survey:?}");
    rig.until_wakes(0).await;
}
