//! Refusals: an invalid request records nothing.

use serde_json::{Value, json};
use trueup_model::drift::DriftPolicy;
use trueup_rules::admit::{AdmissionRequest, Refused};
use trueup_store::door::{Refusal, ServiceRequest};
use trueup_testkit::test_db::name;

use crate::stage::{Stage, at, web};

fn with(template: &str, parameters: Value) -> AdmissionRequest {
    let Value::Object(parameters) = parameters else {
        panic!("parameters should be an object");
    };
    AdmissionRequest { parameters, template: template.parse().unwrap(), ..web("nginx:1") }
}

fn fields(refusal: Refusal) -> Vec<String> {
    match refusal {
        Refusal::Refused(Refused::Invalid(errors)) => {
            errors.into_iter().map(|field_error| field_error.field).collect()
        }
        other => panic!("expected a field error, not {other:?}"),
    }
}

#[tokio::test]
async fn an_invalid_request_names_every_field_and_records_nothing() {
    let stage = Stage::new().await;
    let before = stage.rows().await;
    let cases = [
        (with("none@1", json!({})), vec!["template"]),
        (with("web@2", json!({"image": "a"})), vec!["template"]),
        (with("web@4294967295", json!({"image": "a"})), vec!["template"]),
        (with("web@1", json!({})), vec!["parameters.image"]),
        (with("web@1", json!({"image": ""})), vec!["parameters.image"]),
        (with("web@1", json!({"image": "a\u{0}b"})), vec!["parameters.image"]),
        (with("web@1", json!({"image": null})), vec!["parameters.image"]),
        (
            with("web@1", json!({"image": 1, "replicas": -1, "port": 80, "colour": "red"})),
            vec!["parameters.colour", "parameters.image", "parameters.port", "parameters.replicas"],
        ),
        (with("web@1", json!({"image": "a", "replicas": 1.5})), vec!["parameters.replicas"]),
        (
            with("web@1", json!({"image": "a", "variables": {"A": "x\u{0}"}})),
            vec!["parameters.variables"],
        ),
        (
            with("web@1", json!({"image": "a", "variables": {"A\u{0}": "x"}})),
            vec!["parameters.variables"],
        ),
    ];
    for (request, expected) in cases {
        let refused = stage.try_declare("web", &request, None, 1).await.unwrap_err();
        assert_eq!(fields(refused), expected, "{request:?}");
    }
    assert_eq!(stage.grown(&before).await, []);
}

#[tokio::test]
async fn a_change_that_the_template_forbids_records_nothing() {
    let stage = Stage::new().await;
    let small = with("minecraft@1", json!({"world_gib": 10}));
    stage.try_declare("game", &small, None, 1).await.unwrap();
    let before = stage.rows().await;
    let smaller = with("minecraft@1", json!({"world_gib": 5}));
    let refused = stage.try_declare("game", &smaller, None, 2).await.unwrap_err();
    assert_eq!(fields(refused), ["parameters.world_gib"]);
    let refused = stage.try_declare("game", &web("nginx:1"), None, 2).await;
    assert_eq!(fields(refused.unwrap_err()), ["template"]);
    assert_eq!(stage.grown(&before).await, []);
    assert_eq!(stage.find("game").await.unwrap().service.generation, 1);
}

#[tokio::test]
async fn a_service_in_an_unknown_project_records_nothing() {
    let stage = Stage::new().await;
    let before = stage.rows().await;
    let web = name("web");
    let request = with("web@1", json!({}));
    let stranger = "prj_01h455vb4pex5vsknk084sn02q";
    for project in ["blog", stranger, "", "sh%p", "shop\0"] {
        let wanted = ServiceRequest::declare(project, &web, &request);
        let app = &stage.db.app;
        let refused = app.accept_service(stage.db.org, &wanted, &stage.context(), at(1)).await;
        assert!(matches!(refused, Err(Refusal::NotFound("project"))), "{project:?}");
    }
    assert_eq!(stage.grown(&before).await, []);
}

#[tokio::test]
async fn without_a_cluster_no_project_is_accepted() {
    let stage = Stage::new().await;
    // Not even the owner empties the ledger, so its guards are lifted first.
    sqlx::raw_sql(
        "alter table ledger_entries disable trigger entries_are_kept;
         alter table ledger_postings disable trigger postings_are_kept;
         alter table offers disable trigger offers_are_kept;
         alter table subscriptions disable trigger subscriptions_are_kept;
         truncate orgs, clusters cascade",
    )
    .execute(&stage.owner)
    .await
    .unwrap();
    let org = stage.db.setup.ensure_org("acme", at(0)).await.unwrap();
    let before = stage.rows().await;
    let app = &stage.db.app;
    let refused = app
        .accept_project(org, &name("blog"), &DriftPolicy::default(), &stage.context(), at(1))
        .await;
    assert!(matches!(refused, Err(Refusal::NoCluster)));
    assert_eq!(stage.grown(&before).await, []);
}
