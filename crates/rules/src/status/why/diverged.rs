//! Explains a difference that stands: who changed what, and what happens to it.

use serde_json::Value;
use trueup_model::drift::{Divergence, DivergenceClass, DivergenceState, FieldRef};
use trueup_model::key::Kind;
use trueup_model::why::{DivergenceSeen, Link, LinkStep};

/// A longer value is not repeated in a sentence.
const LONGEST_VALUE: usize = 60;

/// The link for one difference; `frozen` is whether a freeze forbids its repair.
pub(super) fn link(seen: &DivergenceSeen, frozen: bool) -> Link {
    let conflict = seen.conflict.map(|conflict| conflict.to_string());
    Link {
        step: LinkStep::Diverged,
        text: format!("{}; {}", change(&seen.divergence), fate(seen, frozen)),
        at: Some(seen.since),
        proof: std::iter::once(seen.id.to_string()).chain(conflict).collect(),
    }
}

fn change(divergence: &Divergence) -> String {
    let Divergence { key, field, class, wanted, live, by, .. } = divergence;
    let writer = by.as_deref().unwrap_or("another writer");
    let what = FieldRef { key: key.clone(), field: field.clone() };
    match class {
        DivergenceClass::Deleted => format!("{writer} deleted {what}"),
        DivergenceClass::Extra => format!("{writer} left {what} behind"),
        DivergenceClass::Regressed => {
            let (live, wanted) = (shown(live), shown(wanted));
            format!("the service became worse without a change: {live} instead of {wanted}")
        }
        DivergenceClass::Edited | DivergenceClass::ForeignWriter | DivergenceClass::BrokenProof => {
            let is_short = |value: &Value| value.to_string().len() <= LONGEST_VALUE;
            // The values of a Secret are digests.
            if key.kind == Kind::Secret || !is_short(wanted) || !is_short(live) {
                return format!("{writer} changed {what}");
            }
            format!("{writer} changed {what} from {} to {}", shown(wanted), shown(live))
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => format!("`{text}`"),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

fn fate(seen: &DivergenceSeen, frozen: bool) -> String {
    let id = seen.id;
    match seen.divergence.state {
        DivergenceState::Open if seen.divergence.class == DivergenceClass::Regressed => {
            "this ends when it is healthy again".to_owned()
        }
        DivergenceState::Open if frozen => "it is not reverted while frozen".to_owned(),
        DivergenceState::Open => "it will be reverted".to_owned(),
        DivergenceState::Proposed => {
            let until = seen.expires_at.map(|at| format!(" until {at}")).unwrap_or_default();
            format!(
                "its adoption is proposed{until}: `trueup drift adopt {id}` makes the value the \
                 desired one, `trueup drift reject {id}` does not"
            )
        }
        DivergenceState::InConflict => {
            let conflict = seen.conflict.map_or_else(|| "ID".to_owned(), |id| id.to_string());
            format!(
                "it is not enforced until you decide: `trueup conflicts settle {conflict} ours`, \
                 `ignore` or `adopt`"
            )
        }
        DivergenceState::Ignored => "it is left alone, as decided".to_owned(),
        DivergenceState::Reverted
        | DivergenceState::Adopted
        | DivergenceState::Restored
        | DivergenceState::Superseded
        | DivergenceState::Rejected
        | DivergenceState::Expired => "it ended".to_owned(),
    }
}
