//! A pass and a status as lines of a scenario's output.

use std::fmt::Write;

use trueup_model::drift::DivergenceState;
use trueup_model::key::ResourceKey;
use trueup_model::report::{ObjectChange, Outcome};
use trueup_model::status::Status;
use trueup_rules::plan::Action;

use crate::world::Pass;

/// A pass: one line per action with its reason, then the outcome.
pub(crate) fn pass(pass: &Pass) -> String {
    let mut text = String::new();
    for (index, actions) in pass.rounds.iter().enumerate() {
        line(&mut text, &format!("  step {}", index + 1));
        for action in actions {
            line(&mut text, &format!("    {}", self::action(action)));
        }
    }
    if pass.rounds.is_empty() {
        line(&mut text, "  nothing to write");
    }
    line(&mut text, &format!("  outcome: {}", outcome(pass)));
    for one in pass.standing.iter().filter(|one| one.state != DivergenceState::Open) {
        let (state, field) = (one.state.into_str(), &one.field);
        line(
            &mut text,
            &format!("    kept   {:<48} {field} = {}, {state}", name(&one.key), one.live),
        );
    }
    text
}

fn action(action: &Action) -> String {
    match action {
        Action::Apply { key, change, .. } => format!("write  {:<48} {}", name(key), why(change)),
        Action::Prune { key, change, .. } => format!("prune  {:<48} {}", name(key), why(change)),
        Action::Delete { key, .. } => format!("delete {:<48} no longer wanted", name(key)),
        Action::ReleaseAnchor { key, .. } => {
            format!("release {:<47} no dependents left", name(key))
        }
        Action::VerifyAbsence => "verify absence of every recorded key".to_owned(),
    }
}

fn why(change: &ObjectChange) -> String {
    match change {
        ObjectChange::Created { .. } => "missing".to_owned(),
        ObjectChange::Updated { .. } => "desired state changed".to_owned(),
        ObjectChange::Removed { .. } => "removed".to_owned(),
        ObjectChange::DeletedExternally { .. } => "deleted externally".to_owned(),
        ObjectChange::ModifiedExternally { fields, .. } => {
            let fields: Vec<&str> = fields.iter().map(|one| one.field.as_str()).collect();
            format!("{} changed externally", fields.join(", "))
        }
    }
}

fn outcome(pass: &Pass) -> String {
    match &pass.outcome {
        Outcome::Converged if pass.absent => "absence verified".to_owned(),
        Outcome::Converged => "converged".to_owned(),
        Outcome::Waiting { on } => format!("waiting for {on}"),
        Outcome::Deferred { why } => format!("deferred, {why}"),
        Outcome::Locked { why } => format!("locked, {why}"),
        Outcome::Frozen { why } => format!("frozen, {why}"),
        Outcome::Broken { why } => format!("broken, {why}"),
        Outcome::Blocked { why } => format!("blocked, {why}"),
        Outcome::Outdated { why } => format!("outdated, {why}"),
        Outcome::Refused { why } => format!("refused, {why}"),
        Outcome::Failed { why } => format!("failed, {why}"),
    }
}

/// The status, with each condition on a line of its own.
pub(crate) fn status(status: &Status) -> String {
    let mut text = String::new();
    let (phase, health) = (status.phase.into_str(), status.health.into_str());
    line(&mut text, &format!("  status: {phase}, {health}"));
    for condition in &status.conditions {
        line(&mut text, &format!("    because {}", condition.message));
    }
    text
}

/// Kind and name; the namespace is the same in a whole scenario.
pub(crate) fn name(key: &ResourceKey) -> String {
    format!("{} {}", key.kind, key.name)
}

pub(crate) fn line(text: &mut String, content: &str) {
    writeln!(text, "{}", content.trim_end()).expect("writing to a string cannot fail");
}
