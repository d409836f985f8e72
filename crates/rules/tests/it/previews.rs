//! Previews: what a change does, by object and field.

use serde_json::{Value, json};
use trueup_model::order::Order;
use trueup_model::service::{DesiredState, Service};
use trueup_rules::preview::{ObjectDiff, Verb, changes, replaces_pods};

use crate::given;

fn order(service: &Service) -> Order {
    Order::of_service(service.clone(), "shop-0001".to_owned())
}

fn web(parameters: Value) -> Service {
    given::accepted(&given::template("web"), parameters)
}

fn summary(changes: &[ObjectDiff]) -> Vec<String> {
    changes
        .iter()
        .flat_map(|change| {
            let head = format!("{:?} {}", change.verb, change.key.kind);
            let fields = change.fields.iter().map(|field| {
                let side = |value: &Option<Value>| {
                    value.as_ref().map_or_else(|| "-".to_owned(), Value::to_string)
                };
                format!("  {} {} {}", field.path, side(&field.before), side(&field.after))
            });
            std::iter::once(head).chain(fields).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn a_new_service_creates_its_objects() {
    let made = changes(None, &order(&web(json!({"image": "shop:1"}))));
    assert!(made.iter().all(|change| change.verb == Verb::Create && change.fields.is_empty()));
    let kinds: Vec<&str> = made.iter().map(|change| change.key.kind.as_str()).collect();
    assert_eq!(kinds, ["ConfigMap", "Secret", "Deployment", "Service"]);
}

#[test]
fn a_change_names_the_fields_that_differ_and_nothing_else() {
    let before = web(json!({"image": "shop:1", "variables": {"A": "1", "B": "2"}}));
    let after = web(json!({"image": "shop:2", "replicas": 3, "variables": {"A": "1", "C": "3"}}));
    assert_eq!(
        summary(&changes(Some(&order(&before)), &order(&after))),
        [
            "Update ConfigMap",
            "  data.B \"2\" -",
            "  data.C - \"3\"",
            "Update Deployment",
            "  spec.replicas 1 3",
            "  spec.template.spec.containers.main.image \"shop:1\" \"shop:2\"",
            "Create PodDisruptionBudget",
        ]
    );
    assert!(replaces_pods(Some(&order(&before)), &order(&after)));
}

#[test]
fn enabling_autoscaling_hands_over_the_replicas() {
    let before = web(json!({"image": "shop:1", "replicas": 2}));
    let after = web(json!({"image": "shop:1", "replicas": 2, "max_replicas": 5}));
    assert_eq!(
        summary(&changes(Some(&order(&before)), &order(&after))),
        ["Update Deployment", "  spec.replicas 2 -", "Create HorizontalPodAutoscaler"]
    );
    assert!(!replaces_pods(Some(&order(&before)), &order(&after)));
}

#[test]
fn more_pods_replace_none_and_a_restart_replaces_all() {
    let before = web(json!({"image": "shop:1"}));
    let more = web(json!({"image": "shop:1", "replicas": 4}));
    assert!(!replaces_pods(Some(&order(&before)), &order(&more)));
    let other = web(json!({"image": "shop:1", "variables": {"A": "1"}}));
    assert!(replaces_pods(Some(&order(&before)), &order(&other)), "pods read variables at start");
}

#[test]
fn a_new_image_of_a_cron_replaces_its_pods() {
    let cron = |image: &str, schedule: &str| {
        let parameters = json!({"image": image, "schedule": schedule});
        order(&given::accepted(&given::template("cron"), parameters))
    };
    let before = cron("tidy:1", "0 3 * * *");
    assert!(replaces_pods(Some(&before), &cron("tidy:2", "0 3 * * *")));
    assert!(!replaces_pods(Some(&before), &cron("tidy:1", "0 4 * * *")));
}

#[test]
fn a_pause_stops_pods_and_a_deletion_removes_everything() {
    let runs = web(json!({"image": "shop:1", "replicas": 2}));
    let rests = Service { desired: DesiredState::Paused, ..runs.clone() };
    assert_eq!(
        summary(&changes(Some(&order(&runs)), &order(&rests))),
        ["Update Deployment", "  spec.replicas 2 0"]
    );
    let gone = Service { desired: DesiredState::Deleted, ..runs.clone() };
    let removed = changes(Some(&order(&runs)), &order(&gone));
    assert_eq!(removed.len(), 5);
    assert!(removed.iter().all(|change| change.verb == Verb::Delete));
}

#[test]
fn a_new_generation_alone_is_no_difference() {
    let before = web(json!({"image": "shop:1"}));
    let after = Service { generation: 9, ..before.clone() };
    assert_eq!(changes(Some(&order(&before)), &order(&after)), []);
    assert!(!replaces_pods(Some(&order(&before)), &order(&after)));
}
