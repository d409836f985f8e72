//! Deleting: idempotent, cannot be undone, and the name is free only after the receipt.

use trueup_model::service::DesiredState;
use trueup_rules::admit::Refused;
use trueup_store::door::Refusal;
use trueup_testkit::report_batch::RecordReports as _;

use crate::stage::{Stage, at, gone, web};

#[tokio::test]
async fn deleting_is_a_new_generation_in_the_lane_for_deletions() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let before = stage.rows().await;
    let deleted = stage.delete("web").await.unwrap();
    assert!(deleted.changed);
    let service = &deleted.row.service;
    assert_eq!((service.desired, service.generation), (DesiredState::Deleted, 2));
    let grown = stage.grown(&before).await;
    let expected = [("event_queue", 1), ("events", 1), ("releases", 1), ("usage_marks", 1)];
    assert_eq!(grown, expected.map(|(table, count)| (table.to_owned(), count)));
    let wake: String = stage
        .one("select concat_ws(' ', lane, requested_seq) from wakes where subject_kind = 'service'")
        .await;
    assert_eq!(wake, "delete 2");
    let deletes: String =
        stage.one("select body->>'deletes' from events where generation = 2").await;
    assert_eq!(deletes, "true");
}

#[tokio::test]
async fn deleting_twice_changes_nothing() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let first = stage.delete("web").await.unwrap();
    let before = stage.rows().await;
    let second = stage.delete("web").await.unwrap();
    assert!(!second.changed);
    assert_eq!(second.row, first.row);
    assert_eq!(stage.grown(&before).await, []);
}

#[tokio::test]
async fn deleting_an_unknown_service_is_not_found() {
    let stage = Stage::new().await;
    let refused = stage.delete("web").await;
    assert!(matches!(refused, Err(Refusal::NotFound("service"))));
}

#[tokio::test]
async fn a_name_being_deleted_takes_no_declaration_and_records_nothing() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    stage.delete("web").await.unwrap();
    let before = stage.rows().await;
    for image in ["nginx:1", "nginx:2"] {
        let refused = stage.try_declare("web", &web(image), None, 3).await;
        assert!(matches!(refused, Err(Refusal::Refused(Refused::BeingDeleted))));
    }
    assert_eq!(stage.grown(&before).await, []);
}

#[tokio::test]
async fn a_name_is_free_after_the_receipt_and_names_a_new_service() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let old = stage.declare("web", "nginx:1").await.row;
    stage.delete("web").await.unwrap();
    let worker = &stage.db.worker;
    let settled = worker.record_reports(lease, &[gone(&old, 2)], at(6)).await.unwrap();
    assert_eq!(settled, 1);
    assert_eq!(stage.find("web").await, None);

    let new = stage.declare("web", "nginx:1").await;
    assert!(new.changed);
    assert_eq!(new.row.service.generation, 1);
    assert_ne!(new.row.service.id, old.service.id);
    assert_ne!(new.row.service.object_name, old.service.object_name);
    // The old service stays readable by its id, and a repeated deletion changes nothing.
    let id = old.service.id.to_string();
    assert_eq!(stage.find(&id).await.unwrap().service.id, old.service.id);
    assert!(!stage.delete(&id).await.unwrap().changed);
    let living = stage.services(stage.db.org).await;
    assert_eq!(living.len(), 1);
    assert_eq!(living[0].service.id, new.row.service.id);
}
