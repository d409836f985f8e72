//! Conditions for what other writers changed: one for each reason, with its first field.

use trueup_model::drift::{Divergence, DivergenceClass, DivergenceState, FieldRef};
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_model::status::{Condition, Inputs, Reason};

/// The conditions. A difference that is ignored has none: it is as decided.
pub(super) fn conditions(inputs: &Inputs) -> Vec<Condition> {
    if inputs.desired == DesiredState::Deleted {
        return Vec::new();
    }
    let condition = |reason, message| Condition { reason, message, cause: None };
    let conflict = first(inputs, DivergenceState::InConflict).map(|(divergence, more)| {
        let (field, writer) = (field(divergence), writer(divergence));
        let message = format!(
            "in conflict: Trueup and {writer} keep changing {field}{more}; it is not enforced until \
             `trueup conflicts settle` decides"
        );
        condition(Reason::InConflict, message)
    });
    let proposal = first(inputs, DivergenceState::Proposed).map(|(divergence, more)| {
        let (field, writer) = (field(divergence), writer(divergence));
        let message = format!(
            "adoption proposed: {writer} changed {field}{more}; the value stays until `trueup drift \
             adopt` or `trueup drift reject` decides, or the proposal expires"
        );
        condition(Reason::AdoptionProposed, message)
    });
    let open = first(inputs, DivergenceState::Open).map(|(divergence, more)| {
        let (field, writer) = (field(divergence), writer(divergence));
        let did = if divergence.class == DivergenceClass::Deleted { "deleted" } else { "changed" };
        let fate = fate(&inputs.outcome);
        let message = format!("externally modified; {fate}: {writer} {did} {field}{more}");
        condition(Reason::ExternallyModified, message)
    });
    [conflict, proposal, open].into_iter().flatten().collect()
}

/// The first difference in this state, and how many more there are.
fn first(inputs: &Inputs, state: DivergenceState) -> Option<(&Divergence, String)> {
    let mut all = inputs.observation.divergences.iter().filter(|one| one.state == state);
    let first = all.next()?;
    let more = match all.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some((first, more))
}

fn field(divergence: &Divergence) -> FieldRef {
    FieldRef { key: divergence.key.clone(), field: divergence.field.clone() }
}

fn writer(divergence: &Divergence) -> &str {
    divergence.by.as_deref().unwrap_or("another writer")
}

/// What becomes of a difference that is to be reverted, after this outcome.
const fn fate(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Frozen { .. } => "not reverted while frozen",
        Outcome::Blocked { .. } | Outcome::Outdated { .. } => "not reverted while blocked",
        Outcome::Locked { .. } => "not reverted while its secrets cannot be decrypted",
        Outcome::Converged
        | Outcome::Waiting { .. }
        | Outcome::Deferred { .. }
        | Outcome::Broken { .. }
        | Outcome::Refused { .. }
        | Outcome::Failed { .. } => "will be reverted",
    }
}
