//! Remembers writes that the cluster rejects, or changes during admission.
//!
//! Every event re-plans its unit. Without this memory a rejected object would be sent as often as
//! its pods change, and a field that an admission webhook sets would be overwritten in a loop. A
//! rejected object is retried with exponential backoff; a changed one only when the object itself,
//! or what stands in the cluster, is different.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use trueup_model::key::ResourceKey;
use trueup_rules::compare::diff::first_difference;

use crate::verbs::CallError;

/// Backoff of a rejected object: doubled each time, up to the second value.
const LEAST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_secs(30);

/// Writes that the cluster rejected or changed, by key.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    seen: Mutex<HashMap<ResourceKey, Refusal>>,
}

#[derive(Debug)]
struct Refusal {
    offered: Value,
    message: String,
    why: Why,
}

#[derive(Debug)]
enum Why {
    /// Rejected `times` times; not sent again before `until`.
    Refused { times: u32, until: Duration },
    /// The cluster stored this instead; without status and versions.
    Changed { stored: Value },
}

impl Refusals {
    /// Drops what is remembered about these keys.
    pub(crate) fn forget<'a>(&self, keys: impl Iterator<Item = &'a ResourceKey>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            seen.remove(key);
        }
    }

    /// Fails if the cluster is known to reject or change this object now.
    pub(crate) fn check(
        &self,
        key: &ResourceKey,
        object: &Value,
        live: Option<&Value>,
        now: Duration,
    ) -> Result<(), CallError> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = seen.get(key).filter(|known| known.offered == content(object)) else {
            return Ok(());
        };
        let still = match &known.why {
            Why::Refused { until, .. } => now < *until,
            Why::Changed { stored } => live.is_some_and(|live| content(live) == *stored),
        };
        if still { Err(CallError::Refused(known.message.clone())) } else { Ok(()) }
    }

    /// Records the result of a write, and returns it.
    pub(crate) fn note(
        &self,
        key: &ResourceKey,
        object: &Value,
        answer: Result<Value, CallError>,
        now: Duration,
    ) -> Result<Value, CallError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // A version in the object is a precondition, not content.
        let object = &content(object);
        let (message, why) = match &answer {
            Err(CallError::Refused(message)) => {
                let times = match seen.get(key).filter(|known| known.offered == *object) {
                    Some(Refusal { why: Why::Refused { times, .. }, .. }) => {
                        times.saturating_add(1)
                    }
                    Some(_) | None => 0,
                };
                let pause = (LEAST * 2_u32.saturating_pow(times.min(6))).min(MOST);
                (message.clone(), Why::Refused { times, until: now + pause })
            }
            Err(_) => return answer,
            Ok(stored) => match first_difference(object, stored) {
                None => {
                    seen.remove(key);
                    return answer;
                }
                Some(field) => (changed(&field), Why::Changed { stored: content(stored) }),
            },
        };
        seen.insert(key.clone(), Refusal { offered: object.clone(), message, why });
        answer
    }

    /// Records the result of a prune. If a pruned field is still there, an admission webhook puts
    /// it back, and the same prune is not repeated on the same object.
    pub(crate) fn note_prune(&self, key: &ResourceKey, patch: &Value, stored: &Value) {
        let message = "a field that Trueup removes is put back during admission; exclude Trueup's \
                       objects from the admission webhook that adds it";
        let refusal = Refusal {
            offered: content(patch),
            message: message.to_owned(),
            why: Why::Changed { stored: content(stored) },
        };
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), refusal);
    }
}

fn changed(field: &str) -> String {
    format!(
        "the cluster changes {field} during admission; exclude Trueup's objects from the admission \
         webhook that changes it"
    )
}

/// An object without status and versions.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["resourceVersion", "managedFields", "generation"] {
            metadata.remove(name);
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trueup_model::key::Kind;

    #[test]
    fn f34_rejected_object_is_retried_with_exponential_backoff() {
        let refusals = Refusals::default();
        let key = ResourceKey::new(Kind::ConfigMap, "n", "a");
        let (one, other) = (json!({"data": {"a": "1"}}), json!({"data": {"a": "2"}}));
        let no = || Err(CallError::Refused("no".to_owned()));
        let at = Duration::from_millis;
        assert!(refusals.check(&key, &one, None, at(0)).is_ok());
        assert!(refusals.note(&key, &one, no(), at(0)).is_err());
        assert!(refusals.check(&key, &one, None, at(499)).is_err());
        assert!(
            refusals.check(&key, &other, None, at(1)).is_ok(),
            "a different object may be sent"
        );
        assert!(refusals.check(&key, &one, None, at(500)).is_ok());
        assert!(refusals.note(&key, &one, no(), at(500)).is_err());
        assert!(refusals.check(&key, &one, None, at(1_499)).is_err());
        for _ in 0..20 {
            assert!(refusals.note(&key, &one, no(), at(2_000)).is_err());
        }
        assert!(refusals.check(&key, &one, None, at(32_000)).is_ok(), "never longer than {MOST:?}");
        assert!(refusals.note(&key, &one, Ok(one.clone()), at(32_000)).is_ok());
        assert!(refusals.check(&key, &one, None, at(32_000)).is_ok());
    }

    #[test]
    fn forgotten_keys_leave_nothing_behind() {
        let refusals = Refusals::default();
        let key = ResourceKey::new(Kind::ConfigMap, "n", "a");
        let no = Err(CallError::Refused("no".to_owned()));
        assert!(refusals.note(&key, &json!({}), no, Duration::ZERO).is_err());
        refusals.forget([&key].into_iter());
        assert!(refusals.seen.lock().unwrap().is_empty());
    }
}
