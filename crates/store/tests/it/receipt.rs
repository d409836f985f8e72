//! Receipts: the last word on a service, said once, for the generation that asked for it.

use trueup_model::report::{Outcome, Report};
use trueup_model::status::Phase;

use crate::stage::{PROJECT, Stage, at, converged, gone};

#[tokio::test]
async fn a_receipt_ends_the_service_and_stays_readable_by_id() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.delete("web").await.unwrap();
    let proof = gone(&row, 2);
    let worker = &stage.db.worker;
    assert_eq!(worker.settle(lease, std::slice::from_ref(&proof), at(6)).await.unwrap(), 1);

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
    // Nobody is woken for it any more.
    sqlx::raw_sql("delete from wakes").execute(&stage.owner).await.unwrap();
    assert_eq!(worker.wake_all(stage.db.cluster, at(7)).await.unwrap(), 1);
}

#[tokio::test]
async fn after_a_receipt_no_report_says_anything_more() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.delete("web").await.unwrap();
    let worker = &stage.db.worker;
    worker.settle(lease, &[gone(&row, 2)], at(6)).await.unwrap();
    let before = stage.rows().await;
    let late =
        Report { outcome: Outcome::Waiting { on: "its pods".to_owned() }, ..converged(&row, 2) };
    // The same proof again, as after an answer that got lost; and a report that was overtaken.
    for report in [gone(&row, 2), late] {
        assert_eq!(worker.settle(lease, &[report], at(7)).await.unwrap(), 0);
    }
    assert_eq!(stage.grown(&before).await, []);
    let id = row.service.id.to_string();
    assert_eq!(stage.find(&id).await.unwrap().status.phase, Phase::Deleted);
}

#[tokio::test]
async fn a_proof_for_an_older_generation_deletes_nothing() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.delete("web").await.unwrap();
    let worker = &stage.db.worker;
    worker.settle(lease, &[gone(&row, 1)], at(6)).await.unwrap();
    let now = stage.find("web").await.unwrap();
    assert_eq!(now.status.phase, Phase::Deleting);
    assert_eq!(stage.one::<i64>("select count(*) from receipts").await, 0);
}

#[tokio::test]
async fn a_proof_for_a_service_that_shall_live_deletes_nothing() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let worker = &stage.db.worker;
    worker.settle(lease, &[gone(&row, 1)], at(6)).await.unwrap();
    let now = stage.find("web").await.unwrap();
    assert_ne!(now.status.phase, Phase::Deleted);
    assert_eq!(stage.one::<i64>("select count(*) from receipts").await, 0);
    assert!(!stage.declare("web", "nginx:1").await.changed);
}
