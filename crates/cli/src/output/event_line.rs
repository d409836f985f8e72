//! An event as one line that a person can read aloud: when, what, and the detail.

use serde_json::Value;
use trueup_api::event::CloudEvent;
use trueup_model::event::{Source, wire_source};

use crate::output::human::{clean, clock_time, count};
use crate::output::style::{self, Paint, Style};

const WIDTH: usize = 18;

/// The event's type without what is the same in all of them: `ServicePhaseChanged`.
pub fn short_type(event: &CloudEvent) -> &str {
    let kind = event.kind.strip_prefix("dev.trueup.").unwrap_or(&event.kind);
    kind.split('.').next().unwrap_or(kind)
}

/// The line. A type that is not known here is shown as it is, so an older client hides nothing.
pub fn event_line(event: &CloudEvent, style: Style) -> String {
    let (paint, what, detail) = words(event);
    let pad = " ".repeat(WIDTH.saturating_sub(what.chars().count()));
    let line = format!(
        "{}  {}{pad}  {}",
        style.paint(Paint::Faint, &clock_time(event.time)),
        style.paint(paint, &clean(&what)),
        clean(&detail)
    );
    line.trim_end().to_owned()
}

/// Who asked, and by which exact preview.
fn accepted(data: &Value) -> String {
    let by = text(data, "principal").map(|by| format!(", asked by {by}"));
    let plan = text(data, "plan").map(|plan| format!(", as planned by {plan}"));
    format!("{}{}", by.unwrap_or_default(), plan.unwrap_or_default())
}

fn words(event: &CloudEvent) -> (Paint, String, String) {
    let data = &event.data;
    let generation = format!("generation {}", event.generation);
    let (paint, what, detail) = match short_type(event) {
        "ProjectQueued" => (Paint::Strong, "project accepted", generation),
        "ProjectDeleteQueued" => (Paint::Strong, "project deletion", ending(data)),
        "ProjectForceQueued" => (Paint::Strong, "end without proof", because(data)),
        "ServiceQueued" => {
            let deletes = data.get("deletes").and_then(Value::as_bool).unwrap_or(false);
            let what = if deletes { "deletion accepted" } else { "accepted" };
            (Paint::Strong, what, format!("{generation}{}", accepted(data)))
        }
        "ReconcileStarted" => (Paint::Plain, "begun", generation),
        "ReconcileSucceeded" => {
            (Paint::Good, "applied", format!("the cluster carries {generation}"))
        }
        "ReconcileFailed" => (Paint::Bad, "failed, tried again", why(data)),
        "ReconcileDeferred" => (Paint::Busy, "deferred", why(data)),
        "ResourceCreated" => (Paint::Plain, "created", key(data)),
        "ResourceUpdated" => (Paint::Plain, "updated", key(data)),
        "ResourceRemoved" => (Paint::Plain, "removed", key(data)),
        "ResourceDeletedExternally" => {
            (Paint::Busy, "deleted by others", format!("{}; it is made again", key(data)))
        }
        "ResourceModifiedExternally" => (Paint::Busy, "edited by others", drifted(data)),
        "DriftDetected" => (Paint::Busy, "drift detected", drifted(data)),
        "DriftReverted" => (Paint::Busy, "drift reverted", drifted(data)),
        "ServicePhaseChanged" => return phase(data),
        "AbsenceVerified" => {
            let keys = data.get("keys").and_then(Value::as_u64).unwrap_or(0);
            let keys = count(usize::try_from(keys).unwrap_or(usize::MAX), "object");
            (Paint::Good, "absence verified", format!("{keys} proved to be gone"))
        }
        kind if kind.ends_with("DeleteForced") => (Paint::Bad, "deletion forced", forced(data)),
        "WakeRequeued" => (Paint::Busy, "requeued", by(data)),
        "ReconcileRequested" => (Paint::Busy, "reconcile asked for", by(data)),
        "ReconcileChecked" => {
            let outcome = text(data, "outcome").unwrap_or("unknown").to_owned();
            (Paint::Good, "looked at afresh", outcome)
        }
        "ServiceFrozen" | "PlatformFrozen" => (Paint::Strong, "frozen", frozen(data)),
        "ServiceUnfrozen" | "PlatformUnfrozen" => (Paint::Strong, "unfrozen", frozen(data)),
        kind if kind.starts_with("Finding") => finding(kind, data),
        "OrgCreated" => (Paint::Strong, "org made", asked(data)),
        "TokenCreated" => {
            let role = text(data, "role").unwrap_or("unknown role");
            (Paint::Busy, "token made", format!("{role} {}", asked(data)))
        }
        "TokenRevoked" => (Paint::Busy, "token revoked", asked(data)),
        "PlanChanged" => {
            let plan = text(data, "plan").unwrap_or_default();
            (Paint::Busy, "plan changed", format!("{plan}, {}", asked(data)))
        }
        "TemplatePublished" => {
            let template = text(data, "template").unwrap_or_default();
            (Paint::Good, "template published", format!("{template}, {}", asked(data)))
        }
        "TemplateDeprecated" => {
            let template = text(data, "template").unwrap_or_default();
            (Paint::Busy, "template deprecated", format!("{template}, {}", asked(data)))
        }
        "RoutingChanged" => {
            let cluster = text(data, "cluster").unwrap_or_default();
            (Paint::Busy, "routing changed", format!("cluster {cluster}, {}", asked(data)))
        }
        "ClusterReplaced" => {
            let cluster = text(data, "cluster").unwrap_or_default();
            (Paint::Busy, "cluster replaced", format!("cluster {cluster} is another one now"))
        }
        "QuotaChanged" => (Paint::Busy, "quota changed", asked(data)),
        "EndpointOpened" => (Paint::Strong, "endpoint opened", port(data)),
        "EndpointClosed" => (Paint::Strong, "endpoint closed", port(data)),
        kind if kind.starts_with("Domain") => domain(kind, event),
        "VariableSet" => (Paint::Strong, "variable set", entry(data)),
        "VariableDeleted" => (Paint::Strong, "variable deleted", entry(data)),
        "SecretSet" => (Paint::Strong, "secret set", entry(data)),
        "SecretDeleted" => (Paint::Strong, "secret deleted", entry(data)),
        other => return (Paint::Plain, other.to_owned(), data.to_string()),
    };
    (paint, what.to_owned(), detail)
}

/// What a sweep found, and what became of it.
fn finding(kind: &str, data: &Value) -> (Paint, &'static str, String) {
    let key = key(data);
    match kind {
        "FindingOpened" => {
            let class = text(data, "class").unwrap_or("unknown");
            (Paint::Busy, "found", format!("{key}, {class}: nothing records it"))
        }
        "FindingRemovalRequested" => {
            (Paint::Strong, "removal asked for", format!("{key}, {}", by(data)))
        }
        "FindingKept" => (Paint::Bad, "not removed", format!("{key}: {}", why(data))),
        _ => (Paint::Good, "finding closed", format!("{key}: {}", why(data))),
    }
}

/// Who ends a project, and how many services with it.
fn ending(data: &Value) -> String {
    let services = data.get("services").and_then(Value::as_u64).unwrap_or(0);
    let services = count(usize::try_from(services).unwrap_or(usize::MAX), "service");
    format!("accepted with {services}, {}", by(data))
}

/// What became of a host name.
fn domain(kind: &str, event: &CloudEvent) -> (Paint, &'static str, String) {
    let data = &event.data;
    match kind {
        "DomainVerified" if data["verified"] == false => {
            (Paint::Busy, "domain not verified any more", host(data))
        }
        "DomainVerified" if event.source == wire_source(Source::System.as_str()) => {
            let host = text(data, "host").unwrap_or("?");
            (Paint::Good, "domain verified", format!("{host}, its record is in DNS"))
        }
        "DomainVerified" => (Paint::Good, "domain verified", host(data)),
        "DomainCheckRequested" => (Paint::Busy, "looking into DNS", host(data)),
        "DomainContested" => {
            let (host, by) =
                (text(data, "host").unwrap_or("?"), text(data, "claimant").unwrap_or("?"));
            (Paint::Bad, "domain contested", format!("{host} is another org's, and DNS names {by}"))
        }
        "DomainRemoved" => (Paint::Strong, "domain removed", host(data)),
        _ => (Paint::Strong, "domain added", host(data)),
    }
}

/// Who gave up the proof, why, and of how much.
fn forced(data: &Value) -> String {
    let left = data.get("unproven").and_then(Value::as_u64).unwrap_or(0);
    let left = count(usize::try_from(left).unwrap_or(usize::MAX), "object");
    format!("{left} not proved gone: {}", because(data))
}

fn because(data: &Value) -> String {
    format!("{}, {}", text(data, "reason").unwrap_or_default(), by(data))
}

fn phase(data: &Value) -> (Paint, String, String) {
    let phase = text(data, "phase").unwrap_or("unknown");
    let health = text(data, "health").unwrap_or("unknown");
    let paint = match phase {
        "running" | "completed" => style::health(health),
        _ => style::phase(phase),
    };
    let detail = match text(data, "message") {
        Some(message) => format!("{health}: {message}"),
        None => health.to_owned(),
    };
    (paint, phase.to_owned(), detail)
}

fn text<'a>(data: &'a Value, field: &str) -> Option<&'a str> {
    data.get(field).and_then(Value::as_str)
}

fn entry(data: &Value) -> String {
    let version = data.get("version").and_then(Value::as_i64).unwrap_or(0);
    let by = text(data, "principal").unwrap_or("somebody");
    format!("{}, version {version}, asked by {by}", text(data, "name").unwrap_or("?"))
}

fn host(data: &Value) -> String {
    format!("{}, {}", text(data, "host").unwrap_or("?"), asked(data))
}

fn port(data: &Value) -> String {
    let number = data.get("node_port").and_then(Value::as_u64).unwrap_or(0);
    let by = text(data, "principal").unwrap_or("somebody");
    format!("{}, port {number}, asked by {by}", text(data, "name").unwrap_or("?"))
}

fn by(data: &Value) -> String {
    format!("asked by {}", text(data, "principal").unwrap_or("somebody"))
}

/// What is meant, why, and by whom.
fn frozen(data: &Value) -> String {
    let cluster = text(data, "cluster").map(|cluster| format!("cluster {cluster}, "));
    let reason = text(data, "reason").map(|reason| format!("{reason}, "));
    format!("{}{}{}", cluster.unwrap_or_default(), reason.unwrap_or_default(), by(data))
}

/// Which, and by whom.
fn asked(data: &Value) -> String {
    let by = text(data, "principal").map(|by| format!(", asked by {by}"));
    format!("{}{}", text(data, "name").unwrap_or("?"), by.unwrap_or_default())
}

fn why(data: &Value) -> String {
    text(data, "why").unwrap_or("no reason was given").to_owned()
}

fn key(data: &Value) -> String {
    let key = data.get("key").unwrap_or(&Value::Null);
    format!("{}/{}", text(key, "kind").unwrap_or("object"), text(key, "name").unwrap_or("?"))
}

/// An object, the first field of it that differed, and who wrote it.
fn drifted(data: &Value) -> String {
    let by = text(data, "by").map(|by| format!(", by {by}")).unwrap_or_default();
    format!("{}: {}{by}", key(data), text(data, "field").unwrap_or("a field"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(kind: &str, data: &Value) -> String {
        let event: CloudEvent = serde_json::from_value(json!({
            "specversion": "1.0", "id": "evt_1", "source": "/trueup/reconciler",
            "type": format!("dev.trueup.{kind}.v1"), "subject": "svc_1",
            "time": "2026-01-02T03:04:05Z", "datacontenttype": "application/json",
            "sequence": "7", "generation": 2, "orgid": "org_1", "hash": "0", "data": data,
        }))
        .unwrap();
        event_line(&event, Style::new(false))
    }

    #[test]
    fn events_are_sentences() {
        let key = json!({ "kind": "Deployment", "namespace": "shop", "name": "web-1" });
        for (kind, data, end) in [
            (
                "ServiceQueued",
                json!({"deletes": false, "principal": "owner"}),
                "accepted            generation 2, asked by owner",
            ),
            ("ServiceQueued", json!({"deletes": true}), "deletion accepted   generation 2"),
            ("ResourceCreated", json!({ "key": key }), "created             Deployment/web-1"),
            (
                "ResourceModifiedExternally",
                json!({ "key": key, "field": "spec.replicas", "by": "kubectl-edit" }),
                "edited by others    Deployment/web-1: spec.replicas, by kubectl-edit",
            ),
            ("ReconcileStarted", json!({}), "begun               generation 2"),
            (
                "ServicePhaseChanged",
                json!({"phase": "running", "health": "healthy", "message": null}),
                "running             healthy",
            ),
            (
                "ServicePhaseChanged",
                json!({"phase": "creating", "health": "progressing", "message": "no image"}),
                "creating            progressing: no image",
            ),
            (
                "ReconcileDeferred",
                json!({"why": "the cluster\u{1b} is away"}),
                "deferred            the cluster  is away",
            ),
            (
                "AbsenceVerified",
                json!({"keys": 6}),
                "absence verified    6 objects proved to be gone",
            ),
            (
                "ProjectDeleteQueued",
                json!({"principal": "owner", "services": 2}),
                "project deletion    accepted with 2 services, asked by owner",
            ),
            (
                "ServiceDeleteForced",
                json!({"principal": "owner", "reason": "the node burnt", "unproven": 2}),
                "deletion forced     2 objects not proved gone: the node burnt, asked by owner",
            ),
            (
                "ProjectForceQueued",
                json!({"principal": "owner", "reason": "nobody runs it"}),
                "end without proof   nobody runs it, asked by owner",
            ),
            (
                "ProjectDeleteForced",
                json!({"principal": "owner", "reason": "nobody runs it", "unproven": 1}),
                "deletion forced     1 object not proved gone: nobody runs it, asked by owner",
            ),
            (
                "SecretSet",
                json!({"name": "KEY", "version": 2, "principal": "ann"}),
                "secret set          KEY, version 2, asked by ann",
            ),
            (
                "TokenCreated",
                json!({"token": "tok_1", "name": "ci", "role": "viewer", "principal": "owner"}),
                "token made          viewer ci, asked by owner",
            ),
            ("SomethingNew", json!({"a": 1}), "SomethingNew        {\"a\":1}"),
        ] {
            assert_eq!(line(kind, &data), format!("03:04:05Z  {end}"));
        }
    }
}
