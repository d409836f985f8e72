//! The OpenAPI document is checked in, so that API changes show in review.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use trueup_http::document;

use crate::front::OPERATOR;
use crate::recipe::{self, stage};

const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi/trueup.json");
/// Set to rewrite the file.
const UPDATE: &str = "TRUEUP_UPDATE";

#[test]
fn checked_in_document_matches_the_handlers() {
    let generated = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    let file = Path::new(CHECKED_IN);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        checked_in == generated,
        "openapi/trueup.json does not match the handlers; run the tests once with {UPDATE}=1"
    );
}

fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
        })
        .collect()
}

/// Where the client's methods are: in the file of each noun.
const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../api/src");
/// Methods of the client that are no operation of their own: health checks, raw calls, all pages of
/// a list, and two more ways to declare a service.
const NO_OPERATION: [&str; 8] = [
    "every_receipt",
    "every_service",
    "every_transition",
    "health",
    "raw",
    "ready",
    "service_put_previewed",
    "service_put_with_project",
];

/// The methods of the client that send something, from its sources.
fn client_methods(folder: &Path) -> BTreeSet<String> {
    let mut methods = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            methods.extend(client_methods(&path));
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        let blocks = source.split("\nimpl Client {\n").skip(1);
        let blocks = blocks.filter_map(|block| block.split("\n}\n").next());
        let methods_here = blocks.flat_map(|block| block.split("    pub async fn ").skip(1));
        methods.extend(methods_here.filter_map(|text| text.split('(').next()).map(str::to_owned));
    }
    methods
}

#[test]
fn every_operation_has_a_client_method_of_the_same_name() {
    let document = document();
    let operations = operations(&document);
    let described: BTreeSet<&str> = operations
        .iter()
        .map(|(place, operation)| {
            let id = operation["operationId"].as_str();
            id.unwrap_or_else(|| panic!("{place} should have an operationId"))
        })
        .collect();
    assert_eq!(described.len(), operations.len(), "an operationId should name one operation");
    let methods = client_methods(Path::new(CLIENT));
    let sent: BTreeSet<&str> = methods.iter().map(String::as_str).collect();
    assert_eq!(&described | &BTreeSet::from(NO_OPERATION), sent);
}

#[test]
fn every_operation_has_a_summary_parameters_and_problems() {
    let document = document();
    let token = &document["components"]["securitySchemes"]["token"];
    assert_eq!((&token["type"], &token["scheme"]), (&"http".into(), &"bearer".into()));
    assert_eq!(document["security"][0]["token"], Value::Array(Vec::new()));
    for (place, operation) in operations(&document) {
        assert!(operation["summary"].is_string(), "{place} should have a summary");
        assert!(operation["responses"]["401"].is_object(), "{place} should list its problems");
        let named: BTreeSet<&str> = operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|parameter| parameter["in"] == "path")
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        for name in place.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
            assert!(named.contains(name), "{place} should describe {name}");
        }
    }
}

/// Only TU1101 says that the server could not parse a body.
#[tokio::test]
async fn every_body_has_an_example_that_parses() {
    for (place, operation) in operations(&document()) {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let named = operation["requestBody"].is_null() || schema.is_string();
        assert!(named, "{place} should name its body's schema");
    }
    let (front, things) = stage().await;
    for operation in recipe::all_operations() {
        let name = operation.recipe.operation;
        let Some(example) = &operation.example else { continue };
        assert!(!example.is_null(), "{name}: the body should have an example");
        let path = format!("{}?dry_run=true", operation.address(&things));
        let request = operation.request(&front, OPERATOR, &path).json(example);
        let reply = request.send().await;
        assert_ne!(reply.json()["code"], "TU1101", "{name}: {example}: {}", reply.text());
    }
}

/// A client generator stops at a reference that leads nowhere.
#[test]
fn every_reference_resolves() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    let dangling: Vec<&String> = found
        .iter()
        .filter(|reference| document.pointer(reference.trim_start_matches('#')).is_none())
        .collect();
    assert!(dangling.is_empty(), "{dangling:?}");
}
