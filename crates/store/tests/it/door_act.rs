//! Operations at the door: what each records, and that a rollback restores an earlier release.

use serde_json::json;
use trueup_model::order::{Body, Order};
use trueup_model::service::DesiredState;
use trueup_rules::admit::Refused;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::DryRunResult;
use trueup_store::door::{Refusal, ServiceRequest};
use trueup_testkit::test_db::name;

use crate::stage::{PROJECT, Stage, at, web};

#[tokio::test]
async fn an_action_is_a_new_generation_with_release_event_and_wake() {
    let stage = Stage::new().await;
    let declared = stage.declare("web", "shop:1").await.row;
    let before = stage.rows().await;
    let paused = stage.act("web", &ServiceOperation::Pause).await.unwrap();
    assert!(paused.changed);
    assert_eq!(paused.row.service.generation, 2);
    assert_eq!(paused.row.service.desired, DesiredState::Paused);
    let grown: Vec<String> =
        stage.grown(&before).await.into_iter().map(|(table, by)| format!("{table}+{by}")).collect();
    assert_eq!(
        grown,
        ["event_queue+1", "events+1", "releases+1", "usage_marks+1"],
        "the wake was there already"
    );
    let again = stage.act("web", &ServiceOperation::Pause).await.unwrap();
    assert!(!again.changed);
    assert_eq!(again.row.service.generation, 2);

    let seq: i64 =
        stage.one("select requested_seq from wakes where subject_kind = 'service'").await;
    assert_eq!(seq, 2);
    let actions: Vec<String> =
        stage.all("select body->>'action' from events where type = 'ServiceQueued' order by at, generation").await;
    assert_eq!(actions, ["declare", "pause"]);
    assert_eq!(paused.row.service.id, declared.service.id);
}

#[tokio::test]
async fn releases_are_listed_and_a_rollback_adds_one() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    stage.declare("web", "shop:2").await;
    stage.act("web", &ServiceOperation::Restart).await.unwrap();
    let back = stage.act("web", &ServiceOperation::Rollback { to: None }).await.unwrap().row;
    assert_eq!(
        back.service.spec.image, "shop:1",
        "a restart does not change the spec, so it is skipped"
    );
    assert_eq!(back.service.generation, 4);
    assert_eq!(back.service.parameters["image"], json!("shop:1"));
    let again = stage.act("web", &ServiceOperation::Rollback { to: None }).await;
    assert!(again.is_err(), "a second rollback does not return to what the first one undid");

    let app = &stage.db.app;
    let list = |before, limit| app.list_releases(stage.db.org, (PROJECT, "web"), before, limit);
    let releases = list(None, 100).await.unwrap().unwrap();
    let story: Vec<(i64, &str, &str)> = releases
        .iter()
        .map(|release| (release.generation, release.action.as_str(), release.spec.image.as_str()))
        .collect();
    assert_eq!(
        story,
        [
            (4, "rollback", "shop:1"),
            (3, "restart", "shop:2"),
            (2, "declare", "shop:2"),
            (1, "declare", "shop:1")
        ]
    );
    let page = list(Some(4), 2).await.unwrap().unwrap();
    assert_eq!(page.iter().map(|release| release.generation).collect::<Vec<_>>(), [3, 2]);
    let nothing = app.list_releases(stage.db.org, (PROJECT, "nobody"), None, 1).await.unwrap();
    assert_eq!(nothing, None);

    let exact = stage.act("web", &ServiceOperation::Rollback { to: Some(2) }).await.unwrap().row;
    assert_eq!(exact.service.spec.image, "shop:2");
    for nowhere in [0, 5, 99] {
        let refused = stage.act("web", &ServiceOperation::Rollback { to: Some(nowhere) }).await;
        assert!(matches!(refused, Err(Refusal::Refused(Refused::Invalid(_)))), "{refused:?}");
    }
}

#[tokio::test]
async fn a_plan_decides_the_resources_and_a_resize_changes_them() {
    let stage = Stage::new().await;
    let small = stage.declare("web", "shop:1").await.row;
    assert_eq!(small.service.spec.resources.cpu_millis, 250);
    assert_eq!(small.plan.as_ref().map(|plan| plan.name.as_str()), Some("small"));
    let large = ServiceOperation::Resize { plan: name("large") };
    let large = stage.act("web", &large).await.unwrap().row;
    assert_eq!(large.service.spec.resources.cpu_millis, 4000);
    let unknown = stage.act("web", &ServiceOperation::Resize { plan: name("huge") }).await;
    assert!(matches!(unknown, Err(Refusal::Refused(Refused::Invalid(_)))), "{unknown:?}");
}

fn replicas(order: &Order) -> u32 {
    match &order.body {
        Body::Service(body) => body.spec.replicas,
        Body::Project => panic!("expected a service"),
    }
}

#[tokio::test]
async fn a_dry_run_decides_like_the_door_and_records_nothing() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    let before = stage.rows().await;
    let used: i64 = stage.one("select services_used from quotas limit 1").await;
    let (org, context) = (stage.db.org, stage.context());

    let (new, request) = (name("api"), web("api:1"));
    let made = ServiceRequest::declare(PROJECT, &new, &request);
    let dry_run = stage.db.app.dry_run();
    dry_run.app().accept_service(org, &made, &context, at(3)).await.unwrap();
    let seen = dry_run.seen();
    assert_eq!((&seen.units[0].before, seen.units[0].after.generation), (&None, 1));
    assert_eq!(seen.quota.unwrap().used.services, 2, "with this one counted");

    let scaled = ServiceOperation::Scale { replicas: 4 };
    let scaled = ServiceRequest::act(PROJECT, "web", &scaled);
    let dry_run = stage.db.app.dry_run();
    dry_run.app().accept_service(org, &scaled, &context, at(3)).await.unwrap();
    let seen = dry_run.seen();
    assert_eq!(replicas(&seen.units[0].after), 4);
    assert_eq!(seen.units[0].before.as_ref().map(replicas), Some(1));
    assert_eq!(seen.units[0].name, "shop/web");
    assert_eq!(seen.quota.unwrap().used.cpu_millis, 1000);

    let wrong = ServiceRequest::act(PROJECT, "nobody", &ServiceOperation::Pause);
    let dry_run = stage.db.app.dry_run();
    let wrong = dry_run.app().accept_service(org, &wrong, &context, at(3)).await;
    assert!(matches!(wrong, Err(Refusal::NotFound("service"))), "{wrong:?}");
    assert_eq!(dry_run.seen(), DryRunResult::default());

    assert_eq!(stage.grown(&before).await, []);
    let still: i64 = stage.one("select services_used from quotas limit 1").await;
    assert_eq!(still, used);
}
