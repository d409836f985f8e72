//! Fights: a field that was reverted three times within ten minutes is left alone until a person
//! decides.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use trueup_model::drift::{
    DivergenceState, DriftPolicy, FIGHT_PAUSE, FIGHT_ROUNDS, FieldDecision, FieldRef,
};
use trueup_model::key::Kind;
use trueup_model::order::Order;
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_testkit::fake_cluster::{FOREIGN_MANAGER, FakeCluster};

use crate::drift_verdicts::{
    DEADLINE, REPLICAS, kept, next, scale, spec_of, standing, started, workload,
};
use crate::rig::{Rig, converged, healthy, key, reverted, web};

fn replicas(order: &Order) -> FieldRef {
    FieldRef { key: workload(order), field: REPLICAS.to_owned() }
}

fn in_conflict(report: &Report) -> bool {
    kept(report, DivergenceState::InConflict).is_some()
}

/// Scales the service, and waits until that is reverted.
async fn scale_in_vain(rig: &mut Rig, fake: &FakeCluster, order: &Order) {
    let deployment = workload(order);
    scale(fake, order, 5);
    let is_reverted = |report: &Report| !reverted(report, &deployment).is_empty();
    rig.until(order.unit, is_reverted).await;
    assert_eq!(spec_of(fake, order)["replicas"], 2);
}

/// Scales the service until that stays.
async fn fight(rig: &mut Rig, fake: &FakeCluster, order: &Order) -> Report {
    for _round in 0..FIGHT_ROUNDS {
        scale_in_vain(rig, fake, order).await;
    }
    scale(fake, order, 5);
    rig.until(order.unit, in_conflict).await
}

#[tokio::test(start_paused = true)]
async fn a_fight_stops_after_three_reverts_and_the_rest_is_enforced() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let order = started(&mut rig, DriftPolicy::default()).await;
    let report = fight(&mut rig, &fake, &order).await;
    assert_eq!((report.changes.as_slice(), &report.outcome), (&[][..], &Outcome::Converged));
    let seen = report.observation.expect("an observation");
    assert_eq!(seen.divergences[0].by.as_deref(), Some(FOREIGN_MANAGER));

    // The other writer may go on.
    let writes = fake.journal().len();
    scale(&fake, &order, 6);
    let is_six = |report: &Report| kept(report, DivergenceState::InConflict) == Some(&json!(6));
    rig.until(order.unit, is_six).await;
    assert_eq!(fake.journal()[writes..], [], "nothing is written");

    // Other fields of the same object, and other objects, are enforced.
    let deployment = workload(&order);
    fake.edit(&deployment, |live| live["spec"]["progressDeadlineSeconds"] = json!(9));
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    assert_eq!(reverted(&report, &deployment), [(DEADLINE, Some(FOREIGN_MANAGER))]);
    assert_eq!(spec_of(&fake, &order)["replicas"], 6);
    let service = key(&order, Kind::Service, str::to_owned);
    fake.remove(&service);
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    assert_eq!(report.changes, [ObjectChange::DeletedExternally { key: service }]);
    assert_eq!(standing(&report), [(REPLICAS, DivergenceState::InConflict)]);
}

#[tokio::test(start_paused = true)]
async fn reverts_that_are_far_apart_are_no_fight() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let order = started(&mut rig, DriftPolicy::default()).await;
    for _round in 0..=FIGHT_ROUNDS {
        scale_in_vain(&mut rig, &fake, &order).await;
        rig.clock.sleep(Duration::from_secs(301)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_outlives_its_rounds_and_a_new_generation() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let order = started(&mut rig, DriftPolicy::default()).await;
    fight(&mut rig, &fake, &order).await;
    // A new order whose database has recorded nothing yet.
    let newer = next(&rig, &order, web(3));
    let _passed = rig.executor.order(newer.clone()).await;
    rig.until(order.unit, |report| report.generation == 2 && in_conflict(report)).await;
    assert_eq!(spec_of(&fake, &order)["replicas"], 5);
    // The rounds are forgotten; the conflict is not.
    rig.clock.sleep(Duration::from_secs(900)).await;
    scale(&fake, &order, 7);
    let is_seven = |report: &Report| kept(report, DivergenceState::InConflict) == Some(&json!(7));
    rig.until(order.unit, is_seven).await;
    assert_eq!(spec_of(&fake, &order)["replicas"], 7);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_survives_a_restart_with_what_the_database_recorded() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let order = started(&mut rig, DriftPolicy::default()).await;
    fight(&mut rig, &fake, &order).await;
    let now = rig.clock.now();
    let mut with_decision = order.clone();
    with_decision.drift.fields.insert(replicas(&order), FieldDecision::InConflict);
    let mut with_rounds = order.clone();
    let ago = |seconds| now.checked_sub(SignedDuration::from_secs(seconds)).expect("a time");
    let rounds: Vec<Timestamp> = [30, 20, 10].map(ago).to_vec();
    with_rounds.drift.rounds.insert(replicas(&order), rounds);
    for order in [with_decision, with_rounds] {
        rig = rig.restart();
        rig.order_until(rig.project(), converged).await;
        let report = rig.order_until(order.clone(), healthy).await;
        assert_eq!(report.changes, []);
        assert!(in_conflict(&report), "{:?}", standing(&report));
        assert_eq!(spec_of(&fake, &order)["replicas"], 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_settled_conflict_is_enforced_whatever_the_other_writer_does() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let mut order = started(&mut rig, DriftPolicy::default()).await;
    fight(&mut rig, &fake, &order).await;
    order.drift.fields.insert(replicas(&order), FieldDecision::Enforce { until: None });
    let _passed = rig.executor.order(order.clone()).await;
    rig.until(order.unit, |report| converged(report) && standing(report).is_empty()).await;
    assert_eq!(spec_of(&fake, &order)["replicas"], 2);
    for _round in 0..=FIGHT_ROUNDS {
        scale_in_vain(&mut rig, &fake, &order).await;
    }
}

/// An object cannot be left deleted, so its repairs are spaced and the fight is a conflict.
#[tokio::test(start_paused = true)]
async fn fight_over_what_is_always_enforced_is_a_conflict_and_reverted_with_pauses() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let order = started(&mut rig, DriftPolicy::default()).await;
    let service = key(&order, Kind::Service, str::to_owned);
    let is_back = |report: &Report| {
        report.changes.contains(&ObjectChange::DeletedExternally { key: service.clone() })
    };
    for _round in 0..FIGHT_ROUNDS {
        fake.remove(&service);
        rig.until(order.unit, is_back).await;
    }
    let fought = rig.clock.now();
    fake.remove(&service);
    let fought_over = [("", DivergenceState::InConflict)];
    let report = rig.until(order.unit, |report| standing(report) == fought_over).await;
    assert!(matches!(report.outcome, Outcome::Waiting { .. }), "{:?}", report.outcome);
    assert!(fake.find(&service).is_none(), "it is not written at once");
    rig.until(order.unit, is_back).await;
    assert!(rig.clock.now().duration_since(fought) >= FIGHT_PAUSE);

    // A person who accepts the fight has it reverted at once.
    let mut settled = order.clone();
    let at = FieldRef { key: service.clone(), field: String::new() };
    settled.drift.fields.insert(at, FieldDecision::Enforce { until: None });
    let _passed = rig.executor.order(settled).await;
    let accepted = rig.clock.now();
    for _round in 0..FIGHT_ROUNDS {
        fake.remove(&service);
        rig.until(order.unit, is_back).await;
    }
    assert!(rig.clock.now().duration_since(accepted) < FIGHT_PAUSE);
}
