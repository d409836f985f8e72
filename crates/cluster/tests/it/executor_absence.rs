//! When a deletion may complete: not while a call may be in flight, not while a finalizer blocks
//! it, and never with more proved than was read.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use trueup_cluster::{CallError, InFlightWindow};
use trueup_model::Clock;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, Unit};
use trueup_model::receipt::{Force, ProofLevel, Receipt};
use trueup_model::report::{Outcome, Report};
use trueup_rules::render::names;
use trueup_testkit::fake_cluster::{FakeCluster, Verb, When};
use trueup_testkit::manual_clock::ManualClock;

use crate::rig::{Rig, converged, game, healthy, key, web, with_receipt};

/// Lease time and call deadline, as in production.
const LASTS: Duration = Duration::from_secs(20);

struct Stage {
    fake: FakeCluster,
    clock: ManualClock,
    rig: Rig,
}

impl Stage {
    fn new(inherited: bool) -> Self {
        let (fake, clock) = (FakeCluster::new(), ManualClock::new());
        let window = InFlightWindow { lasts: LASTS, inherited };
        let rig = Rig::timed(Arc::new(fake.clone()), Arc::new(clock.clone()), window);
        Self { fake, clock, rig }
    }

    /// Advances time in small steps until such a report arrives.
    async fn until(&mut self, unit: Unit, wanted: impl Fn(&Report) -> bool) -> Report {
        let Self { clock, rig, .. } = self;
        let ticking = async {
            loop {
                tokio::time::sleep(Duration::from_millis(5)).await;
                clock.advance(Duration::from_millis(250));
            }
        };
        tokio::select! {
            report = rig.until(unit, wanted) => report,
            () = ticking => unreachable!("the ticking never ends"),
        }
    }

    async fn receipt(&mut self, unit: Unit) -> Receipt {
        let report = self.until(unit, with_receipt).await;
        report.receipt.expect("a receipt, as just waited for")
    }

    /// The outcome of the next pass with this order, without advancing time.
    async fn pass(&self, order: Order) -> Outcome {
        let passed = self.rig.executor.order(order).await;
        tokio::time::timeout(crate::rig::LONG, passed)
            .await
            .expect("a pass should end")
            .expect("a pass should answer")
    }
}

fn waits_for(text: &'static str) -> impl Fn(&Report) -> bool {
    move |report| matches!(&report.outcome, Outcome::Waiting { on } if on.contains(text))
}

/// F33: the delete took effect and its response was lost. What is absent now could still be created
/// by a call in flight; only a read after lease time plus deadline is final.
#[tokio::test(start_paused = true)]
async fn f33_unacknowledged_call_requires_second_absent_read() {
    let errors = [CallError::Unanswered("lost".to_owned()), CallError::Server("500".to_owned())];
    for error in errors {
        let mut at = Stage::new(false);
        at.rig.running(web(1)).await;
        let gone = at.rig.gone(2, web(1));
        at.fake.fail_next(Verb::Delete, error, When::After);
        let _passed = at.rig.executor.order(gone.clone()).await;
        let failed_at = at.clock.now();
        at.until(gone.unit, waits_for("second read")).await;
        let read_at = at.clock.now();
        let receipt = at.receipt(gone.unit).await;
        let [first, second] = receipt.reads.as_slice() else {
            unreachable!("there should be two reads: {receipt:#?}")
        };
        assert!(first.began_at <= read_at, "{receipt:#?}");
        let lasts = SignedDuration::try_from(LASTS).expect("a short time");
        assert!(second.began_at.duration_since(failed_at) >= lasts, "{receipt:#?}");
        assert_eq!(receipt.verified_at, second.ended_at);
        let versions = receipt.absent.iter().filter(|absence| absence.resource_version.is_some());
        assert_eq!(versions.count(), 5, "each object's last version is known: {receipt:#?}");
    }
}

/// An unacknowledged call, or one of a former lease holder, takes effect after the first read.
#[tokio::test(start_paused = true)]
async fn f33_object_created_by_a_late_call_is_found_by_the_second_read() {
    let mut at = Stage::new(true);
    at.rig.running(web(1)).await;
    let gone = at.rig.gone(2, web(1));
    let config = key(&gone, Kind::ConfigMap, names::config);
    let made = at.rig.get(&config).await.expect("should be there");
    let _passed = at.rig.executor.order(gone.clone()).await;
    at.until(gone.unit, waits_for("second read")).await;
    at.fake.edit(&config, |object| {
        *object = made.clone();
        object["metadata"]["ownerReferences"] = json!([]);
    });
    let receipt = at.receipt(gone.unit).await;
    assert_eq!(at.rig.get(&config).await, None);
    let deletes = |write: &&trueup_testkit::fake_cluster::Write| {
        write.verb == Verb::Delete && write.key == config
    };
    assert_eq!(at.fake.journal().iter().filter(deletes).count(), 2, "{receipt:#?}");
}

#[tokio::test(start_paused = true)]
async fn new_epoch_waits_for_calls_of_the_last_one_before_it_completes_a_deletion() {
    let mut at = Stage::new(true);
    at.rig.running(web(1)).await;
    let gone = at.rig.gone(2, web(1));
    let _passed = at.rig.executor.order(gone.clone()).await;
    at.rig.until(gone.unit, waits_for("second read")).await;
    at.clock.advance(LASTS - Duration::from_millis(1));
    let early = at.pass(gone.clone()).await;
    assert!(matches!(early, Outcome::Waiting { .. }), "{early:?}");
    at.clock.advance(Duration::from_millis(1));
    assert_eq!(at.pass(gone.clone()).await, Outcome::Converged);
    let receipt = at.rig.until(gone.unit, with_receipt).await.receipt.expect("as just waited for");
    assert_eq!((receipt.reads.len(), receipt.level), (2, ProofLevel::ApiAbsence));
}

#[tokio::test(start_paused = true)]
async fn one_read_is_enough_without_calls_in_flight() {
    let mut at = Stage::new(false);
    at.rig.running(game()).await;
    let gone = at.rig.gone(2, game());
    let report = at.rig.order_until(gone, with_receipt).await;
    let receipt = report.receipt.expect("as just waited for");
    assert_eq!((receipt.reads.len(), receipt.level), (1, ProofLevel::ApiAbsence));
}

/// API absence is not process absence: the pod was removed while its container still ran.
#[tokio::test(start_paused = true)]
async fn force_deleted_pod_is_named_in_the_receipt() {
    let mut at = Stage::new(false);
    at.rig.running(web(2)).await;
    let gone = at.rig.gone(2, web(2));
    let pods: Vec<ResourceKey> = at.rig.pods(&gone).await;
    at.fake.edit(&pods[0], |pod| pod["spec"]["nodeName"] = "node-1".into());
    at.fake.edit(&pods[1], |pod| {
        pod["spec"]["nodeName"] = "node-2".into();
        pod["status"]["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": 0}});
    });
    let report = at.rig.order_until(gone, with_receipt).await;
    let receipt = report.receipt.expect("as just waited for");
    assert_eq!(receipt.level, ProofLevel::ProcessesUnconfirmed);
    let lost: Vec<_> = receipt.unconfirmed.iter().map(|pod| (&*pod.name, &*pod.node)).collect();
    assert_eq!(lost, [(&*pods[0].name, "node-1")]);
}

/// F42: a foreign finalizer. It is named at once, a person is asked to act when it stays, other
/// deletions continue, and when it is removed the deletion completes.
#[tokio::test(start_paused = true)]
async fn f42_foreign_finalizer_is_named_and_other_deletions_continue() {
    let mut at = Stage::new(false);
    // The fake's own time, which deletions are stamped with, is ahead of this clock.
    at.rig.running(web(1)).await;
    let gone = at.rig.gone(2, web(1));
    let config = key(&gone, Kind::ConfigMap, names::config);
    at.fake.edit(&config, |object| {
        object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    });
    let _passed = at.rig.executor.order(gone.clone()).await;
    let report = at.rig.until(gone.unit, waits_for("example.com/hold")).await;
    let Outcome::Waiting { on } = report.outcome else { unreachable!("as just waited for") };
    assert!(on.contains(&config.to_string()), "{on}");

    at.clock.advance(Duration::from_secs(94_000_000));
    at.rig.fence.open(at.clock.monotonic(), Duration::from_secs(3600));
    let why = blocked(at.pass(gone.clone()).await);
    assert!(why.contains("example.com/hold") && why.contains("remove the finalizer"), "{why}");

    let mut other = Rig::fake(&at.fake);
    other.running(web(1)).await;
    other.order_until(other.gone(2, web(1)), with_receipt).await;

    at.fake.edit(&config, |object| object["metadata"]["finalizers"] = json!([]));
    at.rig.until(gone.unit, with_receipt).await;
}

#[tokio::test(start_paused = true)]
async fn webhook_that_rejects_a_deletion_is_named() {
    let mut at = Stage::new(false);
    at.rig.running(web(1)).await;
    let gone = at.rig.gone(2, web(1));
    let words = "admission webhook \"keep.example.com\" denied the request: not today";
    at.fake.fail_next(Verb::Delete, CallError::Refused(words.to_owned()), When::Before);
    let why = blocked(at.pass(gone.clone()).await);
    assert!(why.contains(words) && why.contains("retries automatically"), "{why}");
    at.until(gone.unit, with_receipt).await;
}

#[tokio::test(start_paused = true)]
async fn retained_volume_is_named_with_its_reclaim_policy() {
    let mut at = Stage::new(false);
    at.rig.running(game()).await;
    let gone = at.rig.gone(2, game());
    let volumes = at.fake.objects(Kind::PersistentVolume);
    let name = volumes[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    let volume = ResourceKey::new(Kind::PersistentVolume, "", &name);
    at.fake.edit(&volume, |volume| {
        volume["spec"]["persistentVolumeReclaimPolicy"] = "Retain".into();
    });
    let _passed = at.rig.executor.order(gone.clone()).await;
    let stays = |report: &Report| matches!(&report.outcome, Outcome::Blocked { .. });
    let why = blocked(at.rig.until(gone.unit, stays).await.outcome);
    assert!(why.contains(&name) && why.contains("Retain"), "{why}");
    at.fake.remove(&volume);
    at.until(gone.unit, with_receipt).await;
}

/// F44: the namespace of this name is still terminating. Nothing is adopted by its name: Trueup
/// waits, then creates it again.
#[tokio::test(start_paused = true)]
async fn f44_terminating_namespace_is_waited_for_and_recreated() {
    let mut at = Stage::new(false);
    let project = at.rig.project();
    at.rig.order_until(project.clone(), converged).await;
    let namespace = ResourceKey::new(Kind::Namespace, "", &project.namespace);
    let held = ResourceKey::new(Kind::ConfigMap, &project.namespace, "held");
    at.fake.edit(&held, |object| object["metadata"]["finalizers"] = json!(["example.com/hold"]));
    let before = at.rig.get(&namespace).await.expect("should be there");
    at.fake.remove(&namespace);
    at.rig.until(project.unit, waits_for("terminating")).await;
    let writes = at.fake.journal().len();
    let again = at.pass(project.clone()).await;
    assert!(matches!(again, Outcome::Waiting { .. }), "{again:?}");
    assert_eq!(at.fake.journal().len(), writes, "nothing is written into a terminating namespace");
    at.fake.edit(&held, |object| object["metadata"]["finalizers"] = json!([]));
    at.until(project.unit, converged).await;
    let after = at.rig.get(&namespace).await.expect("should be recreated");
    assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
    at.rig.order_until(at.rig.service(1, web(1)), healthy).await;
}

/// F43: an unrelated APIService is unavailable, so no namespace deletion ends. The outcome names
/// it, services in the namespace are still deleted, and work continues once it is available again.
#[tokio::test(start_paused = true)]
async fn f43_unavailable_apiservice_is_named_and_services_are_still_deleted() {
    let mut at = Stage::new(false);
    at.rig.running(web(1)).await;
    let project = at.rig.project();
    let gone = at.rig.gone(2, web(1));
    at.fake.break_api_service(Some("metrics.example.com/v1beta1"));
    at.fake.remove(&ResourceKey::new(Kind::Namespace, "", &project.namespace));
    at.rig.until(project.unit, waits_for("metrics.example.com/v1beta1")).await;
    let _passed = at.rig.executor.order(gone.clone()).await;
    let receipt = at.receipt(gone.unit).await;
    assert_eq!(receipt.level, ProofLevel::ApiAbsence);
    at.fake.break_api_service(None);
    at.until(project.unit, converged).await;
}

/// F43 for a project: an unavailable API group could hold foreign objects, so nothing is deleted.
#[tokio::test(start_paused = true)]
async fn f43_namespace_with_an_incomplete_survey_is_not_deleted() {
    let mut at = Stage::new(false);
    at.rig.order_until(at.rig.project(), converged).await;
    at.fake.break_api_service(Some("metrics.example.com/v1beta1"));
    let end = at.rig.project_end();
    let why = blocked(at.pass(end.clone()).await);
    assert!(why.contains("metrics.example.com/v1beta1"), "{why}");
    assert_eq!(deletes(&at.fake, 0), 0);
    at.fake.break_api_service(None);
    at.until(end.unit, with_receipt).await;
}

/// F42 for a project: the namespace is already terminating when a finalizer blocks it.
#[tokio::test(start_paused = true)]
async fn f42_finalizer_that_blocks_a_terminating_namespace_is_named() {
    let mut at = Stage::new(false);
    at.rig.order_until(at.rig.project(), converged).await;
    let end = at.rig.project_end();
    let quota = end.recorded.keys().find(|key| key.kind == Kind::ResourceQuota).expect("a quota");
    at.fake.edit(quota, |object| object["metadata"]["finalizers"] = json!(["example.com/hold"]));
    let _passed = at.rig.executor.order(end.clone()).await;
    at.rig.until(end.unit, waits_for("example.com/hold")).await;
    at.fake.edit(quota, |object| object["metadata"]["finalizers"] = json!([]));
    at.until(end.unit, with_receipt).await;
}

/// F43, the escape: the APIService stays unavailable, so the project's absence can never be proved.
/// Force-completing it names what could not be read, deletes nothing, and ends all work on it.
#[tokio::test(start_paused = true)]
async fn f43_project_with_an_incomplete_survey_can_be_force_completed() {
    let mut at = Stage::new(false);
    at.rig.order_until(at.rig.project(), converged).await;
    at.fake.break_api_service(Some("metrics.example.com/v1beta1"));
    let mut end = at.rig.project_end();
    blocked(at.pass(end.clone()).await);
    end.generation = 3;
    let (principal, reason) = ("owner".to_owned(), "its API server is gone".to_owned());
    end.permit.force = Some(Force { principal, reason });
    let writes = at.fake.journal().len();
    let report = at.rig.order_until(end.clone(), with_receipt).await;
    let receipt = report.receipt.expect("as just waited for");
    assert_eq!(receipt.level, ProofLevel::Forced);
    let remains = receipt.remains.expect("the namespace still exists");
    let unread: Vec<_> = remains.unread.iter().map(|unread| &*unread.what).collect();
    assert_eq!(unread, ["metrics.example.com/v1beta1"]);
    at.fake.break_api_service(None);
    at.clock.advance(Duration::from_secs(3600));
    let other = Rig::fake(&at.fake);
    other.executor.order(other.project()).await.await.expect("another unit should pass");
    assert_eq!(deletes(&at.fake, writes), 0, "nothing is deleted afterwards");
    assert_eq!(at.fake.objects(Kind::Namespace).len(), 2);
}

/// The cluster is gone: nothing can be read, and the project is still force-completed.
#[tokio::test(start_paused = true)]
async fn project_can_be_force_completed_without_its_cluster() {
    let mut at = Stage::new(false);
    at.rig.order_until(at.rig.project(), converged).await;
    let mut end = at.rig.project_end();
    at.fake.set_reachable(false);
    let (principal, reason) = ("owner".to_owned(), "the cluster is gone".to_owned());
    end.permit.force = Some(Force { principal, reason });
    let report = at.rig.order_until(end.clone(), with_receipt).await;
    let receipt = report.receipt.expect("as just waited for");
    assert_eq!((receipt.level, receipt.absent.len()), (ProofLevel::Forced, 0));
    assert_eq!(receipt.unproven.len(), end.recorded.len());
    let remains = receipt.remains.expect("the contents are unknown");
    assert_eq!((remains.count(), remains.unread.len()), (0, 1));
}

/// Each call of a project's deletion fails before it takes effect, or its response is lost.
#[tokio::test(start_paused = true)]
async fn project_deletion_survives_a_failed_call_of_every_verb() {
    for (verb, when) in [
        (Verb::List, When::Before),
        (Verb::Delete, When::Before),
        (Verb::Delete, When::After),
        (Verb::Get, When::Before),
    ] {
        let mut at = Stage::new(false);
        at.rig.order_until(at.rig.project(), converged).await;
        at.fake.fail_next(verb, CallError::Unanswered("lost".to_owned()), when);
        let end = at.rig.project_end();
        let _passed = at.rig.executor.order(end.clone()).await;
        let receipt = at.receipt(end.unit).await;
        assert_eq!(receipt.level, ProofLevel::ApiAbsence, "{verb:?} {when:?}");
        assert_eq!(at.fake.objects(Kind::Namespace).len(), 0, "{verb:?} {when:?}");
    }
}

/// The cluster is gone: nothing can be read, so nothing is proved, and the deletion completes.
#[tokio::test(start_paused = true)]
async fn service_can_be_force_completed_without_its_cluster() {
    let mut at = Stage::new(false);
    at.rig.running(game()).await;
    let mut gone = at.rig.gone(2, game());
    at.fake.set_reachable(false);
    let principal = "owner".to_owned();
    gone.permit.force = Some(Force { principal, reason: "the cluster is gone".to_owned() });
    let writes = at.fake.journal().len();
    let report = at.rig.order_until(gone.clone(), with_receipt).await;
    let receipt = report.receipt.expect("as just waited for");
    assert_eq!(receipt.level, ProofLevel::Forced);
    assert_eq!(receipt.absent, []);
    let unread = receipt.unproven.iter().filter(|left| left.why.contains("could not be read"));
    assert!(unread.count() >= gone.recorded.len(), "{receipt:#?}");
    at.fake.set_reachable(true);
    let other = Rig::fake(&at.fake);
    let passed = other.executor.order(other.project()).await;
    passed.await.expect("another unit should pass");
    assert_eq!(deletes(&at.fake, writes), 0, "nothing is deleted afterwards");
}

/// The node is lost, so its pod stays while every recorded object is gone: the pod is unproven.
#[tokio::test(start_paused = true)]
async fn force_completing_names_the_remaining_pods() {
    let mut at = Stage::new(false);
    at.rig.running(web(1)).await;
    let mut gone = at.rig.gone(2, web(1));
    let pod = at.rig.pods(&gone).await.remove(0);
    at.fake.edit(&pod, |pod| pod["metadata"]["finalizers"] = json!(["example.com/node"]));
    let _passed = at.rig.executor.order(gone.clone()).await;
    at.rig.until(gone.unit, waits_for("1 pod to be gone")).await;
    let (principal, reason) = ("owner".to_owned(), "the node is gone".to_owned());
    gone.generation = 3;
    gone.permit.force = Some(Force { principal, reason });
    let report = at.rig.order_until(gone, with_receipt).await;
    let receipt = report.receipt.expect("as just waited for");
    assert_eq!(receipt.level, ProofLevel::Forced);
    assert!(receipt.unproven.iter().any(|left| left.key == pod), "{receipt:#?}");
}

fn deletes(fake: &FakeCluster, since: usize) -> usize {
    fake.journal().iter().skip(since).filter(|write| write.verb == Verb::Delete).count()
}

fn blocked(outcome: Outcome) -> String {
    match outcome {
        Outcome::Blocked { why } => why,
        other => unreachable!("should be blocked, is {other:?}"),
    }
}
