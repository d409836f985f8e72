//! Every response that a test receives must be one that the OpenAPI document lists for the operation.

use std::sync::OnceLock;

use axum::http::Method;
use serde_json::Value;
use trueup_http::document;

use crate::front::Reply;

/// Panics where the document does not list this status, content type or problem code.
pub(crate) fn check(method: &Method, path: &str, reply: &Reply) {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    let document = DOCUMENT.get_or_init(document);
    let path = path.split('?').next().unwrap_or_default();
    let Some(operation) = find(document, method, path) else {
        return;
    };
    let id = operation["operationId"].as_str().unwrap_or_default();
    let response = resolve(document, &operation["responses"][reply.status.as_str()]);
    assert!(response.is_object(), "{id} answered {}, which is not documented", reply.status);
    let content_type = reply.header("content-type").unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default();
    let Some(content) = response["content"].as_object() else {
        assert!(reply.body.is_empty(), "{id}: {} should have no body", reply.status);
        return;
    };
    assert!(
        content.contains_key(content_type),
        "{id}: {} with {content_type:?} is not documented",
        reply.status
    );
    if content_type == "application/problem+json" {
        let code = reply.json()["code"].clone();
        let listed = &content[content_type]["schema"]["allOf"][1]["properties"]["code"]["enum"];
        let listed = listed.as_array().unwrap();
        assert!(
            listed.contains(&code),
            "{id} answered {code}, which is not documented: {listed:?}"
        );
    }
}

/// What a `$ref` stands for.
fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let pointer = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

fn find<'a>(document: &'a Value, method: &Method, path: &str) -> Option<&'a Value> {
    let paths = document["paths"].as_object()?;
    // A literal segment wins over a parameter.
    let mut found: Vec<_> = paths.iter().filter(|(template, _)| matches(template, path)).collect();
    found.sort_by_key(|(template, _)| template.matches('{').count());
    found.first()?.1.get(method.as_str().to_lowercase())
}

fn matches(template: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted == given => {}
            (Some(wanted), Some(given)) if wanted.starts_with('{') && !given.is_empty() => {}
            _ => return false,
        }
    }
}
