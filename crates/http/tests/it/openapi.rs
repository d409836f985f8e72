//! The OpenAPI document is checked in, so that API changes show in review.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use trueup_api::Client;
use trueup_http::document;

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

/// The names of these methods, which must exist.
macro_rules! methods {
    ($($method:ident),* $(,)?) => {{
        $(let _exists = Client::$method;)*
        BTreeSet::from([$(stringify!($method)),*])
    }};
}

fn of_services() -> BTreeSet<&'static str> {
    methods![
        domain_delete,
        domain_get,
        domain_list,
        domain_check,
        domain_put,
        domain_verify,
        endpoint_delete,
        endpoint_list,
        endpoint_put,
        projection_check,
        release_list,
        secret_delete,
        secret_list,
        secret_put,
        service_autoscale,
        service_delete,
        service_force_delete,
        service_freeze,
        service_get,
        service_list,
        service_logs,
        service_pause,
        service_put,
        service_reconcile,
        service_resize,
        service_restart,
        service_resume,
        service_rollback,
        service_scale,
        service_secret_delete,
        service_secret_list,
        service_secret_put,
        service_unfreeze,
        service_variable_delete,
        service_variable_list,
        service_variable_put,
        service_watch,
        service_why,
        transition_list,
        variable_delete,
        variable_list,
        variable_put,
        volume_list,
    ]
}

fn of_the_rest() -> BTreeSet<&'static str> {
    methods![
        cluster_freeze,
        cluster_get,
        cluster_list,
        cluster_routing_get,
        cluster_routing_put,
        cluster_unfreeze,
        event_list,
        event_watch,
        org_create,
        org_get,
        org_list,
        plan_list,
        plan_put,
        platform_freeze,
        platform_get,
        platform_unfreeze,
        project_delete,
        project_force_delete,
        project_get,
        project_list,
        project_put,
        quota_get,
        quota_put,
        template_deprecate,
        template_get,
        template_list,
        template_publish,
        template_versions,
        token_create,
        token_list,
        token_revoke,
        preview_request_create,
        preview_request_get,
        finding_list,
        finding_remove,
        wake_list,
        wake_requeue,
        whoami,
    ]
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
    let methods: BTreeSet<&str> = &of_services() | &of_the_rest();
    assert_eq!(described, methods);
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

/// Whether a text is a body of this type, by the name of its schema.
macro_rules! bodies {
    ($name:expr, $text:expr, $($type:ty),* $(,)?) => {
        match $name {
            $(name if stringify!($type).ends_with(name) => {
                serde_json::from_str::<$type>($text).map(drop).map_err(|error| error.to_string())
            })*
            other => Err(format!("no type is known here for {other}: add it to this list")),
        }
    };
}

#[test]
fn every_body_has_an_example_that_parses() {
    use trueup_api::{
        cluster, domain, endpoint, finding, freeze, org, plan, project, quota, secret, service,
        template, token, variable,
    };
    let document = document();
    for (place, operation) in operations(&document) {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) else {
            assert!(operation["requestBody"].is_null(), "{place} should name its body's schema");
            continue;
        };
        let example = &document["components"]["schemas"][name]["example"];
        assert!(!example.is_null(), "{place}: {name} should have an example");
        let read = bodies!(
            name,
            &example.to_string(),
            org::OrgRequest,
            plan::PlanManifest,
            project::ProjectManifest,
            quota::Amounts,
            finding::FindingRemoveBody,
            freeze::FreezeBody,
            service::AutoscaleBody,
            service::ForceDeleteBody,
            service::NoBody,
            service::ResizeBody,
            service::RollbackBody,
            service::ScaleBody,
            service::ServiceManifest,
            cluster::ClusterRouting,
            domain::DomainBody,
            domain::DomainVerificationBody,
            endpoint::EndpointBody,
            secret::SecretBody,
            variable::VariableBody,
            template::TemplateDeprecation,
            template::TemplateManifest,
            token::TokenRequest,
        );
        assert_eq!(read, Ok(()), "{place}: the example of {name}");
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
