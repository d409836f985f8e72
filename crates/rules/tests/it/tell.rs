//! What a pass did, in words for people who do not read code.

use std::fmt::Write;

use trueup_model::key::ResourceKey;
use trueup_model::report::{ObjectChange, Outcome};
use trueup_model::status::Status;
use trueup_rules::plan::Action;

use crate::world::Pass;

/// A pass, one line per action with its reason, then how it ended.
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
    line(&mut text, &format!("  so: {}", outcome(pass)));
    text
}

fn action(action: &Action) -> String {
    match action {
        Action::Apply { key, change, .. } => format!("write  {:<48} {}", name(key), why(change)),
        Action::Prune { key, change, .. } => format!("prune  {:<48} {}", name(key), why(change)),
        Action::Delete { key, .. } => format!("delete {:<48} it shall be gone", name(key)),
        Action::ReleaseAnchor { key, .. } => {
            format!("let go {:<48} nothing needs it any more", name(key))
        }
        Action::VerifyAbsence => "read everything afresh, to prove that nothing is left".to_owned(),
    }
}

fn why(change: &ObjectChange) -> String {
    match change {
        ObjectChange::Created { .. } => "it is not there yet".to_owned(),
        ObjectChange::Updated { .. } => "what it shall be has changed".to_owned(),
        ObjectChange::Removed { .. } => "it was removed".to_owned(),
        ObjectChange::DeletedExternally { .. } => "somebody else took it away".to_owned(),
        ObjectChange::ModifiedExternally { field, .. } => format!("somebody else changed {field}"),
    }
}

fn outcome(pass: &Pass) -> String {
    match &pass.outcome {
        Outcome::Converged if pass.absent => "nothing of ours is left".to_owned(),
        Outcome::Converged => "all is as promised".to_owned(),
        Outcome::Waiting { on } => format!("waiting for {on}"),
        Outcome::Deferred { why } => format!("put off, {why}"),
        Outcome::Locked { why } => format!("locked, {why}"),
        Outcome::Frozen { why } => format!("held, {why}"),
        Outcome::Broken { why } => format!("broken, {why}"),
        Outcome::Blocked { why } => format!("blocked, {why}"),
        Outcome::Outdated { why } => format!("stopped, {why}"),
        Outcome::Refused { why } => format!("refused, {why}"),
        Outcome::Failed { why } => format!("failed, {why}"),
    }
}

/// What people see, with each reason on a line of its own.
pub(crate) fn status(status: &Status) -> String {
    let mut text = String::new();
    let (phase, health) = (status.phase.as_str(), status.health.as_str());
    line(&mut text, &format!("  people see: {phase}, {health}"));
    for condition in &status.conditions {
        line(&mut text, &format!("    because {}", condition.message));
    }
    text
}

/// Kind and name; the namespace is the same in all of a story.
pub(crate) fn name(key: &ResourceKey) -> String {
    format!("{} {}", key.kind, key.name)
}

pub(crate) fn line(text: &mut String, words: &str) {
    writeln!(text, "{}", words.trim_end()).expect("writing to a text cannot fail");
}
