//! Oracles: what must hold after every plan. Each complaint begins with the number of its oracle.
//!
//! O1 the end is the same · O2 so is the number of creates and deletes of every key · O3 what carries
//! our label is known · O4 nothing is taken away that should stay, and nothing without a guard · O6
//! generations never go back · O7 it gets there, and then nothing is written · O10 no panic, no task
//! and no work left over · O11 what was planned to go wrong did, if its place came.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};

use super::learn::{Reference, differences};
use super::plan::{Action, Plan};
use super::run::Story;

/// How many more writes than without faults are still no hot loop.
const SPARE_WRITES: usize = 80;

/// Everything that is wrong about a run.
#[must_use]
pub fn judge(reference: &Reference, plan: &Plan, story: &Story) -> Vec<String> {
    let mut wrong = story.wrong.clone();
    if plan.faults.iter().any(|fault| fault.then == Action::ForeignDelete) {
        // What somebody deletes comes once more, and an anchor under its next name.
        wrong.extend(same_specs(reference, story));
    } else {
        wrong.extend(same_stages(reference, story));
        wrong.extend(same_counts(reference, story));
    }
    wrong.extend(nothing_destroyed(reference, story));
    wrong.extend(policies_first(story));
    wrong.extend(quiet(reference, story));
    for (fault, fired) in plan.faults.iter().zip(&story.fired) {
        // Tasks take turns by chance, so a run may end a call or two short of the one it was planned from.
        if !fired && story.notes.reached(&fault.at) {
            wrong.push(format!("O11: did not happen: {fault:?}"));
        }
    }
    wrong
}

/// O1.
fn same_stages(reference: &Reference, story: &Story) -> Vec<String> {
    let mut wrong = Vec::new();
    let stages = reference.story.stages.iter().zip(&story.stages);
    for (number, (expected, stage)) in stages.enumerate() {
        let (expected, stage) = (reference.masked(expected), reference.masked(stage));
        let keys: BTreeSet<&String> = expected.keys().chain(stage.keys()).collect();
        for key in keys {
            match (expected.get(key), stage.get(key)) {
                (Some(one), Some(other)) => {
                    for field in differences(one, other, String::new()) {
                        let (one, other) = (one.pointer(&field), other.pointer(&field));
                        wrong.push(format!(
                            "O1: after step {number} {key} differs at {field}: {one:?}, and now {other:?}"
                        ));
                    }
                }
                (Some(_), None) => wrong.push(format!("O1: after step {number} {key} is missing")),
                (None, Some(_)) => {
                    wrong.push(format!("O1: after step {number} {key} is left over"))
                }
                (None, None) => {}
            }
        }
    }
    wrong
}

/// O1 for what comes back under another name: as many objects of each kind, with the same specs.
fn same_specs(reference: &Reference, story: &Story) -> Vec<String> {
    let specs = |stage: &BTreeMap<String, Value>| -> Vec<(String, Value)> {
        let kind = |key: &String| key.split('/').next().unwrap_or_default().to_owned();
        let spec = |object: &Value| {
            let mut spec = object["spec"].clone();
            if object["kind"] == "Job" {
                // The server finds a Job's pods by its uid, which counts everything that came before.
                spec["selector"] = Value::Null;
                spec["template"]["metadata"]["labels"] = Value::Null;
            }
            spec
        };
        stage.iter().map(|(key, object)| (kind(key), spec(object))).collect()
    };
    let stages = reference.story.stages.iter().zip(&story.stages).enumerate();
    stages
        .filter(|(_, (expected, stage))| specs(expected) != specs(stage))
        .map(|(number, (expected, stage))| {
            let keys = |stage: &BTreeMap<String, Value>| format!("{:?}", stage.keys());
            format!("O1: after step {number}: {}, and now {}", keys(expected), keys(stage))
        })
        .collect()
}

/// O2.
fn same_counts(reference: &Reference, story: &Story) -> Vec<String> {
    let keys: BTreeSet<&ResourceKey> =
        reference.story.counts.keys().chain(story.counts.keys()).collect();
    keys.into_iter()
        // Its name is made of a uid, which counts everything that came before.
        .filter(|key| key.kind != Kind::PersistentVolume)
        .filter_map(|key| {
            let read = |story: &Story| story.counts.get(key).copied().unwrap_or_default();
            let (expected, counted) = (read(&reference.story), read(story));
            (expected != counted).then(|| format!("O2: {key}: {expected:?}, and now {counted:?}"))
        })
        .collect()
}

/// O4.
fn nothing_destroyed(reference: &Reference, story: &Story) -> Vec<String> {
    // An anchor that somebody deleted comes back under its next number.
    let place = |key: &ResourceKey| {
        let name = key.name.trim_end_matches(|end: char| end.is_ascii_digit());
        let is_anchor = name.ends_with("-anchor-");
        (key.kind, if is_anchor { name.to_owned() } else { key.name.clone() })
    };
    let may_go: BTreeSet<(Kind, String)> = reference
        .story
        .notes
        .calls
        .iter()
        .filter(|call| call.is_destructive())
        .map(|call| place(&call.key))
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

/// F05: no workload before the policies of its namespace.
fn policies_first(story: &Story) -> Vec<String> {
    let mut made: BTreeSet<(Kind, &str)> = BTreeSet::new();
    let mut wrong = Vec::new();
    for effect in story.notes.calls.iter().filter_map(|call| call.effect.as_ref()) {
        let key = &effect.key;
        if effect.created && key.kind.is_workload() {
            for kind in [Kind::NetworkPolicy, Kind::ResourceQuota, Kind::LimitRange] {
                if !made.contains(&(kind, key.namespace.as_str())) {
                    wrong.push(format!("O1: {key} was made before any {kind}"));
                }
            }
        }
        if effect.created {
            made.insert((key.kind, key.namespace.as_str()));
        }
    }
    wrong
}

/// O7.
fn quiet(reference: &Reference, story: &Story) -> Vec<String> {
    let mut wrong = Vec::new();
    if !story.late_writes.is_empty() {
        wrong.push(format!("O7: written after everything was at rest: {:?}", story.late_writes));
    }
    let (usual, sent) = (reference.story.notes.calls.len(), story.notes.calls.len());
    if sent > usual * 2 + SPARE_WRITES {
        wrong.push(format!("O7: {sent} writes were sent where {usual} are usual"));
    }
    wrong
}
