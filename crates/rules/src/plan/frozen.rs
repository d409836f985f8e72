//! What a freeze holds back, said so that whoever reads it knows what to do.

use trueup_model::freeze::Freeze;
use trueup_model::key::ResourceKey;
use trueup_model::report::Outcome;

use super::Action;

/// How a pass over something frozen ends that has these things to do.
#[must_use]
pub fn held(freeze: &Freeze, actions: &[Action]) -> Outcome {
    let waits = match actions.first().map(key) {
        Some(Some(key)) => format!("; {key} waits"),
        Some(None) => "; the proof that it is gone waits".to_owned(),
        None => String::new(),
    };
    let others = actions.len().saturating_sub(1);
    let more = if others > 0 { format!(", and {others} more") } else { String::new() };
    let why =
        format!("{freeze}{waits}{more}; Trueup does not repair it until somebody unfreezes it");
    Outcome::Frozen { why }
}

const fn key(action: &Action) -> Option<&ResourceKey> {
    match action {
        Action::Apply { key, .. }
        | Action::Prune { key, .. }
        | Action::Delete { key, .. }
        | Action::ReleaseAnchor { key, .. } => Some(key),
        Action::VerifyAbsence => None,
    }
}
