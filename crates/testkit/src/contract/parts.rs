//! Optional kinds, where the cluster serves them: stored like any other.

use serde_json::{Value, json};
use trueup_cluster::CallError;
use trueup_model::key::Kind;

use super::place::{labelled, text};
use super::{Check, Place};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("ingress_is_stored_as_written", |at| {
        Box::pin(is_stored_as_written(
            at,
            Kind::Ingress,
            json!({ "rules": [{ "host": "one.example.org" }] }),
        ))
    }),
    ("http_route_is_stored_as_written", |at| {
        Box::pin(is_stored_as_written(
            at,
            Kind::HttpRoute,
            json!({ "hostnames": ["one.example.org"] }),
        ))
    }),
    ("certificate_is_stored_as_written", |at| {
        Box::pin(is_stored_as_written(
            at,
            Kind::Certificate,
            json!({ "dnsNames": ["one.example.org"] }),
        ))
    }),
    ("service_monitor_is_stored_as_written", |at| {
        Box::pin(is_stored_as_written(
            at,
            Kind::ServiceMonitor,
            json!({ "endpoints": [{ "port": "metrics" }] }),
        ))
    }),
];

async fn is_stored_as_written(at: &Place, kind: Kind, spec: Value) {
    let key = at.key(kind, "web");
    let mut object = labelled(&key);
    object["spec"] = spec.clone();
    let created = at.apply(&key, &object).await;
    assert_eq!(
        (&created["kind"], &created["apiVersion"]),
        (&json!(kind.as_str()), &json!(kind.api_version()))
    );
    assert_eq!((&created["spec"], &created["metadata"]["generation"]), (&spec, &json!(1)));
    assert_eq!(at.apply(&key, &object).await, created, "applying the same again changes nothing");
    assert_eq!(at.listed(kind).await, std::slice::from_ref(&created));
    // The generation follows the spec, and fields we stop applying are removed.
    object["metadata"]["labels"]["extra"] = "yes".into();
    assert_eq!(at.apply(&key, &object).await["metadata"]["generation"], 1);
    object["spec"] = json!({ "rules": [{ "host": "two.example.org" }] });
    let changed = at.apply(&key, &object).await;
    assert_eq!(
        (&changed["spec"], &changed["metadata"]["generation"]),
        (&object["spec"], &json!(2))
    );
    let old =
        at.cluster.delete(&key, &text(&created, "uid"), &text(&created, "resourceVersion")).await;
    assert!(matches!(old, Err(CallError::Conflict(_))), "{old:?}");
    at.delete(&key).await;
    at.until_gone(&key).await;
}
