//! Reading events: pages from either end, filters, and what caused what.

use trueup_model::drift::{DivergenceState, Verdict};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Unit;
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_store::{EventOrder, EventQuery, SealedEvent};
use trueup_testkit::report_batch::RecordReports as _;

use crate::drift::replicas;
use crate::stage::{Stage, at, converged, unit};

fn positions(events: &[SealedEvent]) -> Vec<i64> {
    events.iter().map(|event| event.position).collect()
}

/// Three generations of one service and one of another: positions 2 to 5.
async fn story(stage: &Stage) -> Unit {
    let row = stage.declare("web", "nginx:1").await.row;
    stage.declare("other", "nginx:1").await;
    stage.declare("web", "nginx:2").await;
    stage.declare("web", "nginx:3").await;
    stage.seal().await;
    unit(&row)
}

#[tokio::test]
async fn filters_and_orders_combine() {
    let stage = Stage::new().await;
    let of = Some(story(&stage).await.into());
    let kind = Some("ServiceQueued".to_owned());
    let newest = EventOrder::NewestFirst;
    let all = EventQuery::default;
    let table = [
        (all(), vec![1, 2, 3, 4, 5]),
        (EventQuery { order: newest, ..all() }, vec![5, 4, 3, 2, 1]),
        (EventQuery { order: newest, limit: 2, ..all() }, vec![5, 4]),
        (EventQuery { order: newest, before: Some(4), limit: 2, ..all() }, vec![3, 2]),
        (EventQuery { after: Some(1), before: Some(4), ..all() }, vec![2, 3]),
        (EventQuery { of, ..all() }, vec![2, 4, 5]),
        (EventQuery { of, order: newest, limit: 1, ..all() }, vec![5]),
        (EventQuery { of, generation: Some(2), ..all() }, vec![4]),
        (EventQuery { of, after: Some(2), kind: kind.clone(), ..all() }, vec![4, 5]),
        (EventQuery { kind: kind.clone(), order: newest, ..all() }, vec![5, 4, 3, 2]),
        (EventQuery { kind: Some("ProjectQueued".to_owned()), ..all() }, vec![1]),
        (EventQuery { kind: Some("Nothing".to_owned()), ..all() }, vec![]),
        (EventQuery { generation: Some(9), of, ..all() }, vec![]),
    ];
    for (query, expected) in table {
        let found = stage.events(stage.db.org, query.clone()).await;
        assert_eq!(positions(&found), expected, "{query:?}");
    }
    assert_eq!(stage.db.app.last_position(stage.db.org).await.unwrap(), 5);
    let other = stage.db.setup.ensure_org("other", at(0)).await.unwrap();
    assert_eq!(stage.db.app.last_position(other).await.unwrap(), 0);
    assert!(stage.events(other, EventQuery { of, ..all() }).await.is_empty());
}

#[tokio::test]
async fn events_caused_by_a_request_name_it_and_carry_its_trace() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    stage.declare("web", "nginx:1").await;
    let row = stage.declare("web", "nginx:2").await.row;
    let key = ResourceKey::new(Kind::Deployment, &row.namespace, &row.service.object_name);
    let updated = Report {
        changes: vec![ObjectChange::Updated { key: key.clone() }],
        outcome: Outcome::Waiting { on: "its pods".to_owned() },
        ..converged(&row, 2)
    };
    let edited = ObjectChange::ModifiedExternally {
        fields: vec![replicas(&key, 5, Verdict::Enforce, DivergenceState::Reverted)],
        key,
    };
    let repaired = Report { changes: vec![edited], ..converged(&row, 2) };
    for (seconds, report) in (10..).zip([updated, converged(&row, 2), repaired]) {
        stage.db.worker.record_reports(lease, &[report], at(seconds)).await.unwrap();
    }
    stage.seal().await;
    let events = stage
        .events(stage.db.org, EventQuery { of: Some(unit(&row).into()), ..EventQuery::default() })
        .await;
    let name = |event: &SealedEvent| format!("{}@{}", event.kind, event.generation);
    let lines: Vec<String> = events
        .iter()
        .map(|event| {
            let cause = events.iter().find(|other| Some(other.id) == event.cause);
            assert_eq!(event.cause.is_some(), cause.is_some(), "a cause is an existing event");
            let traced = if event.trace.is_some() { " traced" } else { "" };
            format!("{} < {}{traced}", name(event), cause.map(name).unwrap_or_default())
        })
        .collect();
    assert_eq!(
        lines,
        [
            "ServiceQueued@1 <  traced",
            "ServiceQueued@2 <  traced",
            "ReconcileStarted@2 < ServiceQueued@2 traced",
            "ResourceUpdated@2 < ServiceQueued@2 traced",
            "ServicePhaseChanged@2 < ServiceQueued@2 traced",
            "ReconcileSucceeded@2 < ServiceQueued@2 traced",
            "ResourceModifiedExternally@2 < ",
            "DriftDetected@2 < ResourceModifiedExternally@2",
            "ReconcileStarted@2 < DriftDetected@2",
            "DriftReverted@2 < DriftDetected@2",
            "ReconcileSucceeded@2 < DriftDetected@2",
        ]
    );
}

/// Names of principals are read with the events, not stored in them.
#[tokio::test]
async fn name_of_a_principal_is_read_and_can_be_erased() {
    let stage = Stage::new().await;
    let id = stage.principal.id.uuid();
    let statement = format!(
        "insert into tokens (id, org_id, name, role, hash, created_at)
         values ('{id}', '{}', 'someone', 'owner', 'x', now())",
        stage.db.org.uuid()
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&stage.owner).await.unwrap();
    stage.declare("web", "nginx:1").await;
    stage.seal().await;
    let names = async || -> Vec<Option<String>> {
        let query = EventQuery { kind: Some("ServiceQueued".to_owned()), ..EventQuery::default() };
        let events = stage.events(stage.db.org, query).await;
        assert!(!events[0].body.to_string().contains("someone"), "{events:?}");
        events.into_iter().map(|event| event.principal_name).collect()
    };
    assert_eq!(names().await, [Some("someone".to_owned())]);
    let statement = format!("update tokens set name = '' where id = '{id}'");
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&stage.owner).await.unwrap();
    assert_eq!(names().await, [Some(String::new())]);
}
