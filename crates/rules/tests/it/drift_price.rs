//! What drift costs per hour, as a table.

use serde_json::{Value, json};
use trueup_model::drift::{Divergence, DivergenceClass, DivergenceState, Verdict};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::plan::Plan;
use trueup_model::spec::Spec;
use trueup_rules::drift::price::{finding_hourly, hourly};

/// A difference that another writer made.
pub(crate) fn divergence(kind: Kind, field: &str, wanted: Value, live: Value) -> Divergence {
    Divergence {
        key: ResourceKey::new(kind, "shop", "web"),
        field: field.to_owned(),
        class: DivergenceClass::Edited,
        wanted,
        live,
        by: Some("kubectl-edit".to_owned()),
        verdict: Verdict::Enforce,
        state: DivergenceState::Open,
    }
}

fn plan() -> Plan {
    serde_json::from_value(json!({
        "name": "small", "summary": "", "resources": {"cpu_millis": 250, "memory_mib": 256},
        "hourly": {"micros": 6000, "currency": "EUR"}, "disk_gib_hourly_micros": 100,
    }))
    .unwrap()
}

fn spec(change: &Value) -> Spec {
    let mut spec = json!({
        "workload": "deployment", "image": "a", "replicas": 3,
        "resources": {"cpu_millis": 250, "memory_mib": 256},
    });
    for (name, value) in change.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    serde_json::from_value(spec).unwrap()
}

#[test]
fn a_divergence_costs_the_pods_that_are_too_many_or_missing() {
    use DivergenceClass::{BrokenProof, Deleted, Edited, ForeignWriter, Regressed};
    let table = [
        (Kind::Deployment, "spec.replicas", Edited, json!(3), json!(5), 2),
        (Kind::Deployment, "spec.replicas", Edited, json!(3), json!(0), 3),
        (Kind::StatefulSet, "spec.replicas", Edited, json!(3), json!(4), 1),
        (Kind::Deployment, "spec.replicas", Edited, json!(3), json!(null), 2),
        (Kind::Deployment, "spec.paused", ForeignWriter, json!(null), json!(true), 0),
        (Kind::ConfigMap, "spec.replicas", Edited, json!(3), json!(5), 0),
        (Kind::Deployment, "", Deleted, json!(null), json!(null), 3),
        (Kind::Service, "", Deleted, json!(null), json!(null), 0),
        (Kind::Deployment, "metadata.labels", BrokenProof, json!(null), json!(null), 0),
        (Kind::Deployment, "status", Regressed, json!(3), json!(1), 2),
        (Kind::Deployment, "status", Regressed, json!(3), json!(4), 0),
        (Kind::CronJob, "status", Regressed, json!("healthy"), json!("degraded"), 0),
        (Kind::Deployment, "spec.replicas", Edited, json!(i64::MIN), json!(i64::MAX), i64::MAX),
    ];
    for (kind, field, class, wanted, live, pods) in table {
        let text = format!("{class} {field} of {kind}: {wanted} {live}");
        let divergence = Divergence { class, ..divergence(kind, field, wanted, live) };
        let price = hourly(&spec(&json!({})), &plan(), &divergence);
        assert_eq!(price.micros, pods.saturating_mul(6000), "{text}");
    }
    let scaled = spec(&json!({"autoscale": {"min": 1, "max": 5, "cpu_percent": 70}}));
    let gone = divergence(Kind::Deployment, "", json!(null), json!(null));
    let gone = Divergence { class: Deleted, ..gone };
    assert_eq!(hourly(&scaled, &plan(), &gone).micros, 5 * 6000);
}

#[test]
fn an_orphan_costs_what_it_would_be_sold_for() {
    let disk =
        spec(&json!({"workload": "stateful_set", "volume": {"size_gib": 10, "path": "/data"}}));
    let table = [
        (Kind::StatefulSet, 3 * 6000),
        (Kind::PersistentVolumeClaim, 10 * 100),
        (Kind::ConfigMap, 0),
        (Kind::Service, 0),
    ];
    for (kind, micros) in table {
        let price = finding_hourly(kind, &disk, &plan());
        assert_eq!((price.micros, price.currency), (micros, plan().hourly.currency), "{kind}");
    }
}
