//! Each write of a service's life fails before it is done, or is done and its answer lost, or the
//! executor dies right there: the end is the same, with the same number of creates and deletes.

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

/// What is left at the end, and how often each key was made and removed.
type End = (BTreeMap<String, Value>, BTreeMap<ResourceKey, Count>);

/// Whose life it is: what it shall be first and then, and when each is there.
#[derive(Debug, Clone, Copy)]
enum Whose {
    /// A service with a disk, which is changed in place.
    Game,
    /// A job with a disk, which is asked for something else: one Job goes and another comes.
    Job,
}

impl Whose {
    fn specs(self) -> [Spec; 2] {
        match self {
            Self::Game => [game(), Spec { image: "example:2".to_owned(), ..game() }],
            Self::Job => [job("train:1"), job("train:2")],
        }
    }

    fn there(self) -> fn(&Report) -> bool {
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

/// A whole life: project, service, a change, the end.
async fn live(rig: &mut Rig, whose: Whose) {
    live_from(rig, whose, &AtomicUsize::new(0)).await;
}

/// The rest of a life, from the stage that was reached: after a crash the driver orders again what
/// is promised now, never what was promised once.
async fn live_from(rig: &mut Rig, whose: Whose, stage: &AtomicUsize) {
    rig.order_until(rig.project(), converged).await;
    for (reached, generation) in [(0, 1), (1, 2)] {
        if stage.load(Ordering::SeqCst) == reached {
            rig.order_until(whose.order(rig, generation), whose.there()).await;
            stage.store(reached + 1, Ordering::SeqCst);
        }
    }
    rig.order_until(whose.order(rig, 3), with_receipt).await;
}

fn end(fake: &FakeCluster) -> End {
    (fake.snapshot(), fake.counts())
}

/// The reference: nothing goes wrong. Its writes tell where faults can be put.
async fn reference(whose: Whose) -> (End, usize) {
    let fake = FakeCluster::new();
    let mut rig = Rig::numbered(Arc::new(fake.clone()), 1_000_000);
    live(&mut rig, whose).await;
    (end(&fake), fake.effects().len())
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_at_any_write_changes_nothing_in_the_end() {
    for whose in [Whose::Game, Whose::Job] {
        lose_each_answer(whose).await;
    }
}

async fn lose_each_answer(whose: Whose) {
    let (expected, writes) = reference(whose).await;
    assert!(writes >= 15, "the life should have many writes, has {writes}");
    for at in 1..=writes {
        let fake = FakeCluster::new();
        let fired = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&fired);
        fake.on_write(move |number, _| {
            if number == at && counter.fetch_add(1, Ordering::SeqCst) == 0 {
                Then::Lose(CallError::Unanswered("the answer was lost".to_owned()))
            } else {
                Then::Answer
            }
        });
        let mut rig = Rig::numbered(Arc::new(fake.clone()), 1_000_000);
        live(&mut rig, whose).await;
        assert_eq!(fired.load(Ordering::SeqCst), 1, "the fault at write {at} should have fired");
        assert_eq!(end(&fake), expected, "{whose:?} after losing the answer of write {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_changes_nothing_in_the_end() {
    for whose in [Whose::Game, Whose::Job] {
        crash_at_each_write(whose).await;
    }
}

async fn crash_at_each_write(whose: Whose) {
    let (expected, writes) = reference(whose).await;
    for at in 1..=writes {
        let fake = FakeCluster::new();
        let hung = Arc::new(tokio::sync::Notify::new());
        let told = Arc::clone(&hung);
        let fired = Arc::new(AtomicUsize::new(0));
        fake.on_write(move |number, _| {
            if number == at && fired.fetch_add(1, Ordering::SeqCst) == 0 {
                told.notify_one();
                Then::Hang
            } else {
                Then::Answer
            }
        });
        let mut rig = Rig::numbered(Arc::new(fake.clone()), 1_000_000);
        let stage = AtomicUsize::new(0);
        let survived = tokio::select! {
            () = live_from(&mut rig, whose, &stage) => true,
            () = hung.notified() => false,
        };
        assert!(!survived, "the executor should have been stopped at write {at}");
        let mut rig = rig.restart();
        live_from(&mut rig, whose, &stage).await;
        assert_eq!(end(&fake), expected, "{whose:?} after a crash at write {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_before_any_kind_of_write_is_tried_again() {
    let whose = Whose::Game;
    let (expected, _) = reference(whose).await;
    let errors = [
        CallError::Unreachable("nobody there".to_owned()),
        CallError::Server("it broke".to_owned()),
        CallError::Conflict("somebody was faster".to_owned()),
        CallError::Refused("not now".to_owned()),
    ];
    for verb in [Verb::Apply, Verb::Patch, Verb::Delete, Verb::Get, Verb::List] {
        for error in &errors {
            let fake = FakeCluster::new();
            fake.fail_next(verb, error.clone(), When::Before);
            let mut rig = Rig::numbered(Arc::new(fake.clone()), 1_000_000);
            live(&mut rig, whose).await;
            assert_eq!(end(&fake), expected, "after {error} for {verb:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_away_defers_and_converges_when_it_is_back() {
    let fake = FakeCluster::new();
    fake.set_reachable(false);
    let mut rig = Rig::fake(&fake);
    let deferred = |report: &Report| matches!(report.outcome, Outcome::Deferred { .. });
    let report = rig.order_until(rig.project(), deferred).await;
    assert_eq!(report.observation, None, "nothing was seen, so nothing is claimed");
    assert!(fake.journal().is_empty());
    fake.set_reachable(true);
    rig.until(report.unit, converged).await;
    rig.order_until(rig.service(1, web(1)), healthy).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fell_behind_still_notices_what_is_gone() {
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
