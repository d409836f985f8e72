//! Each write of a service's lifecycle fails, or its response is lost, or the executor crashes
//! there: the end state is the same, with the same number of creates and deletes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use trueup_cluster::CallError;
use trueup_model::key::ResourceKey;
use trueup_model::order::Order;
use trueup_model::report::{Outcome, Report};
use trueup_model::spec::Spec;
use trueup_testkit::fake_cluster::{Count, FakeCluster, Then, Verb, When};

use crate::executor_runs::{complete, job};
use crate::rig::{Rig, converged, game, healthy, web, with_receipt};

/// The objects at the end, and how often each key was created and deleted.
type End = (BTreeMap<String, Value>, BTreeMap<ResourceKey, Count>);

/// The service under test: its two specs, and when each is reached.
#[derive(Debug, Clone, Copy)]
enum Subject {
    /// A service with a volume, which is updated in place.
    Game,
    /// A job with a volume, subject change replaces one Job by another.
    Job,
}

impl Subject {
    fn specs(self) -> [Spec; 2] {
        match self {
            Self::Game => [game(), Spec { image: "example:2".to_owned(), ..game() }],
            Self::Job => [job("train:1"), job("train:2")],
        }
    }

    fn reached(self) -> fn(&Report) -> bool {
        match self {
            Self::Game => healthy,
            Self::Job => complete,
        }
    }

    /// The order for a generation, with every key that was ever recorded, as the driver makes it.
    fn order(self, rig: &Rig, generation: i64) -> Order {
        let [first, then] = self.specs();
        let order = match generation {
            1 => rig.service(1, first.clone()),
            2 => rig.service(2, then),
            _ => rig.gone(generation, then),
        };
        if generation > 1 { Rig::after(&rig.service(1, first), order) } else { order }
    }
}

/// The whole lifecycle: project, service, an update, the deletion.
async fn run_lifecycle(rig: &mut Rig, subject: Subject) {
    resume_lifecycle(rig, subject, &AtomicUsize::new(0)).await;
}

/// The rest of the lifecycle, from the stage that was reached: after a crash the driver orders the
/// current generation, never an older one.
async fn resume_lifecycle(rig: &mut Rig, subject: Subject, stage: &AtomicUsize) {
    rig.order_until(rig.project(), converged).await;
    for (reached, generation) in [(0, 1), (1, 2)] {
        if stage.load(Ordering::SeqCst) == reached {
            rig.order_until(subject.order(rig, generation), subject.reached()).await;
            stage.store(reached + 1, Ordering::SeqCst);
        }
    }
    rig.order_until(subject.order(rig, 3), with_receipt).await;
}

fn end(fake: &FakeCluster) -> End {
    (fake.snapshot(), fake.counts())
}

/// The reference without faults. Its writes are the places for faults.
async fn reference(subject: Subject) -> (End, usize) {
    let fake = FakeCluster::new();
    let mut rig = Rig::numbered(Arc::new(fake.clone()), 1_000_000);
    run_lifecycle(&mut rig, subject).await;
    (end(&fake), fake.effects().len())
}

#[tokio::test(start_paused = true)]
async fn lost_response_at_any_write_does_not_change_the_end_state() {
    for subject in [Subject::Game, Subject::Job] {
        lose_each_response(subject).await;
    }
}

async fn lose_each_response(subject: Subject) {
    let (expected, writes) = reference(subject).await;
    assert!(writes >= 15, "the lifecycle should have many writes, has {writes}");
    for at in 1..=writes {
        let fake = FakeCluster::new();
        let fired = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&fired);
        fake.on_write(move |number, _| {
            if number == at && counter.fetch_add(1, Ordering::SeqCst) == 0 {
                Then::Lose(CallError::Unanswered("the response was lost".to_owned()))
            } else {
                Then::Answer
            }
        });
        let mut rig = Rig::numbered(Arc::new(fake.clone()), 1_000_000);
        run_lifecycle(&mut rig, subject).await;
        assert_eq!(fired.load(Ordering::SeqCst), 1, "the fault at write {at} should have fired");
        assert_eq!(end(&fake), expected, "{subject:?} after losing the response to write {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn crash_at_any_write_does_not_change_the_end_state() {
    for subject in [Subject::Game, Subject::Job] {
        crash_at_each_write(subject).await;
    }
}

async fn crash_at_each_write(subject: Subject) {
    let (expected, writes) = reference(subject).await;
    for at in 1..=writes {
        let fake = FakeCluster::new();
        let hung = Arc::new(tokio::sync::Notify::new());
        let notify = Arc::clone(&hung);
        let fired = Arc::new(AtomicUsize::new(0));
        fake.on_write(move |number, _| {
            if number == at && fired.fetch_add(1, Ordering::SeqCst) == 0 {
                notify.notify_one();
                Then::Hang
            } else {
                Then::Answer
            }
        });
        let mut rig = Rig::numbered(Arc::new(fake.clone()), 1_000_000);
        let stage = AtomicUsize::new(0);
        let survived = tokio::select! {
            () = resume_lifecycle(&mut rig, subject, &stage) => true,
            () = hung.notified() => false,
        };
        assert!(!survived, "the executor should have been stopped at write {at}");
        let mut rig = rig.restart();
        resume_lifecycle(&mut rig, subject, &stage).await;
        assert_eq!(end(&fake), expected, "{subject:?} after a crash at write {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_call_of_any_verb_is_retried() {
    let subject = Subject::Game;
    let (expected, _) = reference(subject).await;
    let errors = [
        CallError::Unreachable("unreachable".to_owned()),
        CallError::Server("internal error".to_owned()),
        CallError::Conflict("another writer was first".to_owned()),
        CallError::Refused("not now".to_owned()),
    ];
    for verb in [Verb::Apply, Verb::Patch, Verb::Delete, Verb::Get, Verb::List] {
        for error in &errors {
            let fake = FakeCluster::new();
            fake.fail_next(verb, error.clone(), When::Before);
            let mut rig = Rig::numbered(Arc::new(fake.clone()), 1_000_000);
            run_lifecycle(&mut rig, subject).await;
            assert_eq!(end(&fake), expected, "after {error} for {verb:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn unreachable_cluster_defers_and_converges_when_it_returns() {
    let fake = FakeCluster::new();
    fake.set_reachable(false);
    let mut rig = Rig::fake(&fake);
    let deferred = |report: &Report| matches!(report.outcome, Outcome::Deferred { .. });
    let report = rig.order_until(rig.project(), deferred).await;
    assert_eq!(report.observation, None, "nothing was observed, so nothing is reported");
    assert!(fake.journal().is_empty());
    fake.set_reachable(true);
    rig.until(report.unit, converged).await;
    rig.order_until(rig.service(1, web(1)), healthy).await;
}

#[tokio::test(start_paused = true)]
async fn expired_watch_still_notices_deleted_objects() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    rig.running(web(1)).await;
    let order = rig.service(1, web(1));
    let service = crate::rig::key(&order, trueup_model::key::Kind::Service, str::to_owned);
    fake.set_reachable(false);
    fake.remove(&service);
    fake.compact();
    fake.set_reachable(true);
    rig.get_until(&service, |found| found.is_some()).await;
}
