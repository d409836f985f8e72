//! Admission of drift policies: whether each rule names a field that can differ and may be left
//! to other writers.

mod paths;
mod protected;
mod words;

use std::collections::BTreeSet;

use trueup_model::drift::{DriftPolicy, DriftRule, Verdict};
use trueup_model::key::Kind;

use crate::admit::FieldError;

pub use protected::is_protected;
pub(crate) use protected::{holds_protected, is_ownership};
pub use words::{PolicyWords, RuleWords, read};

/// How many rules a policy may have.
pub const MOST_RULES: usize = 50;

/// The longest path of a rule.
const LONGEST_PATH: usize = 256;

/// Everything that is wrong with a policy; `place` is where it is in its manifest.
///
/// A rule that names an ownership, isolation or security field must enforce it. A wider rule, such
/// as `verdict: ignore` for a whole service, is admitted: it does not apply to those fields
/// ([`is_protected`]).
#[must_use]
pub fn admit(policy: &DriftPolicy, place: &str) -> Vec<FieldError> {
    if policy.rules.len() > MOST_RULES {
        let message = format!("must be at most {MOST_RULES}");
        return vec![FieldError::at(format!("{place}.rules"), message)];
    }
    let mut seen = BTreeSet::new();
    let mut errors = Vec::new();
    for (number, rule) in policy.rules.iter().enumerate() {
        let place = format!("{place}.rules.{number}");
        errors.extend(error(rule, &place));
        if !seen.insert((rule.kind, rule.path.as_deref())) {
            let message = "has the kind and the path of an earlier rule; keep one";
            errors.push(FieldError::at(place, message));
        }
    }
    errors
}

/// The first thing that is wrong with a rule.
fn error(rule: &DriftRule, place: &str) -> Option<FieldError> {
    let at =
        |field: &str, message: String| Some(FieldError::at(format!("{place}.{field}"), message));
    let kinds = match rule.kind {
        Some(kind) if !paths::is_written(kind) => {
            let kinds: Vec<&str> = paths::written_kinds().map(Kind::as_str).collect();
            let message =
                format!("Trueup does not write {kind} objects; valid kinds: {}", kinds.join(", "));
            return at("kind", message);
        }
        Some(kind) => vec![kind],
        None => paths::written_kinds().collect(),
    };
    let Some(path) = &rule.path else {
        return match rule.kind {
            None => {
                let message = "needs a kind or a path; for all fields, set the policy's `verdict`";
                Some(FieldError::at(place, message))
            }
            Some(kind) => must_enforce(rule.verdict, &[kind], "").and_then(|message| {
                at("verdict", format!("must be enforce for {kind}: {message}"))
            }),
        };
    };
    if let Some(message) = wrong_syntax(path) {
        return at("path", message.to_owned());
    }
    let with_it: Vec<Kind> =
        kinds.iter().copied().filter(|kind| paths::is_known(*kind, path)).collect();
    if with_it.is_empty() {
        return at("path", unknown_path(rule.kind, &kinds, path));
    }
    must_enforce(rule.verdict, &with_it, path)
        .and_then(|message| at("verdict", format!("must be enforce for `{path}`: {message}")))
}

/// Why a field must be enforced, if the verdict is another one and every kind protects the field.
fn must_enforce(verdict: Verdict, kinds: &[Kind], path: &str) -> Option<&'static str> {
    match verdict {
        Verdict::Enforce => None,
        Verdict::Adopt | Verdict::Ignore => {
            let reasons: Option<Vec<_>> =
                kinds.iter().map(|kind| is_protected(*kind, path)).collect();
            reasons?.first().copied()
        }
    }
}

fn wrong_syntax(path: &str) -> Option<&'static str> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-/".contains(letter);
    let good = (1..=LONGEST_PATH).contains(&path.len())
        && path.chars().all(is_letter)
        && path.split('.').all(|segment| !segment.is_empty())
        && !path.starts_with('/');
    (!good).then_some(
        "must be names of fields with dots in between, at most 256 characters, such as \
         `spec.replicas`; an entry of a list has its own name, or its number from 0",
    )
}

fn unknown_path(kind: Option<Kind>, kinds: &[Kind], path: &str) -> String {
    let of = kind.map(|kind| format!(" of {kind}")).unwrap_or_default();
    let near = paths::nearest(kinds, path);
    let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    format!("`{path}` is no field{of} that Trueup sets{hint}")
}
