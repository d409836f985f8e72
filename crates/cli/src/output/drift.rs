//! Differences between the cluster and its desired state, as people read them.

use serde_json::Value;
use trueup_api::drift::Difference;
use trueup_model::drift::{DivergenceClass, DivergenceState};

use crate::output::human::clean;
use crate::output::style::{Paint, Style};

/// One line: the field, both values, who wrote it, and what happens to it.
pub fn line(difference: &Difference, style: Style) -> String {
    let Difference { object, field, by, state, .. } = difference;
    let by = by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default();
    let what = clean(&format!("{}: {}{by}", place(object, field), change(difference)));
    format!("{what}; {}", style.paint(paint(*state), outcome(difference)))
}

/// The field and its object, without the namespace: `spec.replicas of Deployment/web-1`.
pub fn place(object: &str, field: &str) -> String {
    let object = short_object(object);
    if field.is_empty() { object } else { format!("{field} of {object}") }
}

/// An object without its namespace: `Deployment/web-1`.
pub fn short_object(object: &str) -> String {
    match (object.split_once('/'), object.rsplit_once('/')) {
        (Some((kind, _)), Some((_, name))) => format!("{kind}/{name}"),
        (None, _) | (_, None) => object.to_owned(),
    }
}

/// The desired and the live value: `2 → 5`. An object has no value, only a class.
pub fn change(difference: &Difference) -> String {
    if difference.field.is_empty() {
        return difference.class.into_str().to_owned();
    }
    format!("{} → {}", value(&difference.wanted), value(&difference.live))
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    }
}

/// What becomes of a difference.
fn outcome(difference: &Difference) -> &'static str {
    match difference.state {
        DivergenceState::Open if difference.class == DivergenceClass::Regressed => {
            "until it is healthy again"
        }
        DivergenceState::Open => "will be reverted",
        DivergenceState::Proposed => "proposed for adoption",
        DivergenceState::InConflict => "in conflict: not enforced until it is settled",
        DivergenceState::Ignored
        | DivergenceState::Reverted
        | DivergenceState::Adopted
        | DivergenceState::Restored
        | DivergenceState::Superseded
        | DivergenceState::Rejected
        | DivergenceState::Expired => difference.state.into_str(),
    }
}

/// The colour of a state.
pub const fn paint(state: DivergenceState) -> Paint {
    match state {
        DivergenceState::Open | DivergenceState::Proposed => Paint::Busy,
        DivergenceState::InConflict => Paint::Bad,
        DivergenceState::Reverted | DivergenceState::Adopted | DivergenceState::Restored => {
            Paint::Good
        }
        DivergenceState::Ignored
        | DivergenceState::Superseded
        | DivergenceState::Rejected
        | DivergenceState::Expired => Paint::Faint,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A difference in the number of pods.
    pub(crate) fn replicas(state: &str) -> Difference {
        serde_json::from_value(json!({
            "object": "Deployment/shop-1/web-1", "field": "spec.replicas", "class": "edited",
            "wanted": 2, "live": 5, "by": "kubectl-scale", "verdict": "enforce", "state": state,
        }))
        .unwrap()
    }

    #[test]
    fn lines_say_what_differs_and_what_happens_to_it() {
        let shown = |difference: &Difference| line(difference, Style::new(false));
        assert_eq!(
            shown(&replicas("open")),
            "spec.replicas of Deployment/web-1: 2 → 5, by kubectl-scale; will be reverted"
        );
        let added = Difference {
            field: "spec.template.spec.containers.main.image".to_owned(),
            wanted: Value::Null,
            live: json!("evil:1\u{1b}[31m"),
            by: None,
            ..replicas("ignored")
        };
        assert_eq!(
            shown(&added),
            "spec.template.spec.containers.main.image of Deployment/web-1: none → evil:1 [31m; ignored"
        );
        let deleted = Difference {
            field: String::new(),
            class: DivergenceClass::Deleted,
            ..replicas("in_conflict")
        };
        assert_eq!(
            shown(&deleted),
            "Deployment/web-1: deleted, by kubectl-scale; in conflict: not enforced until it is settled"
        );
        let regressed = Difference {
            field: "status".to_owned(),
            class: DivergenceClass::Regressed,
            by: None,
            ..replicas("open")
        };
        assert_eq!(
            shown(&regressed),
            "status of Deployment/web-1: 2 → 5; until it is healthy again"
        );
    }
}
