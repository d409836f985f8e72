//! The look into a namespace before it goes: on record first, so that no takeover loses it.

use serde_json::json;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::report::{NamespaceSurvey, Outcome, Report};
use trueup_testkit::fake_cluster::{FakeCluster, Verb};

use crate::rig::{Rig, converged, looked, with_receipt};

async fn stage() -> (FakeCluster, Rig) {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.order_until(rig.project(), converged).await;
    (fake, rig)
}

/// The end of a project before anybody's look is on record.
fn unlooked(rig: &Rig) -> Order {
    let mut end = rig.project_end();
    end.permit.survey = None;
    end
}

fn with_look(report: &Report) -> bool {
    report.survey.is_some()
}

fn deletes(fake: &FakeCluster) -> usize {
    fake.journal().iter().filter(|write| write.verb == Verb::Delete).count()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_before_the_look_is_on_record() {
    let (fake, mut rig) = stage().await;
    let report = rig.order_until(unlooked(&rig), with_look).await;
    let Some(NamespaceSurvey::Clear(survey)) = report.survey else {
        unreachable!("nothing keeps it")
    };
    assert!(survey.kinds.contains("Secret"), "{survey:?}");
    assert!(matches!(&report.outcome, Outcome::Waiting { on } if on.contains("on record")));
    assert_eq!(deletes(&fake), 0);
    let mut end = unlooked(&rig);
    end.permit.survey = Some(survey);
    let report = rig.order_until(end, with_receipt).await;
    assert!(report.receipt.and_then(|receipt| receipt.survey).is_some());
}

/// The delete was sent by a process that is gone. Its successor never saw what was in there, and the
/// right to list it went with the namespace: only the record can say what was looked at.
#[tokio::test(start_paused = true)]
async fn the_successor_of_whoever_looked_says_what_was_looked_at() {
    let (fake, mut rig) = stage().await;
    let end = rig.project_end();
    let quota = end.recorded.keys().find(|key| key.kind == Kind::ResourceQuota).expect("a quota");
    fake.edit(quota, |object| object["metadata"]["finalizers"] = json!(["example.com/hold"]));
    let held = |report: &Report| matches!(&report.outcome, Outcome::Waiting { on } if on.contains("example.com/hold"));
    rig.order_until(end.clone(), held).await;
    assert_eq!(deletes(&fake), 1, "the namespace goes");

    let mut rig = rig.restart();
    rig.order_until(end.clone(), held).await;
    fake.edit(quota, |object| object["metadata"]["finalizers"] = json!([]));
    let report = rig.until(end.unit, with_receipt).await;
    let receipt = report.receipt.expect("as asked for");
    assert_eq!(receipt.survey, Some(looked()), "what is on record");
}

/// What was clear once may hold something by now: the record of it must not outlive that.
#[tokio::test(start_paused = true)]
async fn a_look_that_finds_something_of_others_takes_back_the_one_on_record() {
    let (fake, mut rig) = stage().await;
    let end = rig.project_end();
    let theirs = ResourceKey::new(Kind::ConfigMap, &end.namespace, "precious");
    fake.edit(&theirs, |object| object["metadata"]["labels"] = json!({}));
    let report = rig.order_until(end, with_look).await;
    assert_eq!(report.survey, Some(NamespaceSurvey::Kept));
    assert!(matches!(report.outcome, Outcome::Blocked { .. }), "{:?}", report.outcome);
    assert_eq!(deletes(&fake), 0);
}

/// Somebody else deleted the namespace before a look of ours was on record: its absence is proved, and no look
/// is claimed.
#[tokio::test(start_paused = true)]
async fn what_others_deleted_is_proved_without_a_look() {
    let (fake, mut rig) = stage().await;
    let end = unlooked(&rig);
    // While the project is to stay its namespace would be made again.
    rig.order_until(end.clone(), with_look).await;
    fake.remove(&ResourceKey::new(Kind::Namespace, "", &end.namespace));
    let report = rig.until(end.unit, with_receipt).await;
    assert_eq!(report.receipt.expect("as asked for").survey, None);
}
