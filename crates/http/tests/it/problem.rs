//! Bad requests: each gets a code, the field and a helpful message, and saves nothing.

use axum::http::Method;
use serde_json::{Value, json};

use crate::front::{Front, WEB, web};

/// The request and the whole response, for the snapshot.
async fn exchange(front: &Front, method: &str, path: &str, body: &str) -> String {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let reply = front.request(method.clone(), path).body(body).send().await;
    let code = reply.json()["code"].as_str().unwrap_or_default().to_owned();
    reply.must_be(reply.status.as_u16(), &code);
    let answer: Value = serde_json::from_str(&reply.masked()).unwrap();
    let answer = serde_json::to_string_pretty(&answer).unwrap();
    format!("{method} {path}\n{body}\n{answer}\n")
}

#[tokio::test]
async fn invalid_bodies_name_the_field_and_the_fix() {
    let front = Front::new().await;
    let before = front.rows().await;
    let bodies = [
        // Not JSON, or incomplete.
        "",
        "{",
        "nonsense",
        "[]",
        r#"["Service", "web", "shop", "web@1", {"image": "a"}]"#,
        r#"{"template": "web@1"} {"template": "web@1"}"#,
        // The wrong shape.
        r#"{"template": "web@1", "colour": "red"}"#,
        r#"{"template": 1}"#,
        r#"{"template": null}"#,
        r#"{"template": "web@1", "template": "web@2"}"#,
        r#"{"template": "web@1", "parameters": []}"#,
        r#"{"template": "web@1", "parameters": "image"}"#,
        // Not accepted by the template.
        r#"{"template": "web"}"#,
        r#"{"template": "none@1"}"#,
        r#"{"template": "web@1"}"#,
        r#"{"template": "web@1", "parameters": {"image": 7, "replicas": 21, "colour": "red"}}"#,
        r#"{"template": "web@1", "parameters": {"image": "a\u0000b"}}"#,
        r#"{"template": "web@1", "parameters": {"image": "a", "variables": {"A B": "x"}}}"#,
        // Different from the path.
        r#"{"kind": "Project", "template": "web@1"}"#,
        r#"{"name": "other", "template": "web@1"}"#,
        r#"{"project": "other", "template": "web@1"}"#,
    ];
    let mut transcript = String::new();
    for body in bodies {
        transcript += &format!("{}\n", exchange(&front, "PUT", WEB, body).await);
    }
    assert_eq!(front.rows().await, before);
    insta::assert_snapshot!(transcript);
}

#[tokio::test]
async fn invalid_urls_name_the_problem() {
    let front = Front::with_web().await;
    let before = front.rows().await;
    let manifest = web("nginx:1").to_string();
    let requests = [
        ("PUT", "/v1/projects/shop/services/Web", manifest.as_str()),
        ("PUT", "/v1/projects/shop/services/kube-proxy", &manifest),
        ("PUT", "/v1/projects/shop/services/web%00", &manifest),
        ("PUT", "/v1/projects/none/services/web", &manifest),
        ("PUT", "/v1/projects/sh%00p/services/web", &manifest),
        ("PUT", "/v1/projects/1st", "{}"),
        ("PUT", "/v1/projects/default", "{}"),
        ("PUT", "/v1/projects/blog", r#"{"name": "other"}"#),
        ("PUT", "/v1/projects/blog", r#"{"owner": "me"}"#),
        ("GET", "/v1/projects/sh%ffp", ""),
        ("GET", "/v1/projects/sh%00p", ""),
        ("GET", "/v1/services?project=sh%00p", ""),
        ("GET", "/v1/services?colour=red", ""),
        ("GET", "/v1/events?after=first", ""),
        ("GET", "/v1/events?after=-1", ""),
        ("GET", "/v1/events?limit=many", ""),
        ("GET", "/v1/projects/shop/services/none/watch", ""),
        ("GET", "/v1/projects/shop/services/web/watch?after=x", ""),
        ("GET", "/v1/nothing", ""),
        ("POST", "/v1/projects", "{}"),
        ("PATCH", "/v1/projects/shop", "{}"),
    ];
    let mut transcript = String::new();
    for (method, path, body) in requests {
        transcript += &format!("{}\n", exchange(&front, method, path, body).await);
    }
    assert_eq!(front.rows().await, before);
    insta::assert_snapshot!(transcript);
}

#[tokio::test]
async fn fields_set_by_the_server_are_rejected() {
    let front = Front::with_web().await;
    let before = front.rows().await;
    let fields = [
        "id",
        "org",
        "org_id",
        "owner",
        "role",
        "generation",
        "status",
        "desired",
        "deleted_at",
        "cluster",
        "namespace",
        "object_name",
        "uid",
        "price",
        "quota",
        "node",
        "spec",
        "__proto__",
    ];
    for field in fields {
        let mut body = web("nginx:2");
        body[field] = json!("x");
        let problem = front.put(WEB).json(&body).send().await.must_be(400, "TU1101");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("`{field}`")), "{detail}");
        assert_eq!(problem["errors"][0]["field"], field);
    }
    assert_eq!(front.rows().await, before);
}

#[tokio::test]
async fn bodies_that_are_too_large_or_too_deep_are_refused() {
    let front = Front::new().await;
    let before = front.rows().await;
    let large = web(&"a".repeat(300 * 1024)).to_string();
    let problem = front.put(WEB).body(large).send().await.must_be(413, "TU1102");
    assert!(problem["detail"].as_str().unwrap().contains("256 KiB"), "{problem}");
    front.put("/v1/projects/blog").body(vec![b' '; 300 * 1024]).send().await.must_be(413, "TU1102");

    let deep = format!(r#"{{"template": "web@1", "parameters": {}"#, "[".repeat(100_000));
    front.put(WEB).body(deep).send().await.must_be(400, "TU1101");
    let deep = format!(r#"{{"template":"web@1","parameters":{{"image":{}"#, "[".repeat(100_000));
    front.put(WEB).body(deep).send().await.must_be(400, "TU1101");
    let keys: Vec<String> = (0..15_000).map(|number| format!("\"k{number}\":1")).collect();
    let wide = format!(r#"{{"template":"web@1","parameters":{{{}}}}}"#, keys.join(","));
    front.put(WEB).body(wide).send().await.must_be(422, "TU1201");
    front.put(WEB).body(vec![0xff, 0xfe, 0x00]).send().await.must_be(400, "TU1101");
    assert_eq!(front.rows().await, before);
}

#[tokio::test]
async fn special_characters_in_names_return_404() {
    let front = Front::with_web().await;
    let before = front.rows().await;
    let strange =
        ["'", "%27%20or%20true--", "%25", "_", "..", "%2e%2e%2f", "%F0%9F%98%80", "*", "web%20"];
    for text in strange {
        for path in [
            format!("/v1/projects/{text}"),
            format!("/v1/projects/shop/services/{text}"),
            format!("/v1/projects/{text}/services/web"),
            format!("/v1/projects/shop/services/{text}/watch"),
            format!("/v1/services?project={text}"),
        ] {
            front.get(&path).send().await.must_be(404, "TU1003");
        }
    }
    assert_eq!(front.rows().await, before);
}
