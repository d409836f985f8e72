//! Generates plans: every fault at every place of the reference run where it can matter.

use trueup_model::key::Kind;

use super::journal::Target;
use super::learn::Reference;
use super::notes::Notes;
use super::orders;
use super::outside;
use super::plan::{Ends, Failure, FaultAction, FaultPlan, Side, Trigger};
use crate::fake_cluster::Verb;

/// How many events of a kind get plans: the first and the last ones.
const EVENTS: usize = 8;
/// The same for [`Depth::Few`].
const FEW_EVENTS: usize = 2;
/// How many reads get plans.
const READS: usize = 4;

/// How many plans a workload gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Everything, including the creation of the project, which is the same in all workloads.
    Whole,
    /// Everything that concerns the service.
    Full,
    /// Only the faults that found most defects, at every write.
    Few,
}

/// All plans for a workload.
#[must_use]
pub fn plans(reference: &Reference, depth: Depth) -> Vec<FaultPlan> {
    let mut plans = writes(reference, depth);
    plans.extend(points(reference, depth == Depth::Whole));
    plans.extend(events(reference, depth));
    plans.extend(lease_ends_while_reading(reference));
    if depth != Depth::Few {
        plans.extend(reads(reference));
    }
    plans
}

/// Faults at every write that had an effect.
fn writes(reference: &Reference, depth: Depth) -> Vec<FaultPlan> {
    let name = reference.workload.name;
    let notes = &reference.story.notes;
    let last = notes.calls.len();
    let project = orders::project_keys();
    let calls = notes.calls.iter().enumerate();
    calls
        .filter(|(_, call)| call.effect.is_some())
        .filter(|(_, call)| {
            depth == Depth::Whole || call.verb == Verb::Delete || !project.contains(&call.key)
        })
        .flat_map(|(index, call)| {
            let (number, title) = (index + 1, call.title());
            let one = |then| FaultPlan::one(name, Trigger::Write(number), then, title.clone());
            let stale = FaultAction::Stale(40);
            let mut plans: Vec<FaultPlan> = actions(call.key.kind, depth)
                .into_iter()
                .filter(|action| can_matter(notes, number, action))
                .map(one)
                .collect();
            // The recovering process crashes at its first write, too.
            if number < last && depth != Depth::Few {
                let second = FaultAction::Crash(Side::After);
                plans.push(one(second.clone()).and(Trigger::Write(number + 1), second));
            }
            // The process restarts with a stale view.
            if index > 0 {
                let before = FaultPlan::one(name, Trigger::Write(number - 1), stale, title.clone());
                plans.push(before.and(Trigger::Write(number), FaultAction::Crash(Side::After)));
            }
            plans
        })
        .collect()
}

fn actions(kind: Kind, depth: Depth) -> Vec<FaultAction> {
    if depth == Depth::Few {
        return vec![
            FaultAction::Crash(Side::After),
            FaultAction::Lose(Failure::Unanswered),
            FaultAction::Fail(Failure::Conflict, 5),
            FaultAction::ForeignEdit,
            FaultAction::ForeignDelete,
            FaultAction::ForeignRelabel,
            FaultAction::ForeignTakeOver(Side::Before),
            FaultAction::ForeignTakeOver(Side::After),
            FaultAction::LeaseEnds(40),
            FaultAction::Refuse(kind, 90),
        ];
    }
    vec![
        FaultAction::Crash(Side::Before),
        FaultAction::Crash(Side::After),
        FaultAction::Lose(Failure::Unanswered),
        FaultAction::Lose(Failure::Server),
        FaultAction::Fail(Failure::Unreachable, 1),
        FaultAction::Fail(Failure::Server, 3),
        FaultAction::Fail(Failure::Conflict, 5),
        FaultAction::Fail(Failure::Throttled, 2),
        FaultAction::Fail(Failure::Refused, 2),
        FaultAction::Fail(Failure::Forbidden, 1),
        FaultAction::Hang(Side::Before),
        FaultAction::Hang(Side::After),
        FaultAction::ForeignEdit,
        FaultAction::ForeignDelete,
        FaultAction::ForeignRelabel,
        FaultAction::ForeignTakeOver(Side::Before),
        FaultAction::ForeignTakeOver(Side::After),
        FaultAction::LeaseEnds(40),
        FaultAction::Away(120),
        FaultAction::Flap(6),
        FaultAction::Refuse(kind, 90),
        FaultAction::Stale(40),
    ]
}

/// A crash at every crash point that was reached.
fn points(reference: &Reference, from_start: bool) -> Vec<FaultPlan> {
    let name = reference.workload.name;
    let project = orders::project_keys();
    let of_project = reference
        .story
        .notes
        .calls
        .iter()
        .filter(|call| call.effect.is_some() && project.contains(&call.key))
        .count();
    reference
        .story
        .notes
        .points
        .iter()
        .flat_map(|(point, hits)| {
            let first =
                if from_start || !point.starts_with("executor.appl") { 0 } else { of_project };
            (first..*hits).map(move |hit| {
                let at = Trigger::Point((*point).to_owned(), hit + 1);
                FaultPlan::one(
                    name,
                    at,
                    FaultAction::Crash(Side::After),
                    format!("{point}, hit {}", hit + 1),
                )
            })
        })
        .collect()
}

/// The lease ends during the read right before a write.
fn lease_ends_while_reading(reference: &Reference) -> impl Iterator<Item = FaultPlan> {
    reference.story.notes.reads_before_writes().map(|number| {
        let about = "a read right before a write".to_owned();
        FaultPlan::one(
            reference.workload.name,
            Trigger::Get(number),
            FaultAction::LeaseEnds(40),
            about,
        )
    })
}

fn reads(reference: &Reference) -> Vec<FaultPlan> {
    let name = reference.workload.name;
    let broken = || {
        [
            FaultAction::Crash(Side::Before),
            FaultAction::Fail(Failure::Server, 2),
            FaultAction::Fail(Failure::Forbidden, 1),
            FaultAction::Hang(Side::Before),
        ]
    };
    let gets = spread(reference.story.notes.gets, READS).into_iter().flat_map(|number| {
        broken()
            .map(|then| FaultPlan::one(name, Trigger::Get(number), then, "a fresh read".to_owned()))
    });
    let lists = [Kind::Namespace, Kind::ConfigMap, Kind::Pod].into_iter().flat_map(|kind| {
        let at = move || Trigger::List(kind, 1);
        broken()
            .map(move |then| FaultPlan::one(name, at(), then, format!("the first list of {kind}")))
    });
    gets.chain(lists).collect()
}

fn events(reference: &Reference, depth: Depth) -> Vec<FaultPlan> {
    let name = reference.workload.name;
    let mut plans = Vec::new();
    for (kind, count) in &reference.story.notes.events {
        for number in spread(*count, if depth == Depth::Few { FEW_EVENTS } else { EVENTS }) {
            let about = format!("event {number} of {kind}");
            let one =
                |then| FaultPlan::one(name, Trigger::Event(*kind, number), then, about.clone());
            let few = [
                FaultAction::Crash(Side::After),
                FaultAction::Drop(10),
                FaultAction::Silence(40, Ends::Expired),
                FaultAction::Stale(40),
            ];
            plans.extend(few.into_iter().map(one));
            if depth != Depth::Few {
                let more = [
                    FaultAction::Twice,
                    FaultAction::Drop(0),
                    FaultAction::Silence(40, Ends::Late),
                    FaultAction::Silence(25, Ends::Broken),
                    FaultAction::Away(40),
                ];
                plans.extend(more.into_iter().map(one));
            }
        }
    }
    plans
}

/// Up to `most` of the numbers from 1 to `last`: half from the start, half from the end.
fn spread(last: usize, most: usize) -> Vec<usize> {
    let half = most / 2;
    (1..=last).filter(|number| *number <= half || *number + half > last).collect()
}

/// Whether a fault at this write can make a difference.
fn can_matter(notes: &Notes, number: usize, action: &FaultAction) -> bool {
    let target = notes.calls[number - 1].target;
    let mut later = notes.after(&Trigger::Write(number));
    match action {
        FaultAction::ForeignEdit => target != Target::Absent,
        FaultAction::ForeignDelete | FaultAction::ForeignRelabel => target == Target::Present,
        FaultAction::ForeignTakeOver(side) => {
            outside::can_take_over(&notes.calls[number - 1], *side)
        }
        // Without a later write there is nothing to block.
        FaultAction::LeaseEnds(_) => later.any(|at| notes.has_effect(at)),
        // Secrets are not watched, so no watch can be stale.
        FaultAction::Stale(_) => {
            notes.calls[number - 1].key.kind != Kind::Secret
                || later.any(|at| notes.has_effect(at) || matches!(at, Trigger::Event(..)))
        }
        _ => true,
    }
}
