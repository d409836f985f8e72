//! The survey of a namespace before its deletion is recorded first, so that no takeover loses it.

use serde_json::json;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::report::{NamespaceSurvey, Outcome, Report};
use trueup_testkit::fake_cluster::{FakeCluster, Verb};

use crate::rig::{Rig, converged, recorded_survey, with_receipt};

async fn stage() -> (FakeCluster, Rig) {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.order_until(rig.project(), converged).await;
    (fake, rig)
}

/// The order to delete a project, without a recorded survey.
fn unsurveyed(rig: &Rig) -> Order {
    let mut end = rig.project_end();
    end.permit.survey = None;
    end
}

fn with_survey(report: &Report) -> bool {
    report.survey.is_some()
}

fn deletes(fake: &FakeCluster) -> usize {
    fake.journal().iter().filter(|write| write.verb == Verb::Delete).count()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_before_the_survey_is_recorded() {
    let (fake, mut rig) = stage().await;
    let report = rig.order_until(unsurveyed(&rig), with_survey).await;
    let Some(NamespaceSurvey::Clear(survey)) = report.survey else {
        unreachable!("nothing foreign is in the namespace")
    };
    assert!(survey.kinds.contains("Secret"), "{survey:?}");
    assert!(matches!(&report.outcome, Outcome::Waiting { on } if on.contains("to be recorded")));
    assert_eq!(deletes(&fake), 0);
    let mut end = unsurveyed(&rig);
    end.permit.survey = Some(survey);
    let report = rig.order_until(end, with_receipt).await;
    assert!(report.receipt.and_then(|receipt| receipt.survey).is_some());
}

/// The delete was sent by a process that is gone. Its successor never saw the contents, and the
/// permission to list them went with the namespace: only the recorded survey is left.
#[tokio::test(start_paused = true)]
async fn successor_process_reports_the_recorded_survey() {
    let (fake, mut rig) = stage().await;
    let end = rig.project_end();
    let quota = end.recorded.keys().find(|key| key.kind == Kind::ResourceQuota).expect("a quota");
    fake.edit(quota, |object| object["metadata"]["finalizers"] = json!(["example.com/hold"]));
    let held = |report: &Report| matches!(&report.outcome, Outcome::Waiting { on } if on.contains("example.com/hold"));
    rig.order_until(end.clone(), held).await;
    assert_eq!(deletes(&fake), 1, "the namespace is being deleted");

    let mut rig = rig.restart();
    rig.order_until(end.clone(), held).await;
    fake.edit(quota, |object| object["metadata"]["finalizers"] = json!([]));
    let report = rig.until(end.unit, with_receipt).await;
    let receipt = report.receipt.expect("as just waited for");
    assert_eq!(receipt.survey, Some(recorded_survey()), "the recorded one");
}

/// A namespace that was clear may hold a foreign object by now: the survey must be withdrawn.
#[tokio::test(start_paused = true)]
async fn survey_that_finds_a_foreign_object_withdraws_the_recorded_one() {
    let (fake, mut rig) = stage().await;
    let end = rig.project_end();
    let theirs = ResourceKey::new(Kind::ConfigMap, &end.namespace, "precious");
    fake.edit(&theirs, |object| object["metadata"]["labels"] = json!({}));
    let report = rig.order_until(end, with_survey).await;
    assert_eq!(report.survey, Some(NamespaceSurvey::Kept));
    assert!(matches!(report.outcome, Outcome::Blocked { .. }), "{:?}", report.outcome);
    assert_eq!(deletes(&fake), 0);
}

/// Another writer deleted the namespace before our survey was recorded: its absence is proved, and
/// no survey is claimed.
#[tokio::test(start_paused = true)]
async fn namespace_deleted_by_others_is_proved_without_a_survey() {
    let (fake, mut rig) = stage().await;
    let end = unsurveyed(&rig);
    // While the project is active its namespace would be created again.
    rig.order_until(end.clone(), with_survey).await;
    fake.remove(&ResourceKey::new(Kind::Namespace, "", &end.namespace));
    let report = rig.until(end.unit, with_receipt).await;
    assert_eq!(report.receipt.expect("as just waited for").survey, None);
}
