//! The events that a report adds to the log: each fact once, with its cause.

use std::collections::BTreeMap;

use trueup_model::drift::{Divergence, DivergenceState};
use trueup_model::event::{
    AbsenceVerified, DriftDetected, DriftIgnored, DriftReverted, Fact, ProjectDeleteForced,
    ReconcileDeferred, ReconcileFailed, ResourceCreated, ResourceDeletedExternally,
    ResourceModifiedExternally, ResourceRemoved, ResourceUpdated, ServiceDeleteForced,
    ServicePhaseChanged, Source,
};
use trueup_model::key::ResourceKey;
use trueup_model::order::Unit;
use trueup_model::receipt::{Force, ProofLevel, Receipt};
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::status::{Inputs, Phase, Status};

/// An event to be recorded for a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDraft {
    /// What reports it.
    pub source: Source,
    /// The fact.
    pub fact: Fact,
    /// What caused it.
    pub cause: Cause,
}

/// What caused a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The request for the generation that the report is about.
    Asked,
    /// The draft at this index of the same list.
    Draft(usize),
    /// Something outside of Trueup.
    Outside,
}

/// The events of a report, in the order in which they happened.
///
/// `last` are the inputs of the `previous` status; `status` is the new projection.
#[must_use]
pub fn facts(
    report: &Report,
    previous: &Status,
    last: Option<&Inputs>,
    status: &Status,
) -> Vec<EventDraft> {
    let mut drafts = Drafts::default();
    let repairs = drafts.add_external_changes(&report.changes);
    drafts.add_ignored(report, last);
    // A pass that only repairs external changes is caused by them, not by the last request.
    let only_repairs = report.changes.iter().all(|change| requested_change(change).is_none());
    let why = match repairs.first() {
        Some((cause, _)) if only_repairs => Cause::Draft(*cause),
        Some(_) | None => Cause::Asked,
    };
    if is_begun(report, last) {
        drafts.add(Source::Reconciler, Fact::ReconcileStarted {}, why);
    }
    for (cause, fact) in repairs {
        if let Some(fact) = fact {
            drafts.add(Source::Reconciler, fact, Cause::Draft(cause));
        }
    }
    for fact in report.changes.iter().filter_map(requested_change) {
        drafts.add(Source::Reconciler, fact, Cause::Asked);
    }
    if let Some(fact) = ending(report, previous, last, status) {
        drafts.add(Source::Reconciler, fact, why);
    }
    if (status.phase, status.health) != (previous.phase, previous.health) {
        let message = status.conditions.first().map(|condition| condition.message.clone());
        let (phase, health) = (status.phase, status.health);
        let changed = Fact::ServicePhaseChanged(ServicePhaseChanged { phase, health, message });
        drafts.add(Source::K8sWatch, changed, why);
    }
    if let (Phase::Deleted, Some(receipt)) = (status.phase, &report.receipt) {
        drafts.add(Source::Reconciler, deletion_event(report.unit, receipt), why);
    }
    drafts.0
}

/// The event for a receipt: verified absence, or a forced deletion.
fn deletion_event(unit: Unit, receipt: &Receipt) -> Fact {
    let force = match (&receipt.force, receipt.level) {
        (Some(force), ProofLevel::Forced) => force,
        (
            Some(_) | None,
            ProofLevel::ApiAbsence | ProofLevel::ProcessesUnconfirmed | ProofLevel::Forced,
        ) => return Fact::AbsenceVerified(AbsenceVerified { keys: receipt.absent.len() }),
    };
    let Force { principal, reason } = force.clone();
    let unproven = receipt.unproven_count();
    match unit {
        Unit::Project(_) => {
            Fact::ProjectDeleteForced(ProjectDeleteForced { principal, reason, unproven })
        }
        Unit::Service(_) => {
            Fact::ServiceDeleteForced(ServiceDeleteForced { principal, reason, unproven })
        }
    }
}

#[derive(Default)]
struct Drafts(Vec<EventDraft>);

impl Drafts {
    fn add(&mut self, source: Source, fact: Fact, cause: Cause) -> usize {
        self.0.push(EventDraft { source, fact, cause });
        self.0.len().saturating_sub(1)
    }

    /// Records external changes to owned objects; returns the index and the repair of each.
    fn add_external_changes(&mut self, changes: &[ObjectChange]) -> Vec<(usize, Option<Fact>)> {
        let mut repairs = Vec::new();
        for change in changes {
            match change {
                ObjectChange::DeletedExternally { key } => {
                    let gone = Fact::ResourceDeletedExternally(ResourceDeletedExternally {
                        key: key.clone(),
                    });
                    repairs.push((self.add(Source::K8sWatch, gone, Cause::Outside), None));
                }
                ObjectChange::ModifiedExternally { key, fields } => {
                    for (field, by) in named(fields.iter()) {
                        repairs.push(self.add_drift(key, field, by));
                    }
                }
                ObjectChange::Created { .. }
                | ObjectChange::Updated { .. }
                | ObjectChange::Removed { .. } => {}
            }
        }
        repairs
    }

    fn add_drift(
        &mut self,
        key: &ResourceKey,
        field: String,
        by: Option<String>,
    ) -> (usize, Option<Fact>) {
        let key = key.clone();
        let edit = Fact::ResourceModifiedExternally(ResourceModifiedExternally {
            key: key.clone(),
            field: field.clone(),
            by,
        });
        let drift = Fact::DriftDetected(DriftDetected { key: key.clone(), field: field.clone() });
        let edited = self.add(Source::K8sWatch, edit, Cause::Outside);
        let detected = self.add(Source::Reconciler, drift, Cause::Draft(edited));
        (detected, Some(Fact::DriftReverted(DriftReverted { key, field })))
    }

    /// Records differences that are ignored since this report.
    fn add_ignored(&mut self, report: &Report, last: Option<&Inputs>) {
        let Some(observation) = &report.observation else { return };
        let known: &[Divergence] = match last {
            Some(last) => &last.observation.divergences,
            None => &[],
        };
        let is_known = |seen: &Divergence| {
            ignored(known).any(|known| (&known.key, &known.field) == (&seen.key, &seen.field))
        };
        let mut new: BTreeMap<&ResourceKey, Vec<&Divergence>> = BTreeMap::new();
        for seen in ignored(&observation.divergences).filter(|seen| !is_known(seen)) {
            new.entry(&seen.key).or_default().push(seen);
        }
        for (key, fields) in new {
            for (field, _) in named(fields.into_iter()) {
                let fact = Fact::DriftIgnored(DriftIgnored { key: key.clone(), field });
                self.add(Source::Reconciler, fact, Cause::Outside);
            }
        }
    }
}

/// How many fields of an object have events of their own; the last one counts the rest.
const MOST_FIELDS: usize = 8;

/// The fields of one object as they are named in events, with their managers.
fn named<'a>(
    fields: impl ExactSizeIterator<Item = &'a Divergence>,
) -> Vec<(String, Option<String>)> {
    let more = fields.len().saturating_sub(MOST_FIELDS);
    let mut named: Vec<(String, Option<String>)> = fields
        .take(MOST_FIELDS)
        .map(|divergence| (divergence.field.clone(), divergence.by.clone()))
        .collect();
    if let Some((last, _)) = named.last_mut().filter(|_| more > 0) {
        *last = format!("{last}, and {more} more");
    }
    named
}

fn ignored(divergences: &[Divergence]) -> impl Iterator<Item = &Divergence> {
    divergences.iter().filter(|seen| seen.state == DivergenceState::Ignored)
}

/// The event for a write that belongs to the requested generation.
fn requested_change(change: &ObjectChange) -> Option<Fact> {
    match change {
        ObjectChange::Created { key } => {
            Some(Fact::ResourceCreated(ResourceCreated { key: key.clone() }))
        }
        ObjectChange::Updated { key } => {
            Some(Fact::ResourceUpdated(ResourceUpdated { key: key.clone() }))
        }
        ObjectChange::Removed { key } => {
            Some(Fact::ResourceRemoved(ResourceRemoved { key: key.clone() }))
        }
        ObjectChange::DeletedExternally { .. } | ObjectChange::ModifiedExternally { .. } => None,
    }
}

/// Whether reconciliation started with this report: there is work, and the previous report was
/// finished, could not start, or was about another generation.
fn is_begun(report: &Report, last: Option<&Inputs>) -> bool {
    let has_work = match report.outcome {
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
    has_work
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

/// The event for the outcome of the pass, if the outcome is new.
fn ending(
    report: &Report,
    previous: &Status,
    last: Option<&Inputs>,
    status: &Status,
) -> Option<Fact> {
    let outcome_changed = last.is_none_or(|last| last.outcome != report.outcome);
    match &report.outcome {
        Outcome::Converged => {
            // A deletion applies no generation; its end is the AbsenceVerified event.
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
            Some(Fact::ReconcileFailed(ReconcileFailed { why: why.clone() }))
        }
        Outcome::Deferred { why } | Outcome::Locked { why } | Outcome::Frozen { why }
            if outcome_changed =>
        {
            Some(Fact::ReconcileDeferred(ReconcileDeferred { why: why.clone() }))
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
