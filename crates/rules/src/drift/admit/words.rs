//! Reads a policy from the words of a manifest: an unknown one is reported with the nearest valid
//! one, and all of them at once.

use std::str::FromStr;

use trueup_model::drift::{AdoptMode, DriftPolicy, DriftRule, Verdict};
use trueup_model::key::Kind;

use super::paths::written_kinds;
use crate::admit::FieldError;
use crate::spelling::nearest;

/// A policy as it is written in a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyWords<'a> {
    /// The verdict for all fields without a rule.
    pub verdict: Option<&'a str>,
    /// How values are adopted.
    pub adopt: Option<&'a str>,
    /// The rules.
    pub rules: Vec<RuleWords<'a>>,
}

/// A rule as it is written in a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleWords<'a> {
    /// The kind.
    pub kind: Option<&'a str>,
    /// The path.
    pub path: Option<&'a str>,
    /// The verdict.
    pub verdict: &'a str,
}

const VERDICTS: [&str; 3] =
    [Verdict::Enforce.into_str(), Verdict::Adopt.into_str(), Verdict::Ignore.into_str()];

const MODES: [&str; 3] =
    [AdoptMode::Propose.into_str(), AdoptMode::Keep.into_str(), AdoptMode::Automatic.into_str()];

/// The policy that these words mean; `place` is where it is in its manifest. Its rules are checked
/// by [`admit`](super::admit).
///
/// # Errors
/// Every word that is unknown, with the nearest valid one.
pub fn read(words: &PolicyWords<'_>, place: &str) -> Result<DriftPolicy, Vec<FieldError>> {
    let mut errors = Vec::new();
    let kinds: Vec<&str> = written_kinds().map(Kind::as_str).collect();
    let verdict = words.verdict.and_then(|word| {
        known(word, &VERDICTS, "verdict", format!("{place}.verdict"), &mut errors)
    });
    let adopt = words
        .adopt
        .and_then(|word| known(word, &MODES, "adopt mode", format!("{place}.adopt"), &mut errors));
    let mut rules = Vec::new();
    for (number, rule) in words.rules.iter().enumerate() {
        let at = |field: &str| format!("{place}.rules.{number}.{field}");
        let kind = rule.kind.and_then(|word| known(word, &kinds, "kind", at("kind"), &mut errors));
        let verdict = known(rule.verdict, &VERDICTS, "verdict", at("verdict"), &mut errors);
        let path = rule.path.map(str::to_owned);
        rules.extend(verdict.map(|verdict| DriftRule { kind, path, verdict }));
    }
    if errors.is_empty() { Ok(DriftPolicy { verdict, adopt, rules }) } else { Err(errors) }
}

/// The value of a word; an unknown one is an error at this field.
fn known<T: FromStr>(
    word: &str,
    valid: &[&str],
    what: &str,
    field: String,
    errors: &mut Vec<FieldError>,
) -> Option<T> {
    let value = word.parse().ok();
    if value.is_none() {
        let near = nearest(word, valid.iter().copied()).unwrap_or_default();
        let valid = valid.join(", ");
        let message = format!("`{word}` is no {what}; did you mean `{near}`? Valid: {valid}");
        errors.push(FieldError { field, message });
    }
    value
}
