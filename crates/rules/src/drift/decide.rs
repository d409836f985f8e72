//! Whether a field that differs is reverted or kept.
//!
//! Decisions about single fields come first, then the policies. A field that was reverted too often
//! is in conflict: it is kept until a person decides. Deleted objects, and fields that carry
//! ownership, isolation or security, are always reverted; in a [fight](super::fight) with pauses.

use jiff::Timestamp;
use serde_json::Value;
use trueup_model::drift::{
    AdoptMode, DivergenceState, DriftOrder, DriftPolicy, DriftRule, FieldDecision, FieldRef,
    Verdict,
};
use trueup_model::key::{Kind, ResourceKey};

use crate::drift::admit::{holds_protected, is_protected};
use crate::drift::fight::is_fight;

/// What happens to a field that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handling {
    /// The desired value is written.
    Revert {
        /// The verdict. With `adopt`, the live value is proposed although it is reverted.
        verdict: Verdict,
    },
    /// The live value stays.
    Keep {
        /// The verdict.
        verdict: Verdict,
        /// Why it stays: ignored, proposed or in conflict.
        state: DivergenceState,
    },
}

/// What happens to this field, which differs now.
#[must_use]
pub fn decide(drift: &DriftOrder, at: &FieldRef, now: Timestamp) -> Handling {
    let enforce = Handling::Revert { verdict: Verdict::Enforce };
    // A fight does not stop this either: otherwise three edits would open a project to others.
    if at.field.is_empty() || is_protected(at.key.kind, &at.field).is_some() {
        return enforce;
    }
    let verdict = verdict(&drift.policies, at);
    let keep = |verdict, state| Handling::Keep { verdict, state };
    match decision(drift, at, now) {
        Some(FieldDecision::InConflict) => return keep(verdict, DivergenceState::InConflict),
        Some(FieldDecision::Ignore { .. }) => {
            return keep(Verdict::Ignore, DivergenceState::Ignored);
        }
        Some(FieldDecision::Proposed { until }) if now < until => {
            return keep(Verdict::Adopt, DivergenceState::Proposed);
        }
        // The proposal expired: another one would keep the value for ever.
        Some(FieldDecision::Proposed { .. } | FieldDecision::Enforce { .. }) => return enforce,
        None => {}
    }
    match (verdict, adopt_mode(&drift.policies)) {
        (Verdict::Ignore, _) => keep(verdict, DivergenceState::Ignored),
        (Verdict::Enforce | Verdict::Adopt, _) if is_fight(drift, at, now) => {
            keep(verdict, DivergenceState::InConflict)
        }
        (Verdict::Enforce, _) | (Verdict::Adopt, AdoptMode::Propose) => {
            Handling::Revert { verdict }
        }
        (Verdict::Adopt, AdoptMode::Keep | AdoptMode::Automatic) => {
            keep(verdict, DivergenceState::Proposed)
        }
    }
}

/// Why a field is always enforced, if it is: nothing that is decided about it has an effect. The
/// empty path is the object as a whole.
#[must_use]
pub fn why_enforced(kind: Kind, field: &str, live: Option<&Value>) -> Option<&'static str> {
    if field.is_empty() {
        return Some("a deleted object is always created again");
    }
    let holds = || live.is_some_and(|live| holds_protected(kind, field, live));
    is_protected(kind, field)
        .or_else(|| holds().then_some("it holds fields that limit what a container may do"))
}

/// The verdict of these policies about a field: that of the first policy with an answer.
#[must_use]
pub fn verdict(policies: &[DriftPolicy], at: &FieldRef) -> Verdict {
    policies.iter().find_map(|policy| answer(policy, at)).unwrap_or_default()
}

/// How values are adopted: as the first policy says that says anything about it.
#[must_use]
pub fn adopt_mode(policies: &[DriftPolicy]) -> AdoptMode {
    policies.iter().find_map(|policy| policy.adopt).unwrap_or_default()
}

/// The decision about a field or about what contains it; the nearest one counts.
///
/// A decision to ignore or enforce a field does not count once it has expired. A proposal does:
/// its value is reverted then.
#[must_use]
pub fn decision(drift: &DriftOrder, at: &FieldRef, now: Timestamp) -> Option<FieldDecision> {
    let holds = |decision: FieldDecision| match decision {
        FieldDecision::InConflict | FieldDecision::Proposed { .. } => true,
        FieldDecision::Ignore { until } | FieldDecision::Enforce { until } => {
            until.is_none_or(|until| now < until)
        }
    };
    let covering = drift.fields.iter().filter(|(field, _)| includes(field, at));
    covering
        .filter(|(_, decision)| holds(**decision))
        .max_by_key(|(field, _)| field.field.len())
        .map(|(_, decision)| *decision)
}

/// Whether a value in this object may be kept. Such an object is written only at the version that
/// was compared, so that a value which another writer sets meanwhile is not overwritten.
#[must_use]
pub fn may_keep(drift: &DriftOrder, key: &ResourceKey) -> bool {
    let mut decided = drift.fields.keys().chain(drift.rounds.keys());
    policies_keep(drift, |rule| rule.kind.is_none_or(|kind| kind == key.kind))
        || decided.any(|at| at.key == *key)
}

/// Whether any value may be kept.
#[must_use]
pub fn may_keep_any(drift: &DriftOrder) -> bool {
    policies_keep(drift, |_| true) || !drift.fields.is_empty() || !drift.rounds.is_empty()
}

/// Whether a policy, or a rule that is asked for, keeps values.
fn policies_keep(drift: &DriftOrder, is_asked: impl Fn(&DriftRule) -> bool) -> bool {
    let adopted_stay = adopt_mode(&drift.policies) != AdoptMode::Propose;
    let keeps = |verdict: Verdict| match verdict {
        Verdict::Enforce => false,
        Verdict::Adopt => adopted_stay,
        Verdict::Ignore => true,
    };
    drift.policies.iter().any(|policy| {
        policy.verdict.is_some_and(keeps)
            || policy.rules.iter().any(|rule| is_asked(rule) && keeps(rule.verdict))
    })
}

/// Whether a path is the field itself or contains it. Names may have dots, so `data.a` also covers
/// the entry `a.b` of `data`. The empty path is the object as a whole and covers only itself.
#[must_use]
pub fn covers(path: &str, field: &str) -> bool {
    match field.strip_prefix(path) {
        Some("") => true,
        Some(rest) => !path.is_empty() && rest.starts_with('.'),
        None => false,
    }
}

/// The answer of one policy: the rule with the longest matching path, then one with a kind, then
/// the policy's own verdict.
fn answer(policy: &DriftPolicy, at: &FieldRef) -> Option<Verdict> {
    let matching = policy.rules.iter().filter(|rule| matches(rule, at));
    // Backwards: of two equal rules the first one counts.
    let nearest = matching.rev().max_by_key(|rule| {
        let length = rule.path.as_ref().map_or(0, String::len);
        (length, rule.kind.is_some())
    });
    nearest.map(|rule| rule.verdict).or(policy.verdict)
}

fn matches(rule: &DriftRule, at: &FieldRef) -> bool {
    rule.kind.is_none_or(|kind| kind == at.key.kind)
        && rule.path.as_deref().is_none_or(|path| covers(path, &at.field))
}

pub(super) fn includes(outer: &FieldRef, inner: &FieldRef) -> bool {
    outer.key == inner.key && covers(&outer.field, &inner.field)
}
