//! The outcome of a pass over a frozen unit.

use trueup_model::freeze::Freeze;
use trueup_model::key::ResourceKey;
use trueup_model::report::Outcome;

use super::Action;

/// The outcome when a freeze prevents these actions.
#[must_use]
pub fn held(freeze: &Freeze, actions: &[Action]) -> Outcome {
    let waits = match actions.first().map(key) {
        Some(Some(key)) => format!("; {key} waits"),
        Some(None) => "; verifying its absence waits".to_owned(),
        None => String::new(),
    };
    let others = actions.len().saturating_sub(1);
    let more = if others > 0 { format!(", and {others} more") } else { String::new() };
    let why = format!("{freeze}{waits}{more}; Trueup repairs nothing until it is unfrozen");
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
