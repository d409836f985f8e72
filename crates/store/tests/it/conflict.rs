//! Conflicts: raised once for a field, settled by one person, and counted from orders.

use trueup_model::drift::{ConflictDecision, DivergenceState, FieldDecision, Verdict};
use trueup_store::door::Refusal;

use crate::door_config::fields;
use crate::drift::{reverted, standing};
use crate::drift_decision::field;
use crate::stage::{Stage, at};

#[tokio::test]
async fn a_conflict_is_raised_once_and_settled_by_one_person() {
    let stage = Stage::new().await;
    let (app, org, context) = (&stage.db.app, stage.db.org, stage.context());
    let row = stage.declare("web", "nginx:1").await.row;
    stage.pass(standing(&row, 5, DivergenceState::InConflict), 10).await;
    stage.pass(standing(&row, 6, DivergenceState::InConflict), 20).await;
    assert_eq!(stage.count_events("ConflictRaised").await, 1);
    let open = app.list_conflicts(org, false, None, 9).await.unwrap();
    let conflict = &open[0].conflict;
    assert_eq!((open.len(), &conflict.at, conflict.raised_at), (1, &field(&row), at(10)));
    assert_eq!(conflict.by.as_deref(), Some("kubectl-edit"));
    let order = stage.drift_order(&row, 21).await;
    assert_eq!(order.fields[&field(&row)], FieldDecision::InConflict);

    let until = Some(at(3600));
    let settle = async |decision, until, seconds| {
        app.settle_conflict(org, conflict.id, decision, until, None, &context, at(seconds)).await
    };
    let past = settle(ConflictDecision::Ours, Some(at(9)), 30).await;
    assert_eq!(fields(past.unwrap_err()), ["for_hours"]);
    let settled = settle(ConflictDecision::Ours, until, 30).await.unwrap();
    assert_eq!(settled.row.conflict.settled.unwrap().principal, "owner");
    assert!(stage.is_woken(&row).await);
    let late = settle(ConflictDecision::Ignore, None, 31).await;
    match late {
        Err(Refusal::Decided { decision, by, at: when, .. }) => {
            assert_eq!(decision, "settled as ours");
            assert_eq!((by.as_deref(), when), (Some("owner"), at(30)));
        }
        other => panic!("expected who decided, not {other:?}"),
    }
    assert!(app.list_conflicts(org, false, None, 9).await.unwrap().is_empty());
    let order = stage.drift_order(&row, 40).await;
    assert_eq!(order.fields[&field(&row)], FieldDecision::Enforce { until });
    // A pass from before the decision does not raise it again; once the decision is over, one does.
    stage.pass(standing(&row, 7, DivergenceState::InConflict), 41).await;
    assert_eq!(stage.count_events("ConflictRaised").await, 1);
    assert_eq!(stage.drift_order(&row, 3600).await.fields.get(&field(&row)), None);
    stage.pass(standing(&row, 8, DivergenceState::InConflict), 3700).await;
    assert_eq!(stage.count_events("ConflictRaised").await, 2);
}

#[tokio::test]
async fn a_conflict_settled_by_adoption_changes_the_service() {
    let stage = Stage::new().await;
    let (app, org, context) = (&stage.db.app, stage.db.org, stage.context());
    let row = stage.declare("web", "nginx:1").await.row;
    stage.pass(standing(&row, 5, DivergenceState::InConflict), 10).await;
    let conflict = app.list_conflicts(org, false, None, 9).await.unwrap()[0].conflict.id;
    let adopt = ConflictDecision::Adopt;
    let settled =
        app.settle_conflict(org, conflict, adopt, None, None, &context, at(20)).await.unwrap();
    assert_eq!(settled.row.conflict.settled.unwrap().decision, adopt);
    assert_eq!(stage.find("web").await.unwrap().service.spec.replicas, 5);
    let adopted = stage.divergence().await.record;
    assert_eq!(adopted.divergence.state, DivergenceState::Adopted);
    assert_eq!(stage.count_events("ConflictSettled").await, 1);
}

#[tokio::test]
async fn rounds_of_the_last_ten_minutes_come_back_with_orders_until_a_person_decides() {
    let stage = Stage::new().await;
    let (app, org, context) = (&stage.db.app, stage.db.org, stage.context());
    let row = stage.declare("web", "nginx:1").await.row;
    for seconds in [10, 20, 300] {
        stage.pass(reverted(&row, 5, Verdict::Enforce), seconds).await;
    }
    let rounds = async |seconds| {
        stage.drift_order(&row, seconds).await.rounds.remove(&field(&row)).unwrap_or_default()
    };
    assert_eq!(rounds(310).await, [at(10), at(20), at(300)]);
    assert_eq!(rounds(615).await, [at(20), at(300)]);
    stage.pass(standing(&row, 5, DivergenceState::InConflict), 320).await;
    let conflict = app.list_conflicts(org, false, None, 9).await.unwrap()[0].conflict.id;
    let ignore = ConflictDecision::Ignore;
    app.settle_conflict(org, conflict, ignore, None, None, &context, at(330)).await.unwrap();
    assert_eq!(rounds(340).await, []);
    let order = stage.drift_order(&row, 340).await;
    assert_eq!(order.fields[&field(&row)], FieldDecision::Ignore { until: None });
}

#[tokio::test]
async fn who_knows_the_decision_may_replace_it() {
    let stage = Stage::new().await;
    let (app, org, context) = (&stage.db.app, stage.db.org, stage.context());
    let row = stage.declare("web", "nginx:1").await.row;
    stage.pass(standing(&row, 5, DivergenceState::InConflict), 10).await;
    let conflict = app.list_conflicts(org, false, None, 9).await.unwrap()[0].conflict.id;
    let settle = async |decision, instead_of, seconds| {
        app.settle_conflict(org, conflict, decision, None, instead_of, &context, at(seconds)).await
    };
    let (ours, ignore) = (ConflictDecision::Ours, ConflictDecision::Ignore);
    assert_eq!(fields(settle(ours, Some(ignore), 20).await.unwrap_err()), ["instead_of"]);
    settle(ignore, None, 21).await.unwrap();
    assert!(matches!(settle(ours, None, 22).await, Err(Refusal::Decided { .. })));
    assert!(matches!(settle(ours, Some(ours), 23).await, Err(Refusal::Decided { .. })));
    let replaced = settle(ours, Some(ignore), 24).await.unwrap();
    assert_eq!(replaced.row.conflict.settled.unwrap().decision, ours);
    let order = stage.drift_order(&row, 25).await;
    assert_eq!(order.fields[&field(&row)], FieldDecision::Enforce { until: None });
    assert_eq!(stage.count_events("ConflictSettled").await, 2);
    let adopt = settle(ConflictDecision::Adopt, Some(ours), 26).await;
    assert_eq!(fields(adopt.unwrap_err()), ["instead_of"]);
}

#[tokio::test]
async fn conflict_about_an_object_or_an_enforced_field_cannot_be_ignored() {
    let stage = Stage::new().await;
    let (app, org, context) = (&stage.db.app, stage.db.org, stage.context());
    let row = stage.declare("web", "nginx:1").await.row;
    for (field, seconds) in [("", 10), ("spec.selector", 20)] {
        let mut report = standing(&row, 5, DivergenceState::InConflict);
        let seen = report.observation.as_mut().unwrap();
        seen.divergences[0].field = field.to_owned();
        stage.pass(report, seconds).await;
    }
    for open in app.list_conflicts(org, false, None, 9).await.unwrap() {
        let settle = async |decision| {
            app.settle_conflict(org, open.conflict.id, decision, None, None, &context, at(30)).await
        };
        assert_eq!(fields(settle(ConflictDecision::Ignore).await.unwrap_err()), ["decision"]);
        settle(ConflictDecision::Ours).await.unwrap();
    }
}
