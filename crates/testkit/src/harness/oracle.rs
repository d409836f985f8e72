//! Oracles: what must hold after every plan. Each complaint begins with the number of its oracle.
//!
//! O1 the end is the same · O2 so is the number of creates and deletes of every key · O3 what carries
//! our label is known · O4 nothing is taken away that should stay, and nothing without a guard · O5 nothing
//! is sent after the lease is over · O6 generations never go back · O7 it gets there without a hot loop, and then
//! nothing is written · O10 no panic, no task and no work left over · O11 what was planned to go wrong had an
//! effect, if its place came · O12 a deletion receipt says what happened · F05 policies stand before workloads.
//!
//! What an earlier process may have in flight is seen while a run goes on (O3, O5, O6, O10, O12, F05: see
//! `executor_world.rs` and `layer.rs`); the rest is judged here.

use std::collections::{BTreeMap, BTreeSet};

use trueup_model::key::{Kind, ResourceKey};

use super::learn::Reference;
use super::plan::{FaultAction, FaultPlan};
use super::run::Story;
use super::stage::{Stage, compare, neutral, without_generations, without_identity};
use crate::fake_cluster::Count;

/// Everything that is wrong about a run.
#[must_use]
pub fn judge(reference: &Reference, plan: &FaultPlan, story: &Story) -> Vec<String> {
    let mut wrong = story.wrong.clone();
    wrong.extend(same_stages(reference, story));
    wrong.extend(same_counts(reference, story));
    wrong.extend(nothing_destroyed(reference, story));
    wrong.extend(quiet(reference, plan, story));
    for (fault, fired) in plan.faults.iter().zip(&story.fired) {
        // Tasks take turns by chance, so a run may end a call or two short of the one it was planned from.
        if !fired && story.notes.reached(&fault.at) {
            wrong.push(format!("O11: had no effect: {fault:?}"));
        }
    }
    wrong
}

/// O1.
///
/// What somebody deleted comes back as another object of the generation of now, with an anchor under its next
/// number; where steps do not wait for each other, it is open which of them writes an object. Uids, and digests
/// of what holds them, depend on the order in which services are worked on.
fn same_stages(reference: &Reference, story: &Story) -> Vec<String> {
    let workload = &reference.workload;
    let normal = |stage: &Stage| {
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

/// How often each key came and went, all numbers of an anchor together.
fn counts(story: &Story) -> BTreeMap<(Kind, String), Count> {
    let mut counts: BTreeMap<(Kind, String), Count> = BTreeMap::new();
    // The name of a volume is made of a uid, which counts everything that came before.
    for (key, count) in story.counts.iter().filter(|(key, _)| key.kind != Kind::PersistentVolume) {
        let sum = counts.entry(place(key)).or_default();
        sum.creates += count.creates;
        sum.deletes += count.deletes;
    }
    counts
}

/// Where an object stands: an anchor that was deleted comes back at the same place under its next number.
fn place(key: &ResourceKey) -> (Kind, String) {
    (key.kind, neutral(&key.name))
}

/// O2.
///
/// What somebody deleted may come and go once more, with what went along; nothing else may. Where steps do not
/// wait for each other, a fault decides which of them are carried out at all, but nothing is made twice.
fn same_counts(reference: &Reference, story: &Story) -> Vec<String> {
    let (expected, counted) = (counts(&reference.story), counts(story));
    let deleted: BTreeSet<(Kind, String)> = story.notes.deleted.iter().map(place).collect();
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
            (!is_right(key, usual, now)).then(|| format!("O2: {key:?}: {usual:?}, and now {now:?}"))
        })
        .collect()
}

/// O4.
fn nothing_destroyed(reference: &Reference, story: &Story) -> Vec<String> {
    let may_go: BTreeSet<(Kind, String)> = reference
        .story
        .notes
        .calls
        .iter()
        .filter(|call| call.is_destructive())
        .map(|call| place(&call.key))
        // What somebody else deleted is let go.
        .chain(story.notes.deleted.iter().map(place))
        .collect();
    let mut wrong = Vec::new();
    for call in story.notes.calls.iter().filter(|call| call.is_destructive()) {
        if call.uid.as_deref().is_none_or(str::is_empty) {
            wrong.push(format!("O4: {} is sent without a guard", call.title()));
        }
        if call.effect.is_some() && !may_go.contains(&place(&call.key)) {
            wrong.push(format!("O4: {} takes away what should stay", call.title()));
        }
        if let (Some(effect), Some(uid)) = (&call.effect, &call.uid)
            && effect.uid != *uid
        {
            wrong.push(format!("O4: {} met another incarnation", call.title()));
        }
    }
    wrong
}

/// O7.
fn quiet(reference: &Reference, plan: &FaultPlan, story: &Story) -> Vec<String> {
    let mut wrong = Vec::new();
    if !story.late_writes.is_empty() {
        wrong.push(format!("O7: written after everything was at rest: {:?}", story.late_writes));
    }
    let (usual, sent) = (reference.story.notes.calls.len(), story.notes.calls.len());
    let spare: usize = plan.faults.iter().map(|it| spare_writes(reference, story, &it.then)).sum();
    if sent > usual + spare + BY_CHANCE {
        let most = usual + spare + BY_CHANCE;
        wrong.push(format!("O7: {sent} writes were sent, {usual} are usual, {most} explained"));
    }
    wrong
}

/// How many writes more or less there are by chance: tasks take turns, and a pass may begin an event earlier.
const BY_CHANCE: usize = 2;

/// How many more writes a fault explains.
fn spare_writes(reference: &Reference, story: &Story, action: &FaultAction) -> usize {
    let round = reference.story.notes.widest_round();
    match action {
        // Every try sends its writes once more, and is turned away.
        FaultAction::Away(seconds) | FaultAction::Refuse(_, seconds) => tries(*seconds) * round,
        // Whenever the cluster returns, trying begins from the start.
        FaultAction::Flap(times) => tries(4) * round * usize::try_from(*times).unwrap_or_default(),
        FaultAction::Fail(_, times) => *times,
        // The write itself, and what follows from it.
        FaultAction::Crash(_) | FaultAction::Lose(_) | FaultAction::Hang(_) => 1,
        // What is there already is offered once more.
        FaultAction::Stale(_) => round,
        // It is put right; a guard that met the edit is tried again.
        FaultAction::ForeignEdit => 2,
        // Everything that went comes again; an anchor is let go, and its children change their owner.
        FaultAction::ForeignDelete => 2 * story.notes.deleted.len(),
        // Nothing is sent that would have to be sent again.
        FaultAction::LeaseEnds(_)
        | FaultAction::Silence(..)
        | FaultAction::Twice
        | FaultAction::Drop(_) => 0,
    }
}

/// How often something is tried in so many seconds: after half a second, then twice as long each time up to thirty, and
/// up to a quarter less of each.
fn tries(seconds: u64) -> usize {
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
    use super::super::plan::Trigger;
    use super::super::workload::Workload;
    use super::*;

    #[test]
    fn tries_double_their_pauses_up_to_a_limit() {
        assert_eq!((tries(0), tries(1), tries(4), tries(24)), (1, 2, 4, 7));
        assert_eq!((tries(90), tries(120)), (9, 11));
    }

    /// The oracles that complain about a run of `web` with this damage.
    fn complaints(
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
        keys.find(|key| key.name.ends_with("-config")).expect("there should be one").clone()
    }

    fn come_and_go(story: &mut Story, key: &ResourceKey, times: u32) {
        let count = story.counts.get_mut(key).expect("it should be counted");
        count.creates += times;
        count.deletes += times;
    }

    #[test]
    fn damage_to_a_run_is_reported_by_its_oracle() {
        let reference = learn_alone(Workload::named("web").expect("a workload"));
        let config = config(&reference);
        let none: [&str; 0] = [];
        let found = |damage: &dyn Fn(&mut Story)| complaints(&reference, &[], damage);
        assert_eq!(found(&|_| ()), none);
        let set = |story: &mut Story, field: &str| {
            let object = story.stages[0].get_mut(&config.to_string()).expect("it should stand");
            *object.pointer_mut(field).expect("it should have this field") = json!({ "not": "so" });
        };
        for field in ["/metadata/labels", "/metadata/ownerReferences", "/data"] {
            assert_eq!(found(&|story| set(story, field)), ["O1"], "{field}");
        }
        assert_eq!(found(&|story| _ = story.stages[1].remove(&config.to_string())), ["O1"]);
        assert_eq!(found(&|story| come_and_go(story, &config, 1)), ["O2"]);
        assert_eq!(found(&|story| story.late_writes.push("apply".to_owned())), ["O7"]);
        let unguarded = |story: &mut Story| {
            let mut deletes = story.notes.calls.iter_mut().filter(|call| call.is_destructive());
            deletes.next().expect("something should be deleted").uid = None;
        };
        assert_eq!(found(&unguarded), ["O4"]);
        let once_more = |story: &mut Story| {
            let sent = story.notes.calls[0].clone();
            story.notes.calls.extend(std::iter::repeat_n(sent, BY_CHANCE + 1));
        };
        assert_eq!(found(&once_more), ["O7"]);
        let lost = [FaultAction::Lose(super::super::plan::Failure::Server)];
        assert_eq!(complaints(&reference, &lost, once_more), none, "the fault explains one");
        assert_eq!(complaints(&reference, &lost, |story| story.fired = vec![false]), ["O11"]);
    }

    #[test]
    fn foreign_delete_explains_one_more_create_of_what_it_took_and_no_other_change() {
        let reference = learn_alone(Workload::named("web").expect("a workload"));
        let config = config(&reference);
        let found = |damage: &dyn Fn(&mut Story)| {
            complaints(&reference, &[FaultAction::ForeignDelete], |story| {
                story.notes.deleted.insert(config.clone());
                damage(story);
            })
        };
        let none: [&str; 0] = [];
        assert_eq!(found(&|story| come_and_go(story, &config, 1)), none);
        assert_eq!(found(&|story| come_and_go(story, &config, 2)), ["O2"]);
        let other = reference.story.counts.keys().find(|key| key.kind == Kind::Service);
        let other = other.expect("there should be one").clone();
        assert_eq!(found(&|story| come_and_go(story, &other, 1)), ["O2"]);
        for field in ["/metadata/labels", "/metadata/ownerReferences", "/data"] {
            let damage = |story: &mut Story| {
                let object = story.stages[0].get_mut(&config.to_string()).expect("it should stand");
                *object.pointer_mut(field).expect("it should have this field") =
                    json!({ "not": "so" });
            };
            assert_eq!(found(&damage), ["O1"], "{field}");
        }
    }
}
