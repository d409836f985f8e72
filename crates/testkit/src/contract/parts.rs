//! Kinds that a service can do without, where the cluster serves them: kept like any other.

use serde_json::{Value, json};
use trueup_cluster::CallError;
use trueup_model::key::Kind;

use super::place::{labelled, text};
use super::{Check, Place};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("an_ingress_is_kept_as_it_is_written", |at| {
        Box::pin(is_kept(at, Kind::Ingress, json!({ "rules": [{ "host": "one.example.org" }] })))
    }),
    ("a_route_is_kept_as_it_is_written", |at| {
        Box::pin(is_kept(at, Kind::HttpRoute, json!({ "hostnames": ["one.example.org"] })))
    }),
    ("a_certificate_is_kept_as_it_is_written", |at| {
        Box::pin(is_kept(at, Kind::Certificate, json!({ "dnsNames": ["one.example.org"] })))
    }),
    ("a_monitor_is_kept_as_it_is_written", |at| {
        Box::pin(is_kept(at, Kind::ServiceMonitor, json!({ "endpoints": [{ "port": "metrics" }] })))
    }),
];

async fn is_kept(at: &Place, kind: Kind, spec: Value) {
    let key = at.key(kind, "web");
    let mut object = labelled(&key);
    object["spec"] = spec.clone();
    let made = at.apply(&key, &object).await;
    assert_eq!(
        (&made["kind"], &made["apiVersion"]),
        (&json!(kind.as_str()), &json!(kind.api_version()))
    );
    assert_eq!((&made["spec"], &made["metadata"]["generation"]), (&spec, &json!(1)));
    assert_eq!(at.apply(&key, &object).await, made, "the same again is no change");
    assert_eq!(at.listed(kind).await, std::slice::from_ref(&made));
    // The generation follows the spec, and what we stop saying goes.
    object["metadata"]["labels"]["extra"] = "yes".into();
    assert_eq!(at.apply(&key, &object).await["metadata"]["generation"], 1);
    object["spec"] = json!({ "rules": [{ "host": "two.example.org" }] });
    let changed = at.apply(&key, &object).await;
    assert_eq!(
        (&changed["spec"], &changed["metadata"]["generation"]),
        (&object["spec"], &json!(2))
    );
    let old = at.cluster.delete(&key, &text(&made, "uid"), &text(&made, "resourceVersion")).await;
    assert!(matches!(old, Err(CallError::Conflict(_))), "{old:?}");
    at.delete(&key).await;
    at.until_gone(&key).await;
}
