//! Stages: the cluster after a step, and their comparison.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use trueup_rules::render::names;

/// The cluster after a step: every object by its key, without uids, versions and times.
pub type Stage = BTreeMap<String, Value>;

/// The prefix of uids in a [`FakeCluster`](crate::fake_cluster::FakeCluster); digits follow.
const UID: &str = "00000000-0000-4000-8000-";
const UID_DIGITS: usize = 12;
/// What precedes the number in the name of an anchor.
const ANCHOR: &str = "-anchor-";

/// The differences between two stages, as messages.
#[must_use]
pub fn compare(expected: &Stage, stage: &Stage) -> Vec<String> {
    let mut wrong = Vec::new();
    let keys: BTreeSet<&String> = expected.keys().chain(stage.keys()).collect();
    for key in keys {
        match (expected.get(key), stage.get(key)) {
            (Some(one), Some(other)) => {
                for field in differences(one, other, String::new()) {
                    let (one, other) = (one.pointer(&field), other.pointer(&field));
                    wrong
                        .push(format!("{key} differs at {field}: expected {one:?}, got {other:?}"));
                }
            }
            (Some(_), None) => wrong.push(format!("{key} is missing")),
            (None, Some(_)) => wrong.push(format!("{key} is left over")),
            (None, None) => {}
        }
    }
    wrong
}

/// The fields that differ between two objects, as JSON pointers.
#[must_use]
pub fn differences(one: &Value, other: &Value, at: String) -> Vec<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            names
                .into_iter()
                .flat_map(|name| {
                    let below = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                    let read = |fields: &serde_json::Map<String, Value>| {
                        fields.get(name).cloned().unwrap_or(Value::Null)
                    };
                    differences(&read(one), &read(other), below)
                })
                .collect()
        }
        (one, other) if one == other => Vec::new(),
        _ => vec![at],
    }
}

/// The stage without identity, so that recreated objects equal the original ones.
///
/// Removes numbers of anchors, uids, and the digests and proofs computed from them.
///
/// # Panics
/// Never: the replaced text is valid JSON.
#[must_use]
pub fn without_identity(stage: &Stage) -> Stage {
    let normal = |(key, object): (&String, &Value)| {
        let mut object = object.clone();
        let has_owner = object.pointer("/metadata/ownerReferences").is_some();
        let is_anchor = key.contains(ANCHOR);
        if has_owner || is_anchor {
            forget(&mut object, "/metadata/annotations", names::DIGEST_ANNOTATION);
        }
        if is_anchor {
            forget(&mut object, "/metadata/annotations", names::PROOF_ANNOTATION);
        }
        let text = neutral(&object.to_string());
        (neutral(key), text.parse().expect("the replaced text should be valid JSON"))
    };
    stage.iter().map(normal).collect()
}

/// The stage without identity and without the generation that last wrote each object.
#[must_use]
pub fn without_generations(stage: &Stage) -> Stage {
    let mut stage = without_identity(stage);
    for (key, object) in &mut stage {
        forget(object, "/metadata/labels", names::GENERATION_LABEL);
        forget(object, "/metadata/annotations", names::DIGEST_ANNOTATION);
        if key.contains(ANCHOR) {
            forget(object, "/data", "generation");
        }
    }
    stage
}

/// The stage without these fields: JSON pointers, each with the key of its object.
#[must_use]
pub fn without_fields<'a>(
    stage: &Stage,
    fields: impl IntoIterator<Item = (String, &'a str)>,
) -> Stage {
    let mut stage = stage.clone();
    for (key, field) in fields {
        if let (Some(object), Some((parent, name))) = (stage.get_mut(&key), field.rsplit_once('/'))
        {
            forget(object, parent, name);
        }
    }
    stage
}

/// The text without numbers of anchors and without uids.
#[must_use]
pub fn neutral(text: &str) -> String {
    let mut parts = text.split(ANCHOR);
    let mut neutral = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        neutral.push_str(ANCHOR);
        neutral.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    }
    let mut parts = neutral.split(UID);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("UID");
        text.push_str(part.get(UID_DIGITS..).unwrap_or_default());
    }
    text
}

fn forget(object: &mut Value, fields: &str, name: &str) {
    if let Some(fields) = object.pointer_mut(fields).and_then(Value::as_object_mut) {
        fields.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn neutral_text_has_no_anchor_number_and_no_uid() {
        let text = r#"{"a":"it-1-anchor-12","b":"00000000-0000-4000-8000-00000000001f"}"#;
        assert_eq!(neutral(text), r#"{"a":"it-1-anchor-","b":"UID"}"#);
    }

    #[test]
    fn comparison_names_missing_extra_and_different_objects() {
        let stage = |objects: &[(&str, Value)]| -> Stage {
            objects.iter().map(|(key, object)| ((*key).to_owned(), object.clone())).collect()
        };
        let expected = stage(&[("a", json!({ "data": { "x": 1 } })), ("b", json!({}))]);
        let now = stage(&[("a", json!({ "data": { "x": 2 } })), ("c", json!({}))]);
        let wrong = compare(&expected, &now);
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong[0].starts_with("a differs at /data/x"), "{wrong:?}");
        assert_eq!(wrong[1..], ["b is missing", "c is left over"]);
        assert!(compare(&expected, &expected).is_empty());
    }
}
