//! What an executor remembers about drift: what stands, when fields were reverted, and what was
//! decided since its orders were loaded.
//!
//! The database has the same, from the reports. It is the authority: a new order brings its
//! decisions. Rounds of a fight that are not recorded yet are carried over.

use std::collections::BTreeMap;

use jiff::Timestamp;
use trueup_model::drift::{
    Divergence, DivergenceState, DriftOrder, FIGHT_ROUNDS, FIGHT_WINDOW, FieldDecision, FieldRef,
    PROPOSAL_LIFETIME,
};
use trueup_model::report::ObjectChange;
use trueup_rules::drift::decide::{covers, decision};

/// What a pass learned about drift.
#[derive(Debug, Default)]
pub(crate) struct PassDrift {
    /// The differences that stand, by key and field.
    standing: Vec<Divergence>,
    learned: Learned,
}

/// What a pass adds to the order of its unit.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    rounds: Vec<(FieldRef, Timestamp)>,
    decisions: BTreeMap<FieldRef, FieldDecision>,
}

impl PassDrift {
    /// Begins with what stood after the last pass: a pass that makes no plan does not change it.
    pub(crate) fn after(standing: &[Divergence]) -> Self {
        Self { standing: standing.to_vec(), learned: Learned::default() }
    }

    /// Takes what stands by a new plan. Values that are kept for the first time are decided about,
    /// so that they stay when the rounds are forgotten, and that a proposal expires.
    pub(crate) fn note_plan(
        &mut self,
        drift: &mut DriftOrder,
        standing: Vec<Divergence>,
        now: Timestamp,
    ) {
        for divergence in &standing {
            let at = field_ref(divergence);
            let Some(kept) = kept_by(divergence.state, now) else { continue };
            if decision(drift, &at, now).is_none() {
                drift.fields.insert(at.clone(), kept);
                self.learned.decisions.insert(at, kept);
            }
        }
        self.standing = standing;
    }

    /// Records a completed write: what it reverted stands no longer, and counts as a round.
    pub(crate) fn note_change(
        &mut self,
        drift: &mut DriftOrder,
        change: &ObjectChange,
        now: Timestamp,
    ) {
        for at in reverted(change) {
            self.standing.retain(|one| {
                one.state != DivergenceState::Open || (&one.key, &one.field) != (&at.key, &at.field)
            });
            add_round(drift, at.clone(), now);
            self.learned.rounds.push((at, now));
        }
        forget_old_rounds(drift, now);
    }

    /// When the first decision expires that keeps a value which stands.
    pub(crate) fn expires_at(&self, drift: &DriftOrder, now: Timestamp) -> Option<Timestamp> {
        let kept = self.standing.iter().filter(|one| one.state != DivergenceState::Open);
        kept.filter_map(|one| match decision(drift, &field_ref(one), now)? {
            FieldDecision::Proposed { until } => Some(until),
            FieldDecision::Ignore { until } => until,
            FieldDecision::InConflict | FieldDecision::Enforce { .. } => None,
        })
        .min()
    }

    /// What stands, and what the order of the unit has to learn.
    pub(crate) fn finish(self) -> (Vec<Divergence>, Learned) {
        (self.standing, self.learned)
    }
}

impl Learned {
    /// Adds it to the order that the unit has now. A decision of the database stays.
    pub(crate) fn merge_into(self, drift: &mut DriftOrder) {
        for (at, time) in self.rounds {
            add_round(drift, at, time);
        }
        for (at, decision) in self.decisions {
            drift.fields.entry(at).or_insert(decision);
        }
    }
}

/// Carries rounds over from the order that a new one replaces.
///
/// The database may have the same round at a slightly different time, so the longer list counts
/// instead of both.
pub(super) fn carry_over(drift: &mut DriftOrder, former: &DriftOrder, now: Timestamp) {
    for (at, times) in &former.rounds {
        let times: Vec<Timestamp> =
            times.iter().copied().filter(|it| is_recent(*it, now)).collect();
        let known = drift.rounds.entry(at.clone()).or_default();
        if times.len() > known.len() {
            *known = times;
        }
    }
    drift.rounds.retain(|_, times| !times.is_empty());
}

/// Forgets proposals whose value no longer stands: the next edit is a new one.
pub(super) fn forget_ended(drift: &mut DriftOrder, standing: &[Divergence]) {
    drift.fields.retain(|at, decision| {
        let stands = |one: &Divergence| one.key == at.key && covers(&at.field, &one.field);
        !matches!(decision, FieldDecision::Proposed { .. }) || standing.iter().any(stands)
    });
}

/// The decision that keeps a value in this state.
fn kept_by(state: DivergenceState, now: Timestamp) -> Option<FieldDecision> {
    match state {
        DivergenceState::InConflict => Some(FieldDecision::InConflict),
        DivergenceState::Proposed => {
            let until = now.checked_add(PROPOSAL_LIFETIME).unwrap_or(Timestamp::MAX);
            Some(FieldDecision::Proposed { until })
        }
        DivergenceState::Open
        | DivergenceState::Ignored
        | DivergenceState::Reverted
        | DivergenceState::Adopted
        | DivergenceState::Restored
        | DivergenceState::Superseded
        | DivergenceState::Rejected
        | DivergenceState::Expired => None,
    }
}

/// The fields that a write reverted; a deleted object is the empty field.
fn reverted(change: &ObjectChange) -> Vec<FieldRef> {
    match change {
        ObjectChange::ModifiedExternally { fields, .. } => fields.iter().map(field_ref).collect(),
        ObjectChange::DeletedExternally { key } => {
            vec![FieldRef { key: key.clone(), field: String::new() }]
        }
        ObjectChange::Created { .. }
        | ObjectChange::Updated { .. }
        | ObjectChange::Removed { .. } => Vec::new(),
    }
}

fn field_ref(divergence: &Divergence) -> FieldRef {
    FieldRef { key: divergence.key.clone(), field: divergence.field.clone() }
}

/// Adds a round. Only as many are kept as make a fight.
fn add_round(drift: &mut DriftOrder, at: FieldRef, now: Timestamp) {
    let times = drift.rounds.entry(at).or_default();
    times.push(now);
    times.drain(..times.len().saturating_sub(FIGHT_ROUNDS));
}

fn forget_old_rounds(drift: &mut DriftOrder, now: Timestamp) {
    drift.rounds.retain(|_, times| times.iter().any(|time| is_recent(*time, now)));
}

fn is_recent(time: Timestamp, now: Timestamp) -> bool {
    now.duration_since(time) < FIGHT_WINDOW
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use trueup_model::drift::{DivergenceClass, Verdict};
    use trueup_model::key::{Kind, ResourceKey};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn replicas(state: DivergenceState) -> Divergence {
        Divergence {
            key: ResourceKey::new(Kind::Deployment, "shop", "web"),
            field: "spec.replicas".to_owned(),
            class: DivergenceClass::Edited,
            wanted: Value::Null,
            live: Value::Null,
            by: None,
            verdict: Verdict::Enforce,
            state,
        }
    }

    fn edited() -> ObjectChange {
        let reverted = replicas(DivergenceState::Reverted);
        ObjectChange::ModifiedExternally { key: reverted.key.clone(), fields: vec![reverted] }
    }

    fn rounds(drift: &DriftOrder) -> usize {
        drift.rounds.values().map(Vec::len).sum()
    }

    #[test]
    fn a_reverted_field_stands_no_longer_and_counts_as_a_round() {
        let mut drift = DriftOrder::default();
        let mut pass = PassDrift::default();
        pass.note_plan(&mut drift, vec![replicas(DivergenceState::Open)], at(0));
        for second in 0..9 {
            pass.note_change(&mut drift, &edited(), at(second));
        }
        assert_eq!(rounds(&drift), FIGHT_ROUNDS, "more rounds change nothing");
        let (standing, learned) = pass.finish();
        assert_eq!(standing, []);
        let mut slot = DriftOrder::default();
        learned.merge_into(&mut slot);
        assert_eq!(slot.rounds, drift.rounds);
    }

    #[test]
    fn a_round_that_the_database_has_as_well_counts_once() {
        let field = field_ref(&replicas(DivergenceState::Open));
        let with = |times: &[i64]| DriftOrder {
            rounds: BTreeMap::from([(field.clone(), times.iter().map(|it| at(*it)).collect())]),
            ..DriftOrder::default()
        };
        let table: [(&[i64], &[i64], &[i64]); 4] = [
            (&[100, 200], &[101, 201], &[101, 201]),
            (&[100, 200], &[101], &[100, 200]),
            (&[100], &[101, 201], &[101, 201]),
            (&[-900, -800, -700], &[201], &[201]),
        ];
        for (former, loaded, expected) in table {
            let mut drift = with(loaded);
            carry_over(&mut drift, &with(former), at(300));
            assert_eq!(drift, with(expected), "{former:?} {loaded:?}");
        }
    }

    #[test]
    fn decisions_of_the_database_come_before_those_of_a_pass() {
        let mut seen = DriftOrder::default();
        let mut pass = PassDrift::default();
        let fight = vec![replicas(DivergenceState::InConflict)];
        pass.note_plan(&mut seen, fight.clone(), at(0));
        let field = field_ref(&fight[0]);
        assert_eq!(seen.fields, BTreeMap::from([(field.clone(), FieldDecision::InConflict)]));
        let ours = FieldDecision::Enforce { until: None };
        let mut slot =
            DriftOrder { fields: BTreeMap::from([(field.clone(), ours)]), ..DriftOrder::default() };
        let (_, learned) = pass.finish();
        learned.merge_into(&mut slot);
        assert_eq!(slot.fields[&field], ours);
    }

    #[test]
    fn a_proposal_is_forgotten_once_its_value_is_gone() {
        let mut drift = DriftOrder::default();
        let mut pass = PassDrift::default();
        let proposed = vec![replicas(DivergenceState::Proposed)];
        pass.note_plan(&mut drift, proposed.clone(), at(0));
        let until = at(0).checked_add(PROPOSAL_LIFETIME).unwrap();
        assert_eq!(pass.expires_at(&drift, at(0)), Some(until));
        // A later plan does not prolong it.
        pass.note_plan(&mut drift, proposed.clone(), at(500));
        assert_eq!(pass.expires_at(&drift, at(500)), Some(until));
        forget_ended(&mut drift, &proposed);
        assert_eq!(drift.fields.len(), 1);
        forget_ended(&mut drift, &[]);
        assert!(drift.fields.is_empty());
    }
}
