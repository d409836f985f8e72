//! Regressions as a table: when one begins, goes on and ends.

use std::sync::Arc;

use serde_json::json;
use trueup_model::drift::{Divergence, DivergenceClass, DivergenceState};
use trueup_model::key::Kind;
use trueup_model::observation::Cause;
use trueup_model::service::DesiredState;
use trueup_model::status::{Health, Inputs, Phase};
use trueup_rules::drift::regression::{FIELD, Regression, regression};
use trueup_rules::plan::Observed;
use trueup_rules::status::observe::observe;
use trueup_rules::status::project;

use crate::drift_price::divergence;
use crate::given::{self, at};
use crate::manifests::objects;
use crate::projection::{inputs, newer, pods, ran, seen, troubled, unreachable};

/// A service that was healthy in this generation, and has one of two pods now.
fn worse() -> Inputs {
    let mut given = inputs(Phase::Running);
    ran(&mut given);
    given.previous.health = Health::Healthy;
    seen(&mut given, pods(1, 2));
    given
}

fn decide(given: &Inputs, open: bool) -> Option<Regression> {
    regression(given, &project(given, at(9)), open)
}

/// The values of a regression that stands: pods that should be ready, and those that are.
fn values(found: Option<Regression>) -> (u64, u64) {
    let it = match found {
        Some(Regression::Stands(it)) => it,
        other => panic!("a regression was expected, not {other:?}"),
    };
    assert_eq!((it.field.as_str(), it.class), (FIELD, DivergenceClass::Regressed));
    assert_eq!((it.key.kind, it.state), (Kind::Deployment, DivergenceState::Open));
    (it.wanted.as_u64().unwrap(), it.live.as_u64().unwrap())
}

#[test]
fn a_healthy_service_that_becomes_worse_has_regressed() {
    assert_eq!(values(decide(&worse(), false)), (2, 1));
    let mut down = worse();
    seen(&mut down, pods(0, 2));
    down.observation.pods.push(troubled(Cause::CrashLoop, ""));
    assert_eq!(values(decide(&down, false)), (2, 0));
}

#[test]
fn a_regression_goes_on_until_the_service_is_healthy_again() {
    let mut still = worse();
    still.previous.health = Health::Degraded;
    assert_eq!(decide(&still, false), None, "it did not begin now");
    assert_eq!(values(decide(&still, true)), (2, 1));

    let mut unknown = worse();
    unknown.outcome = unreachable();
    assert_eq!(decide(&unknown, true), None, "what is not known ends nothing");

    let mut healthy = worse();
    seen(&mut healthy, pods(2, 2));
    assert_eq!(decide(&healthy, true), Some(Regression::Ended(DivergenceState::Restored)));
    assert_eq!(decide(&healthy, false), None);
}

#[test]
fn a_change_of_the_desired_state_is_no_regression() {
    let mut changed = worse();
    newer(&mut changed);
    let mut paused = worse();
    paused.desired = DesiredState::Paused;
    for given in [changed, paused] {
        assert_eq!(decide(&given, false), None);
        assert_eq!(decide(&given, true), Some(Regression::Ended(DivergenceState::Superseded)));
    }
}

#[test]
fn a_change_of_the_workload_explains_missing_pods() {
    let mut scaled = worse();
    let edit = divergence(Kind::Deployment, "spec.replicas", json!(2), json!(1));
    scaled.observation.divergences.push(edit);
    assert_eq!(decide(&scaled, false), None);
    let mut relabelled = worse();
    let edit = divergence(Kind::ConfigMap, "data.A", json!("1"), json!("2"));
    relabelled.observation.divergences.push(edit);
    assert_eq!(values(decide(&relabelled, false)), (2, 1));
}

#[test]
fn pods_are_not_missing_if_their_number_is_ignored() {
    let template = given::template("web");
    let order = given::order(&given::accepted(&template, json!({"image": "a:1", "replicas": 3})));
    let workload = objects(&order).into_iter().find(|one| one.key.kind == Kind::Deployment);
    let mut workload = workload.expect("a workload");
    workload.object["spec"]["replicas"] = json!(1);
    let key = workload.key;
    let mut observed = Observed::default();
    observed.objects.insert(key.clone(), Arc::new(workload.object));
    let wanted = |state| {
        let edit = divergence(Kind::Deployment, "spec.replicas", json!(3), json!(1));
        let edit = Divergence { key: key.clone(), state, ..edit };
        let seen = observe(&order, &observed, true, vec![edit], &given::proofs(), at(5));
        seen.workload.map(|workload| workload.wanted)
    };
    assert_eq!(wanted(DivergenceState::Ignored), Some(1));
    assert_eq!(wanted(DivergenceState::InConflict), Some(3));
    assert_eq!(wanted(DivergenceState::Open), Some(3));
}
