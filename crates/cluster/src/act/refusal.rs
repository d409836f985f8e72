//! Writes that the cluster does not take as they are: refused, or changed on their way in.
//!
//! Every event of a unit plans it anew, so without a memory a refused object would be offered as
//! often as its pods change, and a field that an admission webhook sets would be fought for ever.
//! What was offered and what came of it is remembered: a refused object is offered again only after
//! a pause that grows, and a changed one only when something about it is different.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use trueup_model::key::ResourceKey;
use trueup_rules::compare::diff::first_difference;

use crate::verbs::CallError;

/// Between two offers of a refused object: doubled each time, up to the second value.
const LEAST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_secs(30);

/// What the cluster did not take.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    seen: Mutex<HashMap<ResourceKey, Refusal>>,
}

#[derive(Debug)]
struct Refusal {
    offered: Value,
    words: String,
    why: Why,
}

#[derive(Debug)]
enum Why {
    /// It said no, so many times; until then it is not asked again.
    Refused { times: u32, until: Duration },
    /// It stored this instead, less what changes by itself.
    Changed { stored: Value },
}

impl Refusals {
    /// Nothing is offered under these keys any more.
    pub(crate) fn forget<'a>(&self, keys: impl Iterator<Item = &'a ResourceKey>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            seen.remove(key);
        }
    }

    /// Refuses to offer what is known not to be taken now.
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
        if still { Err(CallError::Refused(known.words.clone())) } else { Ok(()) }
    }

    /// Takes note of what came of an offer, and answers it.
    pub(crate) fn note(
        &self,
        key: &ResourceKey,
        object: &Value,
        answer: Result<Value, CallError>,
        now: Duration,
    ) -> Result<Value, CallError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // A version in what is offered is a guard, and no content.
        let object = &content(object);
        let (words, why) = match &answer {
            Err(CallError::Refused(words)) => {
                let times = match seen.get(key).filter(|known| known.offered == *object) {
                    Some(Refusal { why: Why::Refused { times, .. }, .. }) => {
                        times.saturating_add(1)
                    }
                    Some(_) | None => 0,
                };
                let pause = (LEAST * 2_u32.saturating_pow(times.min(6))).min(MOST);
                (words.clone(), Why::Refused { times, until: now + pause })
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
        seen.insert(key.clone(), Refusal { offered: object.clone(), words, why });
        answer
    }

    /// Takes note of what came of taking something out. Where it is still there, somebody puts it back on
    /// the way in, and the same is not tried again on the same.
    pub(crate) fn note_prune(&self, key: &ResourceKey, patch: &Value, stored: &Value) {
        let words = "what is taken out of it is put back at once; find the admission webhook that does \
                     so, and let it leave Trueup's objects alone";
        let refusal = Refusal {
            offered: content(patch),
            words: words.to_owned(),
            why: Why::Changed { stored: content(stored) },
        };
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), refusal);
    }
}

fn changed(field: &str) -> String {
    format!(
        "the cluster changes {field} while it is written; find the admission webhook that does so, and \
         let it leave Trueup's objects alone"
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
    fn f34_a_refused_object_is_offered_again_after_a_pause_that_grows() {
        let refusals = Refusals::default();
        let key = ResourceKey::new(Kind::ConfigMap, "n", "a");
        let (one, other) = (json!({"data": {"a": "1"}}), json!({"data": {"a": "2"}}));
        let no = || Err(CallError::Refused("no".to_owned()));
        let at = Duration::from_millis;
        assert!(refusals.check(&key, &one, None, at(0)).is_ok());
        assert!(refusals.note(&key, &one, no(), at(0)).is_err());
        assert!(refusals.check(&key, &one, None, at(499)).is_err());
        assert!(refusals.check(&key, &other, None, at(1)).is_ok(), "something else may be offered");
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
    fn what_is_gone_for_good_is_remembered_no_longer() {
        let refusals = Refusals::default();
        let key = ResourceKey::new(Kind::ConfigMap, "n", "a");
        let no = Err(CallError::Refused("no".to_owned()));
        assert!(refusals.note(&key, &json!({}), no, Duration::ZERO).is_err());
        refusals.forget([&key].into_iter());
        assert!(refusals.seen.lock().unwrap().is_empty());
    }
}
