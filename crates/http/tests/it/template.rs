//! The API of templates: all roles read, operators publish and deprecate, versions are immutable.

use serde_json::{Value, json};

use crate::front::{DEVELOPER, Front, OPERATOR, OWNER, Reply, TestRequest, VIEWER};

fn bot(version: u32) -> Value {
    json!({
        "kind": "Template", "name": "bot", "version": version, "summary": "A chat bot.",
        "plan": "small",
        "images": {"allow": ["registry.example/bots/"]},
        "parameters": {
            "image": {"type": "string", "description": "The image.", "sets": "/image",
                      "mutable": true},
            "rooms": {"type": "integer", "description": "How many rooms.", "default": 3,
                      "minimum": 1, "maximum": 9, "sets": "/variables/ROOMS"},
        },
        "spec": {
            "workload": "deployment", "image": "", "replicas": 1, "variables": {"ROOMS": "3"},
            "resources": {"cpu_millis": 100, "memory_mib": 64},
        },
    })
}

fn as_operator(request: TestRequest) -> TestRequest {
    request.token(OPERATOR).header("trueup-org", "acme")
}

async fn publish(front: &Front, body: &Value) -> Reply {
    as_operator(front.post("/v1/templates")).json(body).send().await
}

async fn deprecate(front: &Front, version: &str, instead: &str) -> Reply {
    let path = format!("/v1/templates/bot/versions/{version}/deprecate");
    as_operator(front.post(&path)).json(&json!({"instead": instead})).send().await
}

#[tokio::test]
async fn a_template_is_published_read_and_used() {
    let front = Front::new().await;
    let reply = publish(&front, &bot(1)).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(reply.header("location"), Some("/v1/templates/bot/versions/1"));
    let shown = reply.json();
    assert_eq!(shown["name"], "bot@1");

    let read = front.get("/v1/templates/bot/versions/1").token(VIEWER).send().await.json();
    assert_eq!(read, shown, "the published template is returned");
    assert_eq!(read["spec"], bot(1)["spec"]);
    assert_eq!(read["images"]["allow"], json!(["registry.example/bots/"]));
    let parameters = &read["schema"]["properties"]["parameters"];
    assert_eq!(parameters["required"], json!(["image"]));
    assert_eq!(parameters["properties"]["rooms"]["maximum"], 9);

    let list = front.get("/v1/templates").token(VIEWER).send().await.json();
    let names: Vec<&str> =
        list["items"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["bot@1", "minecraft@1", "web@1"]);

    let made = front
        .put("/v1/projects/shop/services/helper")
        .json(&json!({"template": "bot@1", "parameters": {"image": "registry.example/bots/a:1"}}));
    assert_eq!(made.send().await.status, 202);
    let refused = front
        .put("/v1/projects/shop/services/other")
        .json(&json!({"template": "bot@1", "parameters": {"image": "elsewhere/a:1"}}));
    let problem = refused.send().await.must_be(422, "TU1201");
    assert_eq!(problem["errors"][0]["field"], "parameters.image");
}

#[tokio::test]
async fn versions_are_consecutive_and_immutable() {
    let front = Front::new().await;
    let version_error = |reply: Reply| {
        let problem = reply.must_be(422, "TU1201");
        assert_eq!(problem["errors"][0]["field"], "version");
        problem["errors"][0]["message"].as_str().unwrap().to_owned()
    };
    assert!(
        version_error(publish(&front, &bot(2)).await).starts_with("must be 1, the next version")
    );
    assert_eq!(publish(&front, &bot(1)).await.status, 201);
    let mut other = bot(1);
    other["summary"] = json!("Another one.");
    for again in [&bot(1), &other] {
        assert!(
            version_error(publish(&front, again).await).starts_with("must be 2, the next version")
        );
    }
    let read = front.get("/v1/templates/bot/versions/1").send().await.json();
    assert_eq!(read["summary"], "A chat bot.");
    let (a, b) = (bot(2), bot(2));
    let (one, two) = tokio::join!(publish(&front, &a), publish(&front, &b));
    let mut statuses = [one.status.as_u16(), two.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 422], "one of two concurrent requests succeeds");
    let list = front.get("/v1/templates/bot").send().await.json();
    let names: Vec<&Value> =
        list["items"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
    assert_eq!(names, ["bot@1", "bot@2"]);
}

#[tokio::test]
async fn all_field_errors_are_reported_at_once_and_nothing_is_saved() {
    let front = Front::new().await;
    let before = front.rows().await;
    let mut bad = bot(1);
    bad["parameters"]["rooms"]["default"] = json!(99);
    bad["parameters"]["image"]["sets"] = json!("/resources/cpu_millis");
    bad["images"]["allow"] = json!(["*"]);
    let problem = publish(&front, &bad).await.must_be(422, "TU1201");
    let mut fields: Vec<&str> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|error| error["field"].as_str())
        .collect();
    fields.sort_unstable();
    assert_eq!(fields, ["images.allow", "parameters.image", "parameters.rooms"]);

    let twist = |pointer: &str, value: Value| {
        let mut body = bot(1);
        let (parent, last) = pointer.rsplit_once('/').unwrap();
        body.pointer_mut(parent).unwrap()[last] = value;
        body
    };
    for (body, status, code) in [
        (twist("/colour", json!("red")), 400, "TU1101"),
        (twist("/version", json!(-1)), 400, "TU1101"),
        (twist("/kind", json!("Service")), 400, "TU1103"),
        (twist("/name", json!("Bot")), 422, "TU1201"),
        (twist("/plan", json!("Big One")), 422, "TU1201"),
        (twist("/parameters/rooms/type", json!("float")), 422, "TU1201"),
        (twist("/parameters/rooms/pattern", json!("(a+)+")), 400, "TU1101"),
        (twist("/spec/privileged", json!(true)), 422, "TU1201"),
        (twist("/spec/hostNetwork", json!(true)), 422, "TU1201"),
        (twist("/deprecated", json!({})), 400, "TU1101"),
    ] {
        publish(&front, &body).await.must_be(status, code);
    }
    assert_eq!(front.rows().await, before);
}

#[tokio::test]
async fn a_deprecated_version_says_what_to_use_instead() {
    let front = Front::new().await;
    publish(&front, &bot(1)).await;
    deprecate(&front, "1", "").await.must_be(422, "TU1201");
    deprecate(&front, "1", "a\nb").await.must_be(422, "TU1201");
    for none in ["2", "0", "x", "99999999999"] {
        deprecate(&front, none, "use bot@2").await.must_be(404, "TU1003");
    }
    let reply = deprecate(&front, "1", "use bot@2").await;
    assert_eq!(reply.status, 200);
    let since = reply.json()["deprecated"]["at"].clone();
    let again = deprecate(&front, "1", "use bot@3").await.json();
    assert_eq!(again["deprecated"], json!({"at": since, "instead": "use bot@3"}));
    let list = front.get("/v1/templates").send().await.json();
    assert_eq!(list["items"][0]["deprecated"]["instead"], "use bot@3");

    let asked = json!({"template": "bot@1", "parameters": {"image": "registry.example/bots/a:1"}});
    let path = "/v1/projects/shop/services/late";
    let problem = front.put(path).json(&asked).send().await.must_be(422, "TU1201");
    assert_eq!(problem["errors"][0]["field"], "template");
    let message = problem["errors"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("takes no new services") && message.ends_with("use bot@3"),
        "{message}"
    );
}

#[tokio::test]
async fn service_of_a_deprecated_version_can_change_and_upgrade() {
    let front = Front::new().await;
    publish(&front, &bot(1)).await;
    let put = |version: u32, image: &str| {
        let image = format!("registry.example/bots/{image}");
        let asked = json!({"template": format!("bot@{version}"), "parameters": {"image": image}});
        front.put("/v1/projects/shop/services/old").json(&asked).send()
    };
    assert_eq!(put(1, "a:1").await.status, 202);
    deprecate(&front, "1", "use bot@2").await;
    assert_eq!(put(1, "a:2").await.status, 202, "an existing service may change");
    publish(&front, &bot(2)).await;
    assert_eq!(put(2, "a:2").await.status, 202, "and upgrade");
    put(1, "a:2").await.must_be(422, "TU1201");
    let mut other = bot(3);
    other["spec"]["workload"] = json!("stateful_set");
    let problem = publish(&front, &other).await.must_be(422, "TU1201");
    assert_eq!(problem["errors"][0]["field"], "spec");
}

#[tokio::test]
async fn only_operators_publish_and_deprecate() {
    let front = Front::new().await;
    let before = front.rows().await;
    for token in [VIEWER, DEVELOPER, OWNER] {
        let publish = front.post("/v1/templates").token(token).json(&bot(1));
        publish.send().await.must_be(403, "TU1002");
        let path = "/v1/templates/web/versions/1/deprecate";
        let deprecate = front.post(path).token(token).json(&json!({"instead": "x"}));
        deprecate.send().await.must_be(403, "TU1002");
    }
    assert_eq!(front.rows().await, before);
}

#[tokio::test]
async fn missing_template_returns_404() {
    let front = Front::new().await;
    for path in [
        "/v1/templates/none",
        "/v1/templates/web/versions/2",
        "/v1/templates/web/versions/x",
        "/v1/templates/web/versions/-1",
        "/v1/templates/web/versions",
    ] {
        front.get(path).send().await.must_be(404, "TU1003");
    }
}

/// The documented spec has every field of a spec, except those that only the platform sets.
#[test]
fn documented_spec_has_the_fields_of_a_spec() {
    let whole = json!({
        "workload": "job", "image": "a", "replicas": 1, "schedule": "@daily", "retries": 1,
        "time_limit_s": 1, "command": ["a"], "args": ["a"], "ports": [{"name": "a", "port": 1}],
        "variables": {}, "generated_secrets": [], "plan": "small", "restart": 1, "probe": "tcp",
        "resources": {"cpu_millis": 1, "memory_mib": 1, "gpus": 1, "ephemeral_mib": 1},
        "volume": {"size_gib": 1, "path": "/a"}, "read_only_root": true,
        "scratch": [{"path": "/tmp", "size_mib": 1}],
    });
    let spec: trueup_model::spec::Spec = serde_json::from_value(whole).unwrap();
    let document = trueup_http::document();
    let schemas = &document["components"]["schemas"];
    let names = |value: &Value| -> Vec<String> {
        let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        names.sort();
        names
    };
    let mut has = serde_json::to_value(&spec).unwrap();
    for (part, schema) in [
        (&has["ports"][0], "TemplatePort"),
        (&has["resources"], "TemplateResources"),
        (&has["volume"], "TemplateVolume"),
    ] {
        assert_eq!(names(part), names(&schemas[schema]["properties"]), "{schema}");
    }
    for platform in ["plan", "restart"] {
        has.as_object_mut().unwrap().remove(platform);
    }
    assert_eq!(names(&has), names(&schemas["TemplateSpec"]["properties"]));
}
