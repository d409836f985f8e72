//! The comparison of a service: accepted is not observed.

use serde_json::{Value, json};

use crate::drift::diverged;
use crate::front::{Front, VIEWER, WEB};

fn field<'a>(comparison: &'a Value, name: &str) -> &'a Value {
    let fields = comparison["fields"].as_array().expect("fields are a list");
    fields.iter().find(|field| field["field"] == name).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn accepted_fields_are_not_shown_as_observed() {
    let front = Front::with_web().await;
    let path = format!("{WEB}/comparison");
    let accepted = front.get(&path).token(VIEWER).send().await.json();
    assert_eq!(
        (&accepted["generation"], &accepted["reconciliation"]),
        (&json!(1), &json!("pending"))
    );
    let image = field(&accepted, "image");
    assert_eq!((&image["desired"], &image["observed"]), (&json!("nginx:1"), &Value::Null));
    assert_eq!(image["state"], "unknown", "no watch was ever heard of");
    front.db.record_heartbeat(trueup_model::Clock::now(&front.clock)).await;
    let heard = front.get(&path).send().await.json();
    assert_eq!(field(&heard, "image")["state"], "pending");
    let id = diverged(&front, "spec.replicas", "open").await;
    let diverged = front.get(&path).send().await.json();
    let replicas = field(&diverged, "replicas");
    assert_eq!((&replicas["state"], &replicas["observed"]), (&json!("differs"), &json!(3)));
    assert_eq!(replicas["divergence"]["id"], id);
    assert_eq!(replicas["divergence"]["by"], "kubectl-scale");
    assert!(replicas["divergence"]["hourly"]["micros"].is_i64());
    front.get("/v1/projects/shop/services/none/comparison").send().await.must_be(404, "TU1003");
}
