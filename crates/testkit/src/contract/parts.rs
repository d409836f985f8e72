//! Optional kinds, where the cluster serves them: stored like any other.

use serde_json::{Value, json};
use trueup_cluster::CallError;
use trueup_model::key::Kind;

use super::place::{labelled, text};
use super::{Check, Place};

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("ingress_is_stored_as_written", |at| {
        let spec = |host: &str| json!({ "rules": [{ "host": host }] });
        Box::pin(is_stored_as_written(at, Kind::Ingress, spec))
    }),
    ("http_route_is_stored_as_written", |at| {
        let paths = json!([{ "path": { "type": "PathPrefix", "value": "/" } }]);
        let spec =
            move |host: &str| json!({ "hostnames": [host], "rules": [{ "matches": paths }] });
        Box::pin(is_stored_as_written(at, Kind::HttpRoute, spec))
    }),
    ("certificate_is_stored_as_written", |at| {
        let spec = |host: &str| json!({ "dnsNames": [host], "secretName": "web", "issuerRef": { "name": "ca" } });
        Box::pin(is_stored_as_written(at, Kind::Certificate, spec))
    }),
    ("service_monitor_is_stored_as_written", |at| {
        let spec = |host: &str| {
            let selector = json!({ "matchLabels": { "host": host } });
            json!({ "endpoints": [{ "port": "metrics" }], "selector": selector })
        };
        Box::pin(is_stored_as_written(at, Kind::ServiceMonitor, spec))
    }),
];

/// The specs say everything that the schema of the kind has a default for.
async fn is_stored_as_written(at: &Place, kind: Kind, spec: impl Fn(&str) -> Value) {
    let key = at.key(kind, "web");
    let mut object = labelled(&key);
    object["spec"] = spec("one.example.org");
    let created = at.apply(&key, &object).await;
    assert_eq!(
        (&created["kind"], &created["apiVersion"]),
        (&json!(kind.as_str()), &json!(kind.api_version()))
    );
    assert_eq!(
        (&created["spec"], &created["metadata"]["generation"]),
        (&object["spec"], &json!(1))
    );
    assert_eq!(at.apply(&key, &object).await, created, "applying the same again changes nothing");
    assert_eq!(at.listed(kind).await, std::slice::from_ref(&created));
    // The generation follows the spec.
    object["metadata"]["labels"]["extra"] = "yes".into();
    assert_eq!(at.apply(&key, &object).await["metadata"]["generation"], 1);
    object["spec"] = spec("two.example.org");
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
