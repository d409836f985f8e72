//! Values as they are recorded in divergences: no secrets, and not more than a few kilobytes.

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;

use crate::render::proof::ProofKey;

/// The most bytes of JSON that are recorded of a value.
const MOST: usize = 4096;

/// How JSON writes the NUL character.
const NUL: &str = "\\u0000";

/// A value as it is recorded. Of a Secret it is a keyed digest: equal values are recognised, and
/// none can be guessed. Of a long value it is the start.
pub(super) fn evidence(
    order: &Order,
    key: &ResourceKey,
    value: &Value,
    proofs: &ProofKey,
) -> Value {
    if value.is_null() {
        return Value::Null;
    }
    let json = value.to_string();
    if key.kind == Kind::Secret {
        return proofs.digest(order.unit, json.as_bytes()).into();
    }
    // Postgres stores no NUL in text. A value with one is recorded as its JSON, without it.
    if json.contains(NUL) {
        let shown: String = json.replace(NUL, "\u{fffd}").chars().take(MOST / 4).collect();
        return shown.into();
    }
    if json.len() <= MOST {
        return value.clone();
    }
    let text = value.as_str().unwrap_or(&json);
    let starts = text.char_indices().map(|(at, _)| at);
    let end = starts.take_while(|at| *at <= MOST).last().unwrap_or_default();
    format!("{}…", text.get(..end).unwrap_or_default()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trueup_model::id::{ClusterId, OrgId, ProjectId};
    use trueup_model::name::Name;
    use trueup_model::project::Project;

    fn recorded(kind: Kind, value: &Value) -> Value {
        let id = uuid::Uuid::from_u128(1);
        let name: Name = "shop".parse().unwrap();
        let order = Order::of_project(&Project {
            id: ProjectId::from_uuid(id),
            org: OrgId::from_uuid(id),
            name,
            cluster: ClusterId::from_uuid(id),
            namespace: "shop-1".to_owned(),
            generation: 1,
            drift: trueup_model::drift::DriftPolicy::default(),
        });
        let key = ResourceKey::new(kind, "shop-1", "web");
        evidence(&order, &key, value, &ProofKey::new(&[7; 32], ClusterId::from_uuid(id)))
    }

    #[test]
    fn a_value_of_a_secret_is_a_digest() {
        let digest = recorded(Kind::Secret, &json!("aHVudGVyMg=="));
        assert!(!digest.to_string().contains("aHVudGVyMg"), "{digest}");
        assert_eq!(digest, recorded(Kind::Secret, &json!("aHVudGVyMg==")));
        assert_ne!(digest, recorded(Kind::Secret, &json!("b3RoZXI=")));
        assert_eq!(recorded(Kind::Secret, &Value::Null), Value::Null, "absence is no secret");
    }

    #[test]
    fn a_value_with_nul_can_be_stored() {
        let found = recorded(Kind::ConfigMap, &json!({"a": "x\u{0}y"}));
        assert_eq!(found, json!("{\"a\":\"x\u{fffd}y\"}"));
    }

    #[test]
    fn a_long_value_is_its_start() {
        let short = json!({"a": "x".repeat(100)});
        assert_eq!(recorded(Kind::ConfigMap, &short), short);
        for long in [json!("ü".repeat(5000)), json!({"a": "ü".repeat(5000)})] {
            let kept = recorded(Kind::ConfigMap, &long);
            let text = kept.as_str().expect("a string");
            assert!(text.ends_with("ü…") && text.len() <= MOST + "ü…".len(), "{}", text.len());
        }
    }
}
