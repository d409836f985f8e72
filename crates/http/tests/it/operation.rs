//! The API of operations, dry runs, idempotency keys and quotas.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::front::{DEVELOPER, Front, OPERATOR, OWNER, VIEWER, WEB, web};

impl Front {
    async fn limit(&self, limit: Value) {
        let request =
            self.put("/v1/quota").token(OPERATOR).header("trueup-org", "acme").json(&limit);
        let reply = request.send().await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    }
}

fn act(action: &str) -> String {
    format!("{WEB}/{action}")
}

#[tokio::test]
async fn repeated_operation_is_unchanged() {
    let front = Front::with_web().await;
    let table = [
        ("pause", json!({}), StatusCode::ACCEPTED, 2),
        ("pause", json!({}), StatusCode::OK, 2),
        ("resume", json!({}), StatusCode::ACCEPTED, 3),
        ("restart", json!({}), StatusCode::ACCEPTED, 4),
        ("scale", json!({"replicas": 3}), StatusCode::ACCEPTED, 5),
        ("scale", json!({"replicas": 3}), StatusCode::OK, 5),
        ("resize", json!({"plan": "medium"}), StatusCode::ACCEPTED, 6),
        ("rollback", json!({"to": 1}), StatusCode::ACCEPTED, 7),
        ("autoscale", json!({"min": 2, "max": 4}), StatusCode::ACCEPTED, 8),
        ("autoscale", json!({"min": 2, "max": 4}), StatusCode::OK, 8),
    ];
    for (action, body, status, generation) in table {
        let reply = front.post(&act(action)).token(DEVELOPER).json(&body).send().await;
        assert_eq!(reply.status, status, "{action}: {}", reply.text());
        assert_eq!(reply.json()["generation"], generation, "{action}");
        assert!(
            reply.header("etag").is_some_and(|tag| tag.starts_with(&format!("\"g{generation}.")))
        );
    }
    let releases = front.get(&act("releases")).token(VIEWER).send().await.json();
    let actions: Vec<&str> = releases["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["action"].as_str().unwrap())
        .collect();
    let before = ["rollback", "resize", "scale", "restart", "resume", "pause", "declare"];
    assert_eq!((actions[0], &actions[1..]), ("autoscale", &before[..]));
    let now = front.get(WEB).send().await.json();
    assert_eq!((&now["plan"], &now["replicas"]), (&json!("small"), &json!(1)));
    assert_eq!(now["monthly"]["text"], "17.52 EUR", "the most it can cost");
    assert_eq!(now["autoscale"], json!({"min": 2, "max": 4, "cpu_percent": 70}));
}

#[tokio::test]
async fn invalid_operation_names_the_field() {
    let front = Front::with_web().await;
    let table = [
        ("scale", json!({"replicas": 99}), 422, "TU1201", "replicas"),
        ("resize", json!({"plan": "huge"}), 422, "TU1201", "plan"),
        ("resize", json!({"plan": "Not A Name"}), 422, "TU1201", "plan"),
        ("rollback", json!({"to": 9}), 422, "TU1201", "to"),
        ("rollback", json!({}), 422, "TU1201", "to"),
        ("scale", json!({"replicas": -1}), 400, "TU1101", "replicas"),
        ("scale", json!({"replicas": 1, "generation": 7}), 400, "TU1101", "generation"),
        ("pause", json!({"force": true}), 400, "TU1101", "force"),
    ];
    let before = front.rows().await;
    for (action, body, status, code, field) in table {
        let problem = front.post(&act(action)).json(&body).send().await.must_be(status, code);
        assert_eq!(problem["errors"][0]["field"], field, "{action}: {problem}");
    }
    assert_eq!(front.rows().await, before);
}

#[tokio::test]
async fn stale_if_match_is_refused() {
    let front = Front::with_web().await;
    let stale = front.post(&act("pause")).header("if-match", "\"g9.p1.f1\"").send().await;
    stale.must_be(412, "TU1301");
    let good = front.post(&act("pause")).header("if-match", "\"g1.p1.f1\"").send().await;
    assert_eq!(good.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn rollback_without_target_stops_at_a_change_of_variables() {
    let front = Front::with_web().await;
    front.declare("nginx:2").await;
    let set = front.put(&format!("{WEB}/variables/A")).json(&json!({"value": "1"})).send().await;
    assert_eq!(set.status, StatusCode::ACCEPTED);
    let back = |body: Value| front.post(&act("rollback")).json(&body).send();
    let refused = back(json!({})).await.must_be(422, "TU1201");
    let said = refused["errors"][0]["message"].as_str().unwrap();
    assert!(said.contains("variables, secrets, endpoints, domains or active hours"), "{said}");
    let named = back(json!({"to": 1})).await;
    assert_eq!((named.status, &named.json()["generation"]), (StatusCode::ACCEPTED, &json!(4)));
    // That restored the first release: there is none before it, and it never returns to what it undid.
    back(json!({})).await.must_be(422, "TU1201");
    assert_eq!(back(json!({"to": 2})).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn dry_run_shows_the_change_and_saves_nothing() {
    let front = Front::with_web().await;
    let before = front.rows().await;
    let request = front.put(&format!("{WEB}?dry_run=true")).json(&json!({
        "template": "web@1", "plan": "medium", "parameters": {"image": "nginx:2", "replicas": 2}
    }));
    let reply = request.send().await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    let preview = reply.json();
    let unit = &preview["units"][0];
    assert_eq!((&unit["kind"], &unit["name"]), (&json!("service"), &json!("shop/web")));
    assert_eq!((&preview["changed"], &unit["generation"]), (&json!(true), &json!(2)));
    assert_eq!(unit["replaces_pods"], true);
    assert_eq!(unit["monthly_before"]["text"], "4.38 EUR");
    assert_eq!(unit["monthly_after"]["text"], "39.42 EUR");
    assert_eq!(preview["quota"]["used"]["cpu_millis"], 2000);
    assert_eq!(preview["result"]["generation"], 2);
    let objects = unit["objects"].as_array().unwrap();
    assert_eq!(objects.len(), 2, "{objects:?}");
    assert_eq!(objects[1]["kind"], "PodDisruptionBudget");
    assert_eq!(
        (&objects[0]["kind"], &objects[0]["verb"]),
        (&json!("Deployment"), &json!("update"))
    );
    let paths: Vec<&str> = objects[0]["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| field["path"].as_str().unwrap())
        .collect();
    assert!(paths.contains(&"spec.template.spec.containers.main.image"), "{paths:?}");

    for path in [act("pause?dry_run=true"), act("restart?dry_run=true")] {
        assert_eq!(front.post(&path).send().await.json()["changed"], true, "{path}");
    }
    let gone = front.delete(&format!("{WEB}?dry_run=true")).send().await.json();
    assert!(
        gone["units"][0]["objects"]
            .as_array()
            .unwrap()
            .iter()
            .all(|object| object["verb"] == "delete")
    );
    let same = front.put(&format!("{WEB}?dry_run=true")).json(&web("nginx:1")).send().await;
    assert_eq!(same.json()["changed"], false);
    front.put(&format!("{WEB}?dry_run=true")).json(&web("")).send().await.must_be(422, "TU1201");
    front.post(&act("pause?dry_run=maybe")).send().await.must_be(400, "TU1103");
    let viewer = front.post(&act("pause?dry_run=true")).token(VIEWER).send().await;
    viewer.must_be(403, "TU1002");
    assert_eq!(front.rows().await, before);
}

#[tokio::test]
async fn dry_run_of_a_project_shows_its_network_policies() {
    let front = Front::new().await;
    let before = front.rows().await;
    let preview = front.put("/v1/projects/blog?dry_run=true").send().await.json();
    assert_eq!(preview["changed"], true);
    let objects = preview["units"][0]["objects"].as_array().unwrap();
    assert!(objects.iter().all(|object| object["verb"] == "create"), "{objects:?}");
    assert!(objects.iter().any(|object| object["kind"] == "NetworkPolicy"), "{objects:?}");
    let same = front.put("/v1/projects/shop?dry_run=true").send().await.json();
    assert_eq!((&same["changed"], &same["units"]), (&json!(false), &json!([])));
    assert_eq!(front.rows().await, before);
}

#[tokio::test]
async fn dry_run_never_shows_a_secret() {
    let front = Front::new().await;
    let reply = front.put(&format!("{WEB}?dry_run=true")).json(&web("nginx:1")).send().await;
    let preview = reply.json();
    let kinds: Vec<&str> = preview["units"][0]["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["kind"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"Secret"), "{kinds:?}");
    assert!(!preview["units"].to_string().contains("data"), "{}", reply.text());
}

#[tokio::test]
async fn retry_with_the_same_key_is_applied_once() {
    let front = Front::with_web().await;
    let send = |key: &str, body: &str| {
        front.post(&act("restart")).header("idempotency-key", key).body(body).send()
    };
    assert_eq!(send("one", "{}").await.status, StatusCode::ACCEPTED);
    let again = send("one", "{}").await;
    assert_eq!((again.status, &again.json()["generation"]), (StatusCode::OK, &json!(2)));
    send("one", "{ }").await.must_be(409, "TU1303");
    assert_eq!(send("two", "{}").await.json()["generation"], 3);
    // The same key of another principal is a different key.
    let other = front.post(&act("restart")).token(DEVELOPER).header("idempotency-key", "one");
    assert_eq!(other.body("{}").send().await.json()["generation"], 4);
    for bad in ["", "two words", &"x".repeat(256)] {
        send(bad, "{}").await.must_be(400, "TU1103");
    }
    let twice = front.post(&act("restart")).header("idempotency-key", "a");
    twice.header("idempotency-key", "b").send().await.must_be(400, "TU1103");
}

#[tokio::test]
async fn exceeded_quota_names_the_missing_resources() {
    let front = Front::with_web().await;
    front
        .limit(json!({"services": 1, "cpu_millis": 600, "memory_mib": 4096, "storage_gib": 0, "gpus": 0}))
        .await;
    let problem =
        front.post(&act("scale")).json(&json!({"replicas": 3})).send().await.must_be(409, "TU1401");
    assert_eq!(problem["errors"].as_array().unwrap().len(), 1);
    assert_eq!(problem["errors"][0]["field"], "cpu_millis");
    assert_eq!(problem["errors"][0]["message"], "500 more needed, 350 left");
    let second = front.put("/v1/projects/shop/services/api").json(&web("a")).send().await;
    let problem = second.must_be(409, "TU1401");
    assert_eq!(problem["errors"][0]["field"], "services");
    let quota = front.get("/v1/quota").token(VIEWER).send().await.json();
    assert_eq!((&quota["used"]["services"], &quota["left"]["services"]), (&json!(1), &json!(0)));
}

#[tokio::test]
async fn only_operators_set_plans_and_quotas() {
    let front = Front::new().await;
    let plan = json!({
        "summary": "Tiny.", "cpu_millis": 50, "memory_mib": 32, "hourly_micros": 100, "currency": "EUR"
    });
    let limit =
        json!({"services": 1, "cpu_millis": 1, "memory_mib": 1, "storage_gib": 1, "gpus": 1});
    let before = front.rows().await;
    for token in [OWNER, DEVELOPER, VIEWER] {
        front.put("/v1/plans/tiny").token(token).json(&plan).send().await.must_be(403, "TU1002");
        front.put("/v1/quota").token(token).json(&limit).send().await.must_be(403, "TU1002");
    }
    assert_eq!(front.rows().await, before);
    let put = || front.put("/v1/plans/tiny").token(OPERATOR).json(&plan).send();
    assert_eq!(put().await.status, StatusCode::CREATED);
    assert_eq!(put().await.status, StatusCode::OK);
    let wrong = json!({
        "summary": "", "cpu_millis": 0, "memory_mib": 1, "hourly_micros": -1, "currency": "euro"
    });
    let wrong = front.put("/v1/plans/tiny").token(OPERATOR).json(&wrong).send().await;
    let fields: Vec<Value> = wrong.must_be(422, "TU1201")["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["field"].clone())
        .collect();
    assert_eq!(fields, ["currency", "cpu_millis", "hourly_micros"]);
    let tiny = json!({"template": "web@1", "plan": "tiny", "parameters": {"image": "a"}});
    let made = front.put(WEB).json(&tiny).send().await.json();
    assert_eq!((&made["plan"], &made["monthly"]["text"]), (&json!("tiny"), &json!("0.073 EUR")));
}
