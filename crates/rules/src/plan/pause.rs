//! Spaces the reverts of a fight over what cannot be left alone.
//!
//! The whole object waits. It is written at once when its desired state changes.

use jiff::Timestamp;
use trueup_model::drift::{Divergence, DivergenceState, DriftOrder, FieldRef};
use trueup_model::report::ObjectChange;

use super::Action;
use super::judge::{Judged, ObjectPlan};
use crate::drift::fight::paused_until;

/// Holds back a revert that follows too soon after the last ones; its fields are in conflict.
pub(super) fn hold_back(judged: Judged, drift: &DriftOrder, now: Timestamp) -> Judged {
    let Judged { plan, mut standing } = judged;
    let fought = match &plan {
        ObjectPlan::Act(action) => fought_over(action, drift, now),
        ObjectPlan::Fine | ObjectPlan::Wait | ObjectPlan::Pause(_) | ObjectPlan::Blocked(_) => {
            Vec::new()
        }
    };
    let Some(first) = fought.first() else { return Judged { plan, standing } };
    let plan = ObjectPlan::Pause(format!(
        "another writer to stop changing {first}: each change is reverted, with pauses"
    ));
    for divergence in &mut standing {
        if fought.contains(&field_ref(divergence)) {
            divergence.state = DivergenceState::InConflict;
        }
    }
    Judged { plan, standing }
}

/// The fields that an action would revert and that wait.
fn fought_over(action: &Action, drift: &DriftOrder, now: Timestamp) -> Vec<FieldRef> {
    if drift.rounds.is_empty() {
        return Vec::new();
    }
    let mut fields = match action {
        Action::Apply { change, .. } | Action::Prune { change, .. } => reverted(change),
        Action::Delete { .. } | Action::ReleaseAnchor { .. } | Action::VerifyAbsence => Vec::new(),
    };
    fields.retain(|at| paused_until(drift, at, now).is_some());
    fields
}

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
