//! Changing: a new generation beside the old release, one wake, and no lost update.

use serde_json::json;
use trueup_model::service::DesiredState;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::door::{Refusal, ServiceRequest};

use crate::stage::{PROJECT, Stage, at, unit, web};

#[tokio::test]
async fn a_change_raises_the_generation_and_keeps_the_release_before_it() {
    let stage = Stage::new().await;
    let first = stage.declare("web", "nginx:1").await.row;
    let second = stage.declare("web", "nginx:2").await;
    assert!(second.changed);
    let now = &second.row.service;
    assert_eq!((now.id, now.generation), (first.service.id, 2));
    assert_eq!(now.object_name, first.service.object_name);
    assert_eq!(now.spec.image, "nginx:2");
    let releases: Vec<String> = stage
        .all("select concat_ws(' ', generation, spec->>'image', desired, principal) from releases order by 1")
        .await;
    assert_eq!(releases, ["1 nginx:1 active owner", "2 nginx:2 active owner"]);
    let id = now.id.uuid();
    assert_eq!(stage.events_of(id).await, ["ServiceQueued", "ServiceQueued"]);
}

#[tokio::test]
async fn changes_share_one_wake_that_counts_requests_and_stays_due() {
    let stage = Stage::new().await;
    for (image, seconds) in [("nginx:1", 1), ("nginx:2", 5), ("nginx:3", 9)] {
        let request = web(image);
        stage.try_declare("web", &request, None, seconds).await.unwrap();
    }
    let wakes: Vec<String> = stage
        .all(
            "select concat_ws(' ', state, requested_seq, claimed_seq, extract(epoch from due_at)::bigint)
              from wakes where subject_kind = 'service'",
        )
        .await;
    assert_eq!(wakes, [format!("queued 3 {}", at(1).as_second())]);
}

#[tokio::test]
async fn a_change_is_not_projected_before_it_is_observed() {
    let stage = Stage::new().await;
    let first = stage.declare("web", "nginx:1").await.row;
    let second = stage.declare("web", "nginx:2").await.row;
    assert_eq!((second.status, second.projection), (first.status, first.projection));
}

#[tokio::test]
async fn a_request_with_another_generation_records_nothing() {
    let stage = Stage::new().await;
    let refused = stage.try_declare("web", &web("nginx:1"), Some(1), 1).await;
    assert!(matches!(refused, Err(Refusal::Changed { current: 0 })));
    // Zero means that the service must not exist yet.
    stage.try_declare("web", &web("nginx:1"), Some(0), 1).await.unwrap();
    let before = stage.rows().await;
    for wrong in [0, 2, -1, i64::MAX] {
        let refused = stage.try_declare("web", &web("nginx:2"), Some(wrong), 2).await;
        assert!(matches!(refused, Err(Refusal::Changed { current: 1 })), "{wrong}");
        let delete = ServiceRequest::act(PROJECT, "web", &ServiceOperation::Delete)
            .if_generation(Some(wrong));
        let app = &stage.db.app;
        let refused = app.accept_service(stage.db.org, &delete, &stage.context(), at(2)).await;
        assert!(matches!(refused, Err(Refusal::Changed { current: 1 })));
    }
    assert_eq!(stage.grown(&before).await, []);
    let accepted = stage.try_declare("web", &web("nginx:2"), Some(1), 2).await.unwrap();
    assert_eq!(accepted.row.service.generation, 2);
}

#[tokio::test]
async fn of_two_requests_with_the_same_generation_one_wins() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let (left, right) = (web("nginx:2"), web("nginx:3"));
    let (left, right) = tokio::join!(
        stage.try_declare("web", &left, Some(1), 2),
        stage.try_declare("web", &right, Some(1), 2)
    );
    assert_eq!([left.is_ok(), right.is_ok()].into_iter().filter(|ok| *ok).count(), 1);
    let refused = left.err().or_else(|| right.err());
    assert!(matches!(refused, Some(Refusal::Changed { current: 2 })));
}

#[tokio::test]
async fn a_service_is_found_by_name_and_by_id_and_by_nothing_else() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let project = row.service.project.to_string();
    let id = row.service.id.to_string();
    let app = &stage.db.app;
    for (project, service) in [
        (PROJECT, "web"),
        (PROJECT, id.as_str()),
        (project.as_str(), "web"),
        (project.as_str(), id.as_str()),
    ] {
        let found = app.find_service(stage.db.org, project, service).await;
        assert_eq!(found.unwrap().unwrap().row, row, "{project} {service}");
    }
    let strange = ["", "%", "_", "we_", "WEB", "web'--", "web\0", "\0", "😀", "svc_"];
    for text in strange {
        for (project, service) in [(PROJECT, text), (text, "web")] {
            let found = app.find_service(stage.db.org, project, service).await;
            assert_eq!(found.unwrap(), None, "{project:?} {service:?}");
        }
        let found = app.find_project(stage.db.org, text).await;
        assert_eq!(found.unwrap(), None, "{text:?}");
    }
}

#[tokio::test]
async fn values_are_stored_verbatim() {
    let stage = Stage::new().await;
    let mut request = web("nginx:1");
    let drop = "'; drop table services; --";
    let strange = json!({"A": "'\"\\%_$1 {{x}}", "B": "ünïcode 😀", "_C": "line\nline", "D": drop});
    request.parameters.insert("variables".to_owned(), strange);
    let accepted = stage.try_declare("web", &request, None, 1).await.unwrap();
    assert_eq!(accepted.row.service.parameters, request.parameters);
    let row = stage.find("web").await.unwrap();
    assert_eq!(row.service.spec.variables["D"], drop);
    assert_eq!(row.service.spec.variables["A"], "'\"\\%_$1 {{x}}");
    assert_eq!(row.service.desired, DesiredState::Active);
    assert!(unit(&row).to_string().starts_with("svc_"));
    assert!(!stage.try_declare("web", &request, None, 2).await.unwrap().changed);
}
