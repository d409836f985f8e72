//! Dry runs: every write has one, shows what it would do, and saves nothing.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::front::{Front, OPERATOR, Reply, WEB};
use crate::recipe::{UNCHANGED, operations, prepare, stage};

#[tokio::test]
async fn dry_run_of_every_write_saves_nothing() {
    let (front, things) = stage().await;
    let mut written = 0;
    for operation in operations().iter().filter(|one| one.method != Method::GET) {
        let name = operation.recipe.operation;
        assert!(operation.queries.contains(&"dry_run".to_owned()), "{name} documents no dry_run");
        let token = operation.recipe.caller();
        let path = format!("{}?dry_run=true", operation.address(&things));
        let own;
        let (front, body) = if operation.recipe.operation.ends_with("_force_delete") {
            own = stage().await.0;
            (&own, prepare(&own, operation).await)
        } else {
            (&front, None)
        };
        let before = front.stored(None).await;
        let request = operation.request(front, token, &path);
        let reply = body.iter().fold(request, |request, body| request.json(body)).send().await;
        assert_eq!(reply.status, StatusCode::OK, "{name}: {}", reply.text());
        assert_eq!(reply.header("etag"), None, "{name}: a dry run has no ETag");
        let preview = reply.json();
        assert_eq!(preview["changed"], json!(!UNCHANGED.contains(&name)), "{name}: {preview}");
        assert!(preview["units"].is_array(), "{name}: {preview}");
        assert_eq!(front.stored(None).await, before, "{name} saved something");
        written += 1;
    }
    assert!(written > 20, "the document lists the writes: {written}");
    // Without the parameter the write is saved.
    let before = front.stored(None).await;
    let real = front.put(&format!("{WEB}/variables/PLAIN")).json(&json!({"value": "new"}));
    assert_eq!(real.send().await.status, StatusCode::ACCEPTED);
    assert_ne!(front.stored(None).await, before);
}

fn unit<'a>(preview: &'a Value, name: &str) -> &'a Value {
    let units = preview["units"].as_array().unwrap();
    units.iter().find(|unit| unit["name"] == name).unwrap_or_else(|| panic!("{name}: {preview}"))
}

fn field<'a>(unit: &'a Value, kind: &str, path: &str) -> &'a Value {
    let objects = unit["objects"].as_array().unwrap();
    let object = objects.iter().find(|object| object["kind"] == kind).expect("the kind should be");
    let fields = object["fields"].as_array().unwrap();
    fields.iter().find(|field| field["path"] == path).unwrap_or_else(|| panic!("{path}: {object}"))
}

async fn preview(front: &Front, path: &str, body: &Value) -> (Reply, Value) {
    let reply = front.put(&format!("{path}?dry_run=true")).json(body).send().await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    let preview = reply.json();
    (reply, preview)
}

#[tokio::test]
async fn dry_run_of_a_project_variable_shows_every_changed_service() {
    let front = Front::with_web().await;
    let api = front.put("/v1/projects/shop/services/api").json(&crate::front::web("api:1"));
    assert_eq!(api.send().await.status, StatusCode::ACCEPTED);
    let own = front.put(&format!("{WEB}/variables/REGION")).json(&json!({"value": "own"}));
    assert_eq!(own.send().await.status, StatusCode::ACCEPTED);

    let body = json!({"value": "north"});
    let (_, shown) = preview(&front, "/v1/projects/shop/variables/REGION", &body).await;
    assert_eq!(shown["units"].as_array().unwrap().len(), 1, "web has its own: {shown}");
    let api = unit(&shown, "shop/api");
    assert_eq!((&api["generation"], &api["replaces_pods"]), (&json!(2), &json!(true)));
    assert_eq!(field(api, "ConfigMap", "data.REGION")["after"], "north");
    assert_eq!(api["monthly_before"], api["monthly_after"]);
    assert_eq!(shown["result"]["version"], 1);
    assert_eq!(shown["quota"]["used"]["services"], 2);

    let gone = front.delete(&format!("{WEB}/variables/REGION?dry_run=true")).send().await.json();
    assert_eq!(field(unit(&gone, "shop/web"), "ConfigMap", "data.REGION")["before"], "own");
    assert_eq!(gone.get("result"), None);
}

#[tokio::test]
async fn dry_run_of_a_secret_shows_its_version_not_its_value() {
    let front = Front::with_web().await;
    let path = format!("{WEB}/secrets/PASSWORD");
    let (made, shown) = preview(&front, &path, &json!({"value": "canary-1"})).await;
    let after = &field(unit(&shown, "shop/web"), "Secret", "data.PASSWORD")["after"];
    assert_eq!(after, "(hidden, version 1 of the service)");
    let set = front.put(&path).json(&json!({"value": "canary-2"})).send().await;
    assert_eq!((set.status, set.header("etag")), (StatusCode::ACCEPTED, Some("\"v1\"")));
    let (changed, shown) = preview(&front, &path, &json!({"value": "canary-3"})).await;
    let web = unit(&shown, "shop/web");
    assert_eq!(
        field(web, "Secret", "data.PASSWORD"),
        &json!({"path": "data.PASSWORD", "before": "(hidden, version 1 of the service)",
                "after": "(hidden, version 2 of the service)"})
    );
    assert_eq!(web["replaces_pods"], true, "pods read it when they start");
    for reply in [made, changed] {
        assert!(!reply.text().contains("canary"), "{}", reply.text());
    }
}

#[tokio::test]
async fn dry_run_of_an_endpoint_shows_its_objects() {
    let front = Front::with_web().await;
    let path = format!("{WEB}/endpoints/public");
    let (_, shown) = preview(&front, &path, &json!({"port": "http"})).await;
    let objects = unit(&shown, "shop/web")["objects"].clone();
    let objects = objects.as_array().unwrap();
    let made: Vec<&Value> = objects.iter().map(|object| &object["kind"]).collect();
    assert_eq!(made, ["NetworkPolicy", "Service"]);
    assert!(objects.iter().all(|object| object["verb"] == "create"), "{objects:?}");
    assert_eq!(shown["result"]["state"], "opening");
    let open = front.put(&path).json(&json!({"port": "http"})).send().await;
    assert_eq!(open.json()["node_port"], shown["result"]["node_port"], "the port was not reserved");
    let gone = front.delete(&format!("{path}?dry_run=true")).send().await.json();
    assert_eq!(unit(&gone, "shop/web")["objects"][0]["verb"], "delete");
    // An open endpoint is not part of a later, unrelated preview.
    let (_, other) = preview(&front, WEB, &crate::front::web("nginx:2")).await;
    assert_eq!(unit(&other, "shop/web")["objects"].as_array().unwrap().len(), 1, "{other}");
}

#[tokio::test]
async fn dry_run_of_a_token_returns_no_secret() {
    let front = Front::new().await;
    let body = json!({"name": "ci", "role": "viewer"});
    let reply = front.post("/v1/tokens?dry_run=true").json(&body).send().await;
    let shown = reply.json();
    assert_eq!((&shown["changed"], &shown["result"]["name"]), (&json!(true), &json!("ci")));
    assert_eq!(shown["result"].get("secret"), None, "{shown}");
    let org = front.post("/v1/orgs?dry_run=true").token(OPERATOR).json(&json!({"name": "fresh"}));
    let shown = org.send().await.json();
    assert_eq!(shown["result"]["owner"].get("secret"), None, "{shown}");
    assert_eq!(shown.get("quota"), None, "no service changes");
    // A dry run is refused for the same reasons.
    let much = json!({"name": "ci", "role": "operator"});
    front.post("/v1/tokens?dry_run=true").json(&much).send().await.must_be(403, "TU1002");
}

#[tokio::test]
async fn dry_run_does_not_use_up_an_idempotency_key() {
    let front = Front::with_web().await;
    let restart = |query: &str| {
        let path = format!("{WEB}/restart{query}");
        front.post(&path).header("idempotency-key", "once").json(&json!({})).send()
    };
    assert_eq!(restart("?dry_run=true").await.json()["changed"], true);
    assert_eq!(restart("").await.status, StatusCode::ACCEPTED);
    let again = restart("?dry_run=true").await.json();
    assert_eq!((&again["changed"], &again["units"]), (&json!(false), &json!([])));
}

#[tokio::test]
async fn stale_if_match_is_refused_for_values_and_endpoints() {
    let front = Front::with_web().await;
    for (kind, of) in [("variables", "/v1/projects/shop"), ("secrets", WEB)] {
        let path = format!("{of}/{kind}/PLACE");
        let set = |tag: &str, value: &str| {
            front.put(&path).header("if-match", tag).json(&json!({"value": value})).send()
        };
        set("\"v1\"", "a").await.must_be(412, "TU1301");
        assert_eq!(set("\"v0\"", "a").await.status, StatusCode::ACCEPTED, "it was not set");
        set("\"v0\"", "b").await.must_be(412, "TU1301");
        let second = set("\"v1\"", "b").await;
        assert_eq!(second.header("etag"), Some("\"v2\""));
        set("\"g1\"", "c").await.must_be(400, "TU1103");
        let gone = |tag: &str| front.delete(&path).header("if-match", tag).send();
        gone("\"v1\"").await.must_be(412, "TU1301");
        assert_eq!(gone("\"v2\"").await.status, StatusCode::ACCEPTED);
        assert_eq!(set("\"v0\"", "d").await.header("etag"), Some("\"v4\""), "versions continue");
    }
    let endpoint = format!("{WEB}/endpoints/public");
    let open = |tag: &str| {
        front.put(&endpoint).header("if-match", tag).json(&json!({"port": "http"})).send()
    };
    open("\"g1\"").await.must_be(412, "TU1301");
    let service = front.get(WEB).send().await;
    assert_eq!(open(service.header("etag").unwrap()).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn service_with_project_requires_permission_for_projects() {
    let front = Front::new().await;
    let (path, body) = ("/v1/projects/fresh/services/web", crate::front::web("nginx:1"));
    let put = |query: &str| front.put(&format!("{path}{query}")).json(&body);
    put("?dry_run=true").send().await.must_be(404, "TU1003");
    let asked = put("?dry_run=true&with_project=true");
    let shown = asked.send().await.json();
    let names: Vec<&Value> =
        shown["units"].as_array().unwrap().iter().map(|unit| &unit["name"]).collect();
    assert_eq!(names, ["fresh", "fresh/web"], "{shown}");
    assert_eq!(unit(&shown, "fresh/web")["generation"], 1);
    front.get("/v1/projects/fresh").send().await.must_be(404, "TU1003");

    let developer = || put("?with_project=true").token(crate::front::DEVELOPER);
    developer().send().await.must_be(403, "TU1002");
    assert_eq!(put("?with_project=true").send().await.status, StatusCode::ACCEPTED);
    assert_eq!(put("?with_project=true").send().await.status, StatusCode::OK, "both exist");
    assert_eq!(front.get(path).send().await.json()["generation"], 1);
    let by_id = front.get("/v1/projects/fresh").send().await.json();
    let by_id =
        format!("/v1/projects/{}/services/web?with_project=true", by_id["id"].as_str().unwrap());
    front.put(&by_id).json(&body).send().await.must_be(422, "TU1201");
}
