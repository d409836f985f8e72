//! A service field by field: each field says what was observed of it, and nothing more.

use serde_json::{Value, json};
use trueup_model::drift::{
    Divergence, DivergenceClass, DivergenceRecord, DivergenceState, Verdict,
};
use trueup_model::id::DivergenceId;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Observation;
use trueup_model::order::Unit;
use trueup_model::spec::Spec;
use trueup_model::status::Phase;
use trueup_rules::status::comparison::{Compared, FieldState, compare};
use uuid::Uuid;

use crate::given::{at, cluster, org, parameters, service, spec, template};
use crate::projection::inputs;

fn web(image: &str, replicas: u32) -> Spec {
    let given = parameters(json!({"image": image, "replicas": replicas}));
    spec(&template("web"), &given)
}

fn observed(applied: bool) -> Observation {
    Observation { applied, ..inputs(Phase::Running).observation }
}

fn divergence(class: DivergenceClass, field: &str, wanted: Value, live: Value) -> DivergenceRecord {
    DivergenceRecord {
        id: DivergenceId::from_uuid(Uuid::from_u128(1)),
        org: org(),
        unit: Unit::Service(service()),
        cluster: cluster(),
        divergence: Divergence {
            key: ResourceKey::new(Kind::Deployment, "shop", "web"),
            field: field.to_owned(),
            class,
            wanted,
            live,
            by: Some("kubectl-edit".to_owned()),
            verdict: Verdict::Enforce,
            state: DivergenceState::Open,
        },
        first_seen_at: at(1),
        last_seen_at: at(1),
        ended_at: None,
        expires_at: None,
        decided_by: None,
        hourly: None,
    }
}

/// The state and the observed value of a field.
fn field(of: &Compared<'_>, name: &str) -> (FieldState, Option<Value>) {
    let rows = compare(of);
    let row = rows.iter().find(|row| row.field == name);
    let row = row.unwrap_or_else(|| panic!("{name} is not in {rows:#?}"));
    (row.state, row.observed.clone())
}

#[test]
fn field_is_the_same_only_where_a_fresh_pass_proved_it() {
    let (now, observation) = (web("web:1", 3), observed(true));
    let proved = Compared {
        desired: &now,
        applied: Some(&now),
        observation: Some(&observation),
        is_fresh: true,
        divergences: &[],
    };
    assert_eq!(field(&proved, "image"), (FieldState::Same, Some(json!("web:1"))));
    assert_eq!(field(&proved, "replicas"), (FieldState::Same, Some(json!(3))));
    let stale = Compared { is_fresh: false, ..proved };
    assert!(compare(&stale).iter().all(|row| row.state == FieldState::Unknown));
    assert_eq!(field(&stale, "image").1, Some(json!("web:1")), "the last known value");
    let unseen = Compared { observation: None, ..proved };
    assert_eq!(field(&unseen, "image"), (FieldState::Unknown, None));
    let first = Compared { applied: None, observation: None, ..proved };
    assert_eq!(field(&first, "image"), (FieldState::Pending, None));
}

#[test]
fn changed_field_is_pending_until_it_is_applied() {
    let (old, new) = (web("web:1", 3), web("web:2", 3));
    let (before, during) = (observed(true), observed(false));
    let pending = Compared {
        desired: &new,
        applied: Some(&old),
        observation: Some(&before),
        is_fresh: true,
        divergences: &[],
    };
    assert_eq!(field(&pending, "image"), (FieldState::Pending, Some(json!("web:1"))));
    assert_eq!(field(&pending, "replicas"), (FieldState::Same, Some(json!(3))));
    let applying = Compared { observation: Some(&during), ..pending };
    assert_eq!(field(&applying, "image"), (FieldState::Pending, None), "either value");
    assert_eq!(field(&applying, "replicas"), (FieldState::Same, Some(json!(3))));
}

#[test]
fn divergence_is_shown_at_its_field_or_as_a_field_of_its_own() {
    let (now, observation) = (web("web:1", 3), observed(false));
    let edited = |field, wanted, live| divergence(DivergenceClass::Edited, field, wanted, live);
    let divergences = [
        edited("spec.replicas", json!(3), json!(5)),
        edited("spec.paused", Value::Null, json!(true)),
    ];
    let of = Compared {
        desired: &now,
        applied: Some(&now),
        observation: Some(&observation),
        is_fresh: true,
        divergences: &divergences,
    };
    assert_eq!(field(&of, "replicas"), (FieldState::Differs, Some(json!(5))));
    assert_eq!(field(&of, "spec.paused"), (FieldState::Differs, Some(json!(true))));
    assert_eq!(field(&of, "image").0, FieldState::Same);
    assert_eq!(compare(&of).iter().filter(|row| row.divergence.is_some()).count(), 2);
}

#[test]
fn no_field_of_a_deleted_workload_is_the_same() {
    let (now, observation) = (web("web:1", 3), observed(false));
    let gone = divergence(DivergenceClass::Deleted, "", json!("present"), Value::Null);
    let of = Compared {
        desired: &now,
        applied: Some(&now),
        observation: Some(&observation),
        is_fresh: true,
        divergences: &[gone],
    };
    assert_eq!(field(&of, "image"), (FieldState::Differs, Some(Value::Null)));
    let rows = compare(&of);
    let same = rows.iter().filter(|row| row.state == FieldState::Same && row.field != "ready_pods");
    assert_eq!(same.count(), 0);
}
