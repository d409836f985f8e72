//! The absence receipt, for people: what was proved to be gone, when, and how much that proves.

use serde_json::Value;
use trueup_model::receipt::{ProofLevel, Receipt};

use super::human::{clean, count, moment};

/// The receipt's lines. One that cannot be read here is shown as it is.
pub(crate) fn lines(receipt: &Value) -> Vec<String> {
    let Ok(receipt) = serde_json::from_value::<Receipt>(receipt.clone()) else {
        return vec![receipt.to_string()];
    };
    let level = match receipt.level {
        ProofLevel::ApiAbsence => "API absence: the cluster has no object under any of these keys",
    };
    let mut lines = vec![
        format!("verified at   {}", moment(receipt.verified_at)),
        format!("proof level   {level}"),
        format!("observer      {}", clean(&receipt.observer)),
        format!("absent        {}", count(receipt.absent.len(), "object")),
    ];
    lines.extend(receipt.absent.iter().map(|absence| {
        let uid = absence.uid.as_deref().unwrap_or("never seen");
        format!("  {}  {}", clean(&absence.key.to_string()), clean(uid))
    }));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_uids_time_and_level_are_shown() {
        let receipt = json!({
            "absent": [
                { "key": { "kind": "Deployment", "namespace": "shop", "name": "web" }, "uid": "u-1" },
                { "key": { "kind": "Secret", "namespace": "shop", "name": "web" }, "uid": null },
            ],
            "observer": "local", "began_at": "2026-01-01T00:00:00Z",
            "verified_at": "2026-01-01T00:00:01Z", "level": "api_absence",
        });
        assert_eq!(
            lines(&receipt),
            [
                "verified at   2026-01-01 00:00:01Z",
                "proof level   API absence: the cluster has no object under any of these keys",
                "observer      local",
                "absent        2 objects",
                "  Deployment/shop/web  u-1",
                "  Secret/shop/web  never seen",
            ]
        );
        assert_eq!(lines(&json!({ "new": 1 })), ["{\"new\":1}"]);
    }
}
