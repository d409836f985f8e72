//! Oracles: what must hold after every plan. Each violation begins with the number of its oracle.
//!
//! - O1: every step ends in the same state as without faults
//! - O2: every key has the same number of creates and deletes
//! - O3: every object with our label is recorded in an order
//! - O4: no unexpected delete, and no delete without a uid precondition
//! - O5: no write after the lease ended
//! - O6: generations never decrease
//! - O7: every step completes without a hot loop, and no writes follow
//! - O10: no panic, no leaked task, no unfinished work
//! - O11: every fault whose trigger was reached had an effect
//! - O12: a deletion receipt is correct
//! - O13: a value of a foreign writer stays if its verdict says so, and what stands is reported
//! - F05: policies exist before workloads
//!
//! O3, O5, O6, O10, O12, O13 and F05 are checked during the run (`executor_world.rs`, `layer.rs`,
//! `outside.rs`), the others here.

use std::collections::{BTreeMap, BTreeSet};

use trueup_model::key::{Kind, ResourceKey};

use super::learn::Reference;
use super::outside;
use super::plan::{FaultAction, FaultPlan};
use super::run::Story;
use super::stage::{
    Stage, compare, neutral, without_fields, without_generations, without_identity,
};
use crate::fake_cluster::Count;

/// Everything that is wrong about a run.
#[must_use]
pub fn judge(reference: &Reference, plan: &FaultPlan, story: &Story) -> Vec<String> {
    let mut wrong = story.wrong.clone();
    wrong.extend(same_stages(reference, story));
    wrong.extend(same_counts(reference, story));
    wrong.extend(no_unexpected_deletes(reference, story));
    wrong.extend(no_excess_writes(reference, plan, story));
    for (fault, fired) in plan.faults.iter().zip(&story.fired) {
        // Task scheduling varies, so a run may have a call or two fewer than the reference, or
        // another one in its place.
        let expected = story.notes.reached(&fault.at) && outside::is_possible(fault, &story.notes);
        if !fired && expected {
            wrong.push(format!("O11: the fault had no effect: {fault:?}"));
        }
    }
    wrong
}

/// O1.
///
/// An object that a foreign writer deleted is recreated with the current generation, and an anchor
/// with its next number. With hasty steps, any of them may write an object. Uids, and digests that
/// depend on them, vary with the order in which services converge. A field that is left to a
/// foreign writer is not compared.
fn same_stages(reference: &Reference, story: &Story) -> Vec<String> {
    let workload = &reference.workload;
    let keeps = workload.keeps_foreign_values();
    let kept = || {
        let taken = story.notes.taken.iter().filter(move |_| keeps);
        taken.map(|((key, _), field)| (key.to_string(), *field))
    };
    let normal = |stage: &Stage| {
        let stage = &without_fields(stage, kept());
        if !story.notes.deleted.is_empty() || workload.is_hasty() {
            without_generations(stage)
        } else if workload.has_neighbours() {
            without_identity(stage)
        } else {
            stage.clone()
        }
    };
    let stages = reference.story.stages.iter().zip(&story.stages);
    let mut wrong = Vec::new();
    for (number, (expected, stage)) in stages.enumerate() {
        let found = compare(&normal(expected), &normal(stage));
        wrong.extend(found.iter().map(|what| format!("O1: after step {number} {what}")));
    }
    wrong
}

/// Creates and deletes of each key, with all numbers of an anchor added up.
fn counts(story: &Story) -> BTreeMap<(Kind, String), Count> {
    let mut counts: BTreeMap<(Kind, String), Count> = BTreeMap::new();
    // A volume is named after a uid, which depends on all objects created before.
    for (key, count) in story.counts.iter().filter(|(key, _)| key.kind != Kind::PersistentVolume) {
        let sum = counts.entry(stable_key(key)).or_default();
        sum.creates += count.creates;
        sum.deletes += count.deletes;
    }
    counts
}

/// The key of an object without the number of an anchor, which changes when it is recreated.
fn stable_key(key: &ResourceKey) -> (Kind, String) {
    (key.kind, neutral(&key.name))
}

/// O2.
///
/// Only objects deleted by a foreign writer, and their dependents, may be created once more. With
/// hasty steps a fault decides which of them take effect, but nothing is created twice.
fn same_counts(reference: &Reference, story: &Story) -> Vec<String> {
    let (expected, counted) = (counts(&reference.story), counts(story));
    let deleted: BTreeSet<(Kind, String)> = story.notes.deleted.iter().map(stable_key).collect();
    let is_hasty = reference.workload.is_hasty();
    let keys: BTreeSet<&(Kind, String)> = expected.keys().chain(counted.keys()).collect();
    let is_right = |key: &(Kind, String), usual: Count, now: Count| {
        let as_many_left = i64::from(usual.creates) - i64::from(usual.deletes)
            == i64::from(now.creates) - i64::from(now.deletes);
        let most = usual.creates + u32::from(deleted.contains(key));
        let least = usual.creates;
        if is_hasty {
            return as_many_left && (key.0 == Kind::Pod || now.creates <= most.max(1));
        }
        as_many_left && (least..=most).contains(&now.creates)
    };
    keys.into_iter()
        .filter_map(|key| {
            let read = |counts: &BTreeMap<(Kind, String), Count>| {
                counts.get(key).copied().unwrap_or_default()
            };
            let (usual, now) = (read(&expected), read(&counted));
            (!is_right(key, usual, now))
                .then(|| format!("O2: {key:?}: expected {usual:?}, got {now:?}"))
        })
        .collect()
}

/// O4.
fn no_unexpected_deletes(reference: &Reference, story: &Story) -> Vec<String> {
    let may_be_deleted: BTreeSet<(Kind, String)> = reference
        .story
        .notes
        .calls
        .iter()
        .filter(|call| call.is_destructive())
        .map(|call| stable_key(&call.key))
        // Finalizers of foreign-deleted objects are removed.
        .chain(story.notes.deleted.iter().map(stable_key))
        .collect();
    let mut wrong = Vec::new();
    for call in story.notes.calls.iter().filter(|call| call.is_destructive()) {
        if call.uid.as_deref().is_none_or(str::is_empty) {
            wrong.push(format!("O4: {} was sent without a uid precondition", call.title()));
        }
        if call.effect.is_some() && !may_be_deleted.contains(&stable_key(&call.key)) {
            wrong.push(format!("O4: {} removed an object that should stay", call.title()));
        }
        if let (Some(effect), Some(uid)) = (&call.effect, &call.uid)
            && effect.uid != *uid
        {
            wrong.push(format!("O4: {} changed an object with another uid", call.title()));
        }
    }
    wrong
}

/// O7.
fn no_excess_writes(reference: &Reference, plan: &FaultPlan, story: &Story) -> Vec<String> {
    let mut wrong = Vec::new();
    if !story.late_writes.is_empty() {
        wrong.push(format!("O7: writes after convergence: {:?}", story.late_writes));
    }
    let (usual, sent) = (reference.story.notes.calls.len(), story.notes.calls.len());
    let explained: usize =
        plan.faults.iter().map(|it| explained_writes(reference, story, &it.then)).sum();
    let most = usual + explained + TOLERANCE;
    if sent > most {
        wrong.push(format!("O7: {sent} writes; {usual} without faults, at most {most} expected"));
    }
    wrong
}

/// How much the number of writes varies: a pass may begin an event earlier or later.
const TOLERANCE: usize = 2;

/// How many additional writes a fault explains.
fn explained_writes(reference: &Reference, story: &Story, action: &FaultAction) -> usize {
    let round = reference.story.notes.widest_round();
    match action {
        // Every attempt sends its writes again and fails.
        FaultAction::Away(seconds) | FaultAction::Refuse(_, seconds) => attempts(*seconds) * round,
        // Whenever the cluster is reachable again, backoff starts over.
        FaultAction::Flap(times) => {
            attempts(4) * round * usize::try_from(*times).unwrap_or_default()
        }
        FaultAction::Fail(_, times) => *times,
        // The write is repeated.
        FaultAction::Crash(_) | FaultAction::Lose(_) | FaultAction::Hang(_) => 1,
        // Existing objects are applied once more.
        FaultAction::Stale(_) => round,
        // One repair, and one retry if a precondition failed because of the edit.
        FaultAction::ForeignEdit | FaultAction::ForeignTakeOver(_) => 2,
        // The same, and an object that no watch reports seems to be deleted: a create fails.
        FaultAction::ForeignRelabel => 3,
        // Objects are recreated; an anchor is released, and its children get a new owner.
        FaultAction::ForeignDelete => 2 * story.notes.deleted.len(),
        // No write has to be repeated.
        FaultAction::LeaseEnds(_)
        | FaultAction::Silence(..)
        | FaultAction::Twice
        | FaultAction::Drop(_) => 0,
    }
}

/// The most attempts within this many seconds: exponential backoff from 0.5 s to 30 s, with jitter
/// of up to a quarter less.
fn attempts(seconds: u64) -> usize {
    let pauses = (0..).map(|number| 375_u64.saturating_mul(1 << u32::min(number, 6)).min(22_500));
    let times = pauses.scan(0_u64, |at, pause| {
        *at += pause;
        Some(*at)
    });
    1 + times.take_while(|at| *at <= seconds * 1_000).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::learn::learn_alone;
    use super::super::plan::{Side, Trigger};
    use super::super::workload::Workload;
    use super::*;

    #[test]
    fn attempts_follow_exponential_backoff() {
        assert_eq!((attempts(0), attempts(1), attempts(4), attempts(24)), (1, 2, 4, 7));
        assert_eq!((attempts(90), attempts(120)), (9, 11));
    }

    /// The oracles that report a violation for a run of `web` with this damage.
    fn violated(
        reference: &Reference,
        faults: &[FaultAction],
        damage: impl Fn(&mut Story),
    ) -> Vec<String> {
        let mut plan = FaultPlan::one("web", Trigger::Write(1), FaultAction::Twice, String::new());
        plan.faults.clear();
        let plan = faults.iter().fold(plan, |plan, it| plan.and(Trigger::Write(1), it.clone()));
        let mut story = reference.story.clone();
        story.fired = vec![true; faults.len()];
        damage(&mut story);
        let wrong = judge(reference, &plan, &story);
        let oracles = wrong.iter().filter_map(|what| what.split(':').next());
        oracles.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn config(reference: &Reference) -> ResourceKey {
        let mut keys = reference.story.counts.keys();
        keys.find(|key| key.name.ends_with("-config")).expect("the ConfigMap should exist").clone()
    }

    fn recreate(story: &mut Story, key: &ResourceKey, times: u32) {
        let count = story.counts.get_mut(key).expect("the key should be counted");
        count.creates += times;
        count.deletes += times;
    }

    #[test]
    fn damaged_run_is_reported_by_its_oracle() {
        let reference = learn_alone(Workload::named("web").expect("a workload"));
        let config = config(&reference);
        let none: [&str; 0] = [];
        let found = |damage: &dyn Fn(&mut Story)| violated(&reference, &[], damage);
        assert_eq!(found(&|_| ()), none);
        let set = |story: &mut Story, field: &str| {
            let object =
                story.stages[0].get_mut(&config.to_string()).expect("the object should exist");
            *object.pointer_mut(field).expect("the object should have this field") =
                json!({ "not": "so" });
        };
        for field in ["/metadata/labels", "/metadata/ownerReferences", "/data"] {
            assert_eq!(found(&|story| set(story, field)), ["O1"], "{field}");
        }
        assert_eq!(found(&|story| _ = story.stages[1].remove(&config.to_string())), ["O1"]);
        assert_eq!(found(&|story| recreate(story, &config, 1)), ["O2"]);
        assert_eq!(found(&|story| story.late_writes.push("apply".to_owned())), ["O7"]);
        let unguarded = |story: &mut Story| {
            let mut deletes = story.notes.calls.iter_mut().filter(|call| call.is_destructive());
            deletes.next().expect("something should be deleted").uid = None;
        };
        assert_eq!(found(&unguarded), ["O4"]);
        let once_more = |story: &mut Story| {
            let sent = story.notes.calls[0].clone();
            story.notes.calls.extend(std::iter::repeat_n(sent, TOLERANCE + 1));
        };
        assert_eq!(found(&once_more), ["O7"]);
        let lost = [FaultAction::Lose(super::super::plan::Failure::Server)];
        assert_eq!(violated(&reference, &lost, once_more), none, "the fault explains one write");
        assert_eq!(violated(&reference, &lost, |story| story.fired = vec![false]), ["O11"]);
    }

    #[test]
    fn foreign_delete_allows_one_more_create_and_no_other_change() {
        let reference = learn_alone(Workload::named("web").expect("a workload"));
        let config = config(&reference);
        let found = |damage: &dyn Fn(&mut Story)| {
            violated(&reference, &[FaultAction::ForeignDelete], |story| {
                story.notes.deleted.insert(config.clone());
                damage(story);
            })
        };
        let none: [&str; 0] = [];
        assert_eq!(found(&|story| recreate(story, &config, 1)), none);
        assert_eq!(found(&|story| recreate(story, &config, 2)), ["O2"]);
        let other = reference.story.counts.keys().find(|key| key.kind == Kind::Service);
        let other = other.expect("a Service should exist").clone();
        assert_eq!(found(&|story| recreate(story, &other, 1)), ["O2"]);
        for field in ["/metadata/labels", "/metadata/ownerReferences", "/data"] {
            let damage = |story: &mut Story| {
                let object =
                    story.stages[0].get_mut(&config.to_string()).expect("the object should exist");
                *object.pointer_mut(field).expect("the object should have this field") =
                    json!({ "not": "so" });
            };
            assert_eq!(found(&damage), ["O1"], "{field}");
        }
    }

    #[test]
    fn foreign_value_may_stand_only_where_it_is_kept() {
        let field = "/spec/progressDeadlineSeconds";
        let judged = |workload: &str| {
            let reference = learn_alone(Workload::named(workload).expect("a workload"));
            let mut keys = reference.story.counts.keys();
            let key = keys.find(|key| key.kind == Kind::Deployment);
            let key = key.expect("a Deployment should exist").clone();
            violated(&reference, &[FaultAction::ForeignTakeOver(Side::After)], |story| {
                story.notes.taken.insert((key.clone(), "a uid".to_owned()), field);
                let stage = &mut story.stages[0];
                let object = stage.get_mut(&key.to_string()).expect("the object should exist");
                *object.pointer_mut(field).expect("the field should be set") = json!(99);
            })
        };
        assert_eq!(judged("web"), ["O1"]);
        assert_eq!(judged("drift-propose"), ["O1"]);
        let none: [&str; 0] = [];
        assert_eq!(judged("drift-keep"), none);
        assert_eq!(judged("drift-ignore"), none);
    }
}
