//! What a report adds to the event log: each thing that happened once, with what caused it.

use trueup_model::event::{Fact, Source};
use trueup_model::key::ResourceKey;
use trueup_model::order::Unit;
use trueup_model::receipt::{Force, ProofLevel, Receipt};
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::status::{Inputs, Phase, Status};

/// A fact that a report tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDraft {
    /// Who or what it comes from.
    pub source: Source,
    /// The fact.
    pub fact: Fact,
    /// What caused it.
    pub cause: Cause,
}

/// What caused a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Somebody asked for the generation that the report speaks of.
    Asked,
    /// The fact at this place in the same list.
    Draft(usize),
    /// Something outside of Trueup.
    Outside,
}

/// The facts of a report, in the order in which they happened.
///
/// `last` is what the status before was projected from, `status` what is projected now.
#[must_use]
pub fn facts(
    report: &Report,
    previous: &Status,
    last: Option<&Inputs>,
    status: &Status,
) -> Vec<EventDraft> {
    let mut story = Story::default();
    let repairs = story.tell_foreign_acts(&report.changes);
    // A pass that only puts right what others did is caused by them, and not by who asked long ago.
    let only_repairs = !repairs.is_empty() && repairs.len() == report.changes.len();
    let why = match repairs.first() {
        Some((cause, _)) if only_repairs => Cause::Draft(*cause),
        Some(_) | None => Cause::Asked,
    };
    if is_begun(report, last) {
        story.tell(Source::Reconciler, Fact::ReconcileStarted {}, why);
    }
    for (cause, fact) in repairs {
        if let Some(fact) = fact {
            story.tell(Source::Reconciler, fact, Cause::Draft(cause));
        }
    }
    for fact in report.changes.iter().filter_map(own_act) {
        story.tell(Source::Reconciler, fact, Cause::Asked);
    }
    if let Some(fact) = ending(report, previous, last, status) {
        story.tell(Source::Reconciler, fact, why);
    }
    if (status.phase, status.health) != (previous.phase, previous.health) {
        let message = status.conditions.first().map(|condition| condition.message.clone());
        let (phase, health) = (status.phase, status.health);
        let changed = Fact::ServicePhaseChanged { phase, health, message };
        story.tell(Source::K8sWatch, changed, why);
    }
    if let (Phase::Deleted, Some(receipt)) = (status.phase, &report.receipt) {
        story.tell(Source::Reconciler, last_word(report.unit, receipt), why);
    }
    story.told
}

/// What a receipt proves, or who ended it without proof.
fn last_word(unit: Unit, receipt: &Receipt) -> Fact {
    let force = match (&receipt.force, receipt.level) {
        (Some(force), ProofLevel::Forced) => force,
        (
            Some(_) | None,
            ProofLevel::ApiAbsence | ProofLevel::ProcessesUnconfirmed | ProofLevel::Forced,
        ) => return Fact::AbsenceVerified { keys: receipt.absent.len() },
    };
    let Force { principal, reason } = force.clone();
    let unproven = receipt.unproven_count();
    match unit {
        Unit::Project(_) => Fact::ProjectDeleteForced { principal, reason, unproven },
        Unit::Service(_) | Unit::Org(_) => {
            Fact::ServiceDeleteForced { principal, reason, unproven }
        }
    }
}

#[derive(Default)]
struct Story {
    told: Vec<EventDraft>,
}

impl Story {
    fn tell(&mut self, source: Source, fact: Fact, cause: Cause) -> usize {
        self.told.push(EventDraft { source, fact, cause });
        self.told.len().saturating_sub(1)
    }

    /// What others did to owned objects; answers, for each, its place and how it was put right.
    fn tell_foreign_acts(&mut self, changes: &[ObjectChange]) -> Vec<(usize, Option<Fact>)> {
        let mut repairs = Vec::new();
        for change in changes {
            match change {
                ObjectChange::DeletedExternally { key } => {
                    let gone = Fact::ResourceDeletedExternally { key: key.clone() };
                    repairs.push((self.tell(Source::K8sWatch, gone, Cause::Outside), None));
                }
                ObjectChange::ModifiedExternally { key, field, by } => {
                    repairs.push(self.tell_drift(key, field, by.clone()));
                }
                ObjectChange::Created { .. }
                | ObjectChange::Updated { .. }
                | ObjectChange::Removed { .. } => {}
            }
        }
        repairs
    }

    fn tell_drift(
        &mut self,
        key: &ResourceKey,
        field: &str,
        by: Option<String>,
    ) -> (usize, Option<Fact>) {
        let (key, field) = (key.clone(), field.to_owned());
        let edit = Fact::ResourceModifiedExternally { key: key.clone(), field: field.clone(), by };
        let drift = Fact::DriftDetected { key: key.clone(), field: field.clone() };
        let edited = self.tell(Source::K8sWatch, edit, Cause::Outside);
        let detected = self.tell(Source::Reconciler, drift, Cause::Draft(edited));
        (detected, Some(Fact::DriftReverted { key, field }))
    }
}

/// What the loop did because somebody asked for it.
fn own_act(change: &ObjectChange) -> Option<Fact> {
    match change {
        ObjectChange::Created { key } => Some(Fact::ResourceCreated { key: key.clone() }),
        ObjectChange::Updated { key } => Some(Fact::ResourceUpdated { key: key.clone() }),
        ObjectChange::Removed { key } => Some(Fact::ResourceRemoved { key: key.clone() }),
        ObjectChange::DeletedExternally { .. } | ObjectChange::ModifiedExternally { .. } => None,
    }
}

/// Whether work began with this report: something was done or is to be done, and what was reported
/// before had come to its end, could not be begun, or was about another generation.
fn is_begun(report: &Report, last: Option<&Inputs>) -> bool {
    let works = match report.outcome {
        Outcome::Converged
        | Outcome::Deferred { .. }
        | Outcome::Locked { .. }
        | Outcome::Frozen { .. }
        | Outcome::Broken { .. } => !report.changes.is_empty(),
        Outcome::Waiting { .. }
        | Outcome::Blocked { .. }
        | Outcome::Outdated { .. }
        | Outcome::Refused { .. }
        | Outcome::Failed { .. } => true,
    };
    works
        && last.is_none_or(|last| {
            last.observation.generation != report.generation
                || matches!(
                    last.outcome,
                    Outcome::Converged
                        | Outcome::Deferred { .. }
                        | Outcome::Locked { .. }
                        | Outcome::Frozen { .. }
                        | Outcome::Broken { .. }
                )
        })
}

/// How the work ended, if that is news.
fn ending(
    report: &Report,
    previous: &Status,
    last: Option<&Inputs>,
    status: &Status,
) -> Option<Fact> {
    let outcome_changed = last.is_none_or(|last| last.outcome != report.outcome);
    match &report.outcome {
        Outcome::Converged => {
            // What is gone carries no generation; its end is told by the proof of absence.
            let carried = status.applied_generation == Some(report.generation);
            let newly = status.applied_generation != previous.applied_generation;
            (carried && (newly || outcome_changed || !report.changes.is_empty()))
                .then_some(Fact::ReconcileSucceeded {})
        }
        Outcome::Failed { why }
        | Outcome::Refused { why }
        | Outcome::Outdated { why }
        | Outcome::Broken { why }
            if outcome_changed =>
        {
            Some(Fact::ReconcileFailed { why: why.clone() })
        }
        Outcome::Deferred { why } | Outcome::Locked { why } | Outcome::Frozen { why }
            if outcome_changed =>
        {
            Some(Fact::ReconcileDeferred { why: why.clone() })
        }
        Outcome::Failed { .. }
        | Outcome::Refused { .. }
        | Outcome::Outdated { .. }
        | Outcome::Deferred { .. }
        | Outcome::Locked { .. }
        | Outcome::Frozen { .. }
        | Outcome::Broken { .. }
        | Outcome::Waiting { .. }
        | Outcome::Blocked { .. } => None,
    }
}
