//! Deletion receipts: final, stored once, and only for the generation that requested the deletion.

use trueup_model::receipt::{Force, ProofLevel, Receipt, Unproven};
use trueup_model::report::{Outcome, Report};
use trueup_model::status::Phase;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::ServiceRow;
use trueup_store::door::Refusal;
use trueup_testkit::report_batch::RecordReports as _;

use crate::stage::{PROJECT, Stage, at, converged, gone};

#[tokio::test]
async fn a_receipt_completes_the_deletion_and_stays_readable_by_id() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.delete("web").await.unwrap();
    let proof = gone(&row, 2);
    let worker = &stage.db.worker;
    assert_eq!(worker.record_reports(lease, std::slice::from_ref(&proof), at(6)).await.unwrap(), 1);

    let app = &stage.db.app;
    let org = stage.db.org;
    assert_eq!(app.find_service(org, PROJECT, "web").await.unwrap(), None);
    assert!(stage.services(org).await.is_empty());
    let id = row.service.id.to_string();
    let detail = app.find_service(org, PROJECT, &id).await.unwrap().unwrap();
    assert_eq!(detail.receipt, proof.receipt);
    assert_eq!(detail.row.status.phase, Phase::Deleted);
    assert_eq!(
        stage.events_of(row.service.id.uuid()).await,
        ["ServiceQueued", "ServiceQueued", "ServicePhaseChanged", "AbsenceVerified"]
    );
    // The service is not woken any more.
    sqlx::raw_sql("delete from wakes").execute(&stage.owner).await.unwrap();
    assert_eq!(worker.wake_all(stage.db.cluster, at(7)).await.unwrap(), 1);
}

#[tokio::test]
async fn after_a_receipt_reports_change_nothing() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.delete("web").await.unwrap();
    let worker = &stage.db.worker;
    worker.record_reports(lease, &[gone(&row, 2)], at(6)).await.unwrap();
    let before = stage.rows().await;
    let late =
        Report { outcome: Outcome::Waiting { on: "its pods".to_owned() }, ..converged(&row, 2) };
    // The same receipt again, as after a lost answer; and a report that was overtaken.
    for report in [gone(&row, 2), late] {
        assert_eq!(worker.record_reports(lease, &[report], at(7)).await.unwrap(), 0);
    }
    assert_eq!(stage.grown(&before).await, []);
    let id = row.service.id.to_string();
    assert_eq!(stage.find(&id).await.unwrap().status.phase, Phase::Deleted);
}

#[tokio::test]
async fn a_receipt_for_an_older_generation_deletes_nothing() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.delete("web").await.unwrap();
    let worker = &stage.db.worker;
    worker.record_reports(lease, &[gone(&row, 1)], at(6)).await.unwrap();
    let now = stage.find("web").await.unwrap();
    assert_eq!(now.status.phase, Phase::Deleting);
    assert_eq!(stage.one::<i64>("select count(*) from receipts").await, 0);
}

#[tokio::test]
async fn a_receipt_for_an_active_service_deletes_nothing() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let worker = &stage.db.worker;
    worker.record_reports(lease, &[gone(&row, 1)], at(6)).await.unwrap();
    let now = stage.find("web").await.unwrap();
    assert_ne!(now.status.phase, Phase::Deleted);
    assert_eq!(stage.one::<i64>("select count(*) from receipts").await, 0);
    assert!(!stage.declare("web", "nginx:1").await.changed);
}

/// The report after a forced deletion: one key is still present.
pub(crate) fn forced(row: &ServiceRow, force: Force) -> Report {
    let proof = gone(row, 3);
    let absent = proof.receipt.as_ref().unwrap().absent.clone();
    let left =
        Unproven { key: absent[0].key.clone(), uid: None, why: "it is still there".to_owned() };
    let receipt = Receipt {
        unproven: vec![left],
        force: Some(force),
        level: ProofLevel::Forced,
        ..Receipt::of_absence(Vec::new(), "one", proof.receipt.unwrap().reads)
    };
    Report { receipt: Some(receipt), ..gone(row, 3) }
}

#[tokio::test]
async fn a_forced_deletion_frees_name_and_quota_and_keeps_recorded_keys() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let worker = &stage.db.worker;
    for (wake, _) in worker.claim_orders(lease, 10, at(1)).await.unwrap() {
        worker.finish_wakes(std::slice::from_ref(&wake), at(1)).await.unwrap();
    }
    stage.delete("web").await.unwrap();
    let keys = "select count(*) from resources where subject_kind = 'service'";
    let recorded = stage.one::<i64>(keys).await;
    assert!(recorded > 0);
    let end = ServiceOperation::ForceDelete { reason: " the node burnt ".to_owned() };
    let accepted = stage.act("web", &end).await.unwrap();
    assert_eq!((accepted.changed, accepted.row.service.generation), (true, 3));

    let orders = worker.claim_orders(lease, 10, at(4)).await.unwrap();
    let force =
        orders[0].1.permit.force.clone().expect("the order should carry the forced deletion");
    assert_eq!(force.reason, "the node burnt");
    let report = forced(&row, force);
    assert_eq!(
        worker.record_reports(lease, std::slice::from_ref(&report), at(6)).await.unwrap(),
        1
    );

    let id = row.service.id.to_string();
    let detail = stage.db.app.find_service(stage.db.org, PROJECT, &id).await.unwrap().unwrap();
    assert_eq!((detail.receipt, detail.row.status.phase), (report.receipt, Phase::Deleted));
    assert_eq!(stage.one::<i64>("select count(*) from reservations").await, 0);
    assert_eq!(stage.one::<i64>(keys).await, recorded, "keys of orphans are kept");
    let kinds = stage.events_of(row.service.id.uuid()).await;
    assert_eq!(kinds.last().map(String::as_str), Some("ServiceDeleteForced"), "{kinds:?}");
    assert!(!kinds.iter().any(|kind| kind == "AbsenceVerified"), "{kinds:?}");

    // The name is free for a new service, and a completed deletion cannot be forced.
    let next = stage.declare("web", "nginx:1").await.row.service;
    assert_ne!(next.object_name, row.service.object_name);
    let again = stage.act(&id, &end).await.unwrap();
    assert!(!again.changed);
}

#[tokio::test]
async fn only_a_deletion_can_be_forced_and_only_with_a_reason() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let end = |reason: &str| ServiceOperation::ForceDelete { reason: reason.to_owned() };
    let refused = stage.act("web", &end("the node burnt")).await;
    assert!(matches!(refused, Err(Refusal::Refused(_))), "the service is active: {refused:?}");
    stage.delete("web").await.unwrap();
    for bad in ["", "  ", "no", "two\nlines", &"x".repeat(501)] {
        let refused = stage.act("web", &end(bad)).await;
        assert!(matches!(refused, Err(Refusal::Refused(_))), "{bad:?}: {refused:?}");
    }
    assert_eq!(stage.find("web").await.unwrap().service.generation, 2);
}

#[tokio::test]
async fn an_overdue_deletion_is_reported() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.delete("web").await.unwrap();
    let (worker, cluster) = (&stage.db.worker, stage.db.cluster);
    assert_eq!(worker.overdue_deletes(cluster, at(2)).await.unwrap(), []);
    let overdue = worker.overdue_deletes(cluster, at(3)).await.unwrap();
    assert_eq!(overdue, [trueup_model::order::Unit::Service(row.service.id)]);
}
