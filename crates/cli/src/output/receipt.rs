//! Prints a deletion receipt: what was verified absent, when, and at which proof level.

use trueup_model::receipt::{ProofLevel, Receipt};
use trueup_model::survey::Remains;

use crate::output::human::{clean, count, moment};

/// The lines of a receipt.
pub fn lines(receipt: &Receipt) -> Vec<String> {
    let mut lines = vec![
        format!("verified at   {}", moment(receipt.verified_at)),
        format!("proof level   {}", level(receipt.level)),
        format!("observer      {}", clean(&receipt.observer)),
    ];
    if let [first, .., last] = receipt.reads.as_slice() {
        let (first, last) = (moment(first.began_at), moment(last.began_at));
        lines.push(format!("read          at {first} and again at {last}"));
    }
    if let Some(survey) = &receipt.survey {
        let (at, kinds) = (moment(survey.at), count(survey.kinds.len(), "kind"));
        lines.push(format!("surveyed      its namespace at {at}: {kinds}, no foreign objects"));
    }
    if let Some(force) = &receipt.force {
        lines.push(format!("forced by     {}", clean(&force.principal)));
        lines.push(format!("reason        {}", clean(&force.reason)));
    }
    lines.extend(receipt.unconfirmed.iter().map(|pod| {
        let (name, node) = (clean(&pod.name), clean(&pod.node));
        format!("not confirmed pod {name}: its processes on node {node} were not seen to end")
    }));
    if !receipt.unproven.is_empty() {
        lines.push(format!("not proven    {}", count(receipt.unproven.len(), "object")));
        lines.extend(receipt.unproven.iter().map(|left| {
            let (key, why) = (clean(&left.key.to_string()), clean(&left.why));
            format!("  {key}  {}  {why}", clean(left.uid.as_deref().unwrap_or("never seen")))
        }));
    }
    lines.extend(receipt.remains.iter().flat_map(remaining));
    lines.push(format!("absent        {}", count(receipt.absent.len(), "object")));
    lines.extend(receipt.absent.iter().map(|absence| {
        let uid = absence.uid.as_deref().unwrap_or("never seen");
        format!("  {}  {}", clean(&absence.key.to_string()), clean(uid))
    }));
    lines
}

/// Other objects that a forced deletion left in the project's namespace.
fn remaining(remains: &Remains) -> Vec<String> {
    let mut lines =
        vec![format!("also left     {} in its namespace", count(remains.count(), "object"))];
    lines.extend(remains.objects.iter().map(|item| {
        let finalizers = match item.finalizers.as_slice() {
            [] => String::new(),
            names => format!("  finalizers {}", clean(&names.join(", "))),
        };
        format!("  {}/{}  {}{finalizers}", clean(&item.kind), clean(&item.name), clean(&item.uid))
    }));
    if remains.more > 0 {
        lines.push(format!("  and {} more", remains.more));
    }
    lines.extend(
        remains
            .unread
            .iter()
            .map(|unread| format!("  not read: {} ({})", clean(&unread.what), clean(&unread.why))),
    );
    lines
}

const fn level(level: ProofLevel) -> &'static str {
    match level {
        ProofLevel::ApiAbsence => "API absence: the cluster has no object under any of these keys",
        ProofLevel::ProcessesUnconfirmed => {
            "API absence only: some processes were not seen to end, see below"
        }
        ProofLevel::Forced => "forced: the deletion was completed without full proof of absence",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn receipt_shows_keys_uids_time_and_level() {
        let receipt = json!({
            "absent": [
                { "key": { "kind": "Deployment", "namespace": "shop", "name": "web" }, "uid": "u-1" },
                { "key": { "kind": "Secret", "namespace": "shop", "name": "web" }, "uid": null },
            ],
            "observer": "local", "began_at": "2026-01-01T00:00:00Z",
            "verified_at": "2026-01-01T00:00:01Z", "level": "api_absence",
        });
        assert_eq!(
            lines(&serde_json::from_value(receipt).unwrap()),
            [
                "verified at   2026-01-01 00:00:01Z",
                "proof level   API absence: the cluster has no object under any of these keys",
                "observer      local",
                "absent        2 objects",
                "  Deployment/shop/web  u-1",
                "  Secret/shop/web  never seen",
            ]
        );
    }

    #[test]
    fn unproven_objects_are_shown_with_the_reason() {
        let receipt = json!({
            "absent": [], "observer": "local", "began_at": "2026-01-01T00:00:00Z",
            "verified_at": "2026-01-01T00:00:21Z", "level": "forced",
            "reads": [
                { "began_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:01Z" },
                { "began_at": "2026-01-01T00:00:20Z", "ended_at": "2026-01-01T00:00:21Z" },
            ],
            "unproven": [{
                "key": { "kind": "Secret", "namespace": "shop", "name": "web" }, "uid": "u-1",
                "why": "it is still there",
            }],
            "unconfirmed": [{ "name": "web-0", "uid": "u-2", "node": "node-1" }],
            "force": { "principal": "owner", "reason": "the node burnt" },
            "remains": {
                "objects": [{ "kind": "Widget", "name": "kept", "uid": "u-3", "going": true,
                              "finalizers": ["example.com/hold"] }],
                "more": 2,
                "unread": [{ "what": "metrics.example.com/v1", "why": "it does not answer" }],
            },
        });
        assert_eq!(
            lines(&serde_json::from_value(receipt).unwrap())[1..],
            [
                "proof level   forced: the deletion was completed without full proof of absence",
                "observer      local",
                "read          at 2026-01-01 00:00:00Z and again at 2026-01-01 00:00:20Z",
                "forced by     owner",
                "reason        the node burnt",
                "not confirmed pod web-0: its processes on node node-1 were not seen to end",
                "not proven    1 object",
                "  Secret/shop/web  u-1  it is still there",
                "also left     3 objects in its namespace",
                "  Widget/kept  u-3  finalizers example.com/hold",
                "  and 2 more",
                "  not read: metrics.example.com/v1 (it does not answer)",
                "absent        0 objects",
            ]
        );
    }
}
