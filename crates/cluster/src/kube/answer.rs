//! Interprets responses: the objects of a successful one, the error of a failed one.

use std::time::Duration;

use kube::core::Status;
use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_rules::render::names;

use crate::verbs::CallError;

/// The pause for a 429 without `Retry-After`.
const PAUSE: Duration = Duration::from_secs(1);

/// Adds the type that objects lack inside a list, and shortens `managedFields`.
///
/// `managedFields` is often larger than the object. Only entries of other managers are kept: they
/// name who edits our objects.
pub(super) fn tidy(object: &mut Value, kind: Kind) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    fields.insert("kind".to_owned(), kind.as_str().into());
    fields.insert("apiVersion".to_owned(), kind.api_version().into());
    let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(Value::Array(managers)) = metadata.remove("managedFields") {
        let others: Vec<Value> = managers.into_iter().filter_map(other_manager).collect();
        if !others.is_empty() {
            metadata.insert("managedFields".to_owned(), Value::Array(others));
        }
    }
}

/// An entry of another manager, without status, which every controller writes. `kubectl scale`
/// writes the number of pods through a subresource of its own.
fn other_manager(mut entry: Value) -> Option<Value> {
    let is_ours = entry["manager"] == names::FIELD_MANAGER;
    let is_part = !matches!(entry["subresource"].as_str(), None | Some("" | "scale"));
    let fields = entry.get_mut("fieldsV1")?.as_object_mut()?;
    fields.remove("f:status");
    if is_ours || is_part || fields.is_empty() {
        return None;
    }
    entry
        .as_object_mut()?
        .retain(|name, _| ["manager", "time", "fieldsV1"].contains(&name.as_str()));
    Some(entry)
}

/// The objects of a list response.
pub(super) fn take_items(list: &mut Value, kind: Kind) -> Vec<Value> {
    let Some(Value::Array(mut items)) = list.get_mut("items").map(Value::take) else {
        return Vec::new();
    };
    for item in &mut items {
        tidy(item, kind);
    }
    items
}

/// A string in a response; empty if it is missing.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Whether a 404 means that the object does not exist, not that its kind is not served. The server
/// names what is missing; an unknown path has no details.
pub(super) fn no_such_object(failure: &Status, key: &ResourceKey) -> bool {
    failure.details.as_ref().is_some_and(|details| {
        // An object in a namespace that does not exist does not exist, either.
        details.kind == key.kind.plural() || details.kind == Kind::Namespace.plural()
    })
}

/// Maps a failed response to an error.
pub(super) fn call_error(failure: &Status, kind: Kind, retry_after: Option<Duration>) -> CallError {
    let message = failure.message.clone();
    match failure.code {
        401 => CallError::Forbidden(message),
        403 if by_authorisation(failure) => CallError::Forbidden(message),
        404 if failure.details.is_none() => CallError::UnknownKind(kind.to_string()),
        404 if is_namespace_missing(failure, kind) => CallError::Refused(message),
        // The object of a patch is gone: another writer deleted it.
        404 | 409 => CallError::Conflict(message),
        422 if uid_differs(failure) => CallError::Conflict(message),
        410 => CallError::Expired,
        429 => CallError::Throttled {
            after: retry_after.or_else(|| body_retry_after(failure)).unwrap_or(PAUSE),
        },
        500 if undeclared_field(failure) || webhook_unavailable(failure) => {
            CallError::Refused(message)
        }
        500..=599 => CallError::Server(message),
        _ => CallError::Refused(message),
    }
}

/// Authorisation and admission share code and reason; only authorisation mentions the user.
fn by_authorisation(failure: &Status) -> bool {
    failure.message.contains("forbidden: User \"") && failure.message.contains("\" cannot ")
}

fn is_namespace_missing(failure: &Status, kind: Kind) -> bool {
    kind != Kind::Namespace
        && failure.details.as_ref().is_some_and(|details| details.kind == Kind::Namespace.plural())
}

/// A uid inside a patch is compared as an immutable field, not as a precondition.
fn uid_differs(failure: &Status) -> bool {
    failure
        .details
        .as_ref()
        .is_some_and(|details| details.causes.iter().any(|cause| cause.field == "metadata.uid"))
}

/// Server-side apply returns 500 for a field that is not in the schema, although the object is at
/// fault.
fn undeclared_field(failure: &Status) -> bool {
    failure.message.contains("failed to create typed patch object")
}

/// A required webhook is unavailable. Admission comes before storage, so nothing was done, and the
/// API server itself is healthy.
fn webhook_unavailable(failure: &Status) -> bool {
    failure.message.contains("failed calling webhook")
}

/// `retryAfterSeconds` in the body of a 429.
fn body_retry_after(failure: &Status) -> Option<Duration> {
    let seconds = failure.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn means(answer: Value) -> CallError {
        let failure: Status = serde_json::from_value(answer).unwrap();
        call_error(&failure, Kind::ConfigMap, None)
    }

    #[test]
    fn every_failed_response_maps_to_one_error() {
        let user = "configmaps \"a\" is forbidden: User \"bob\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"team\"";
        let quota = "pods \"a\" is forbidden: exceeded quota: most, requested: cpu=2";
        let security = "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\"";
        let typed =
            "failed to create typed patch object (team/a): .spec.x: field not declared in schema";
        let webhook = "Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: Post \"https://a\": dial tcp: connection refused";
        let denied = "admission webhook \"a.example.com\" denied the request: not today";
        let object = json!({ "name": "a", "kind": "configmaps" });
        let namespace = json!({ "name": "team", "kind": "namespaces" });
        let uid = json!({ "causes": [{ "field": "metadata.uid", "reason": "FieldValueInvalid" }] });
        let field =
            json!({ "causes": [{ "field": "spec.selector", "reason": "FieldValueInvalid" }] });
        let table = [
            (json!({ "code": 400, "message": "bad" }), "refused"),
            (json!({ "code": 401, "message": "Unauthorized" }), "forbidden"),
            (json!({ "code": 403, "reason": "Forbidden", "message": user }), "forbidden"),
            (json!({ "code": 403, "reason": "Forbidden", "message": quota }), "refused"),
            (json!({ "code": 403, "reason": "Forbidden", "message": security }), "refused"),
            (json!({ "code": 404, "message": "404 page not found" }), "unknown_kind"),
            (json!({ "code": 404, "reason": "NotFound", "details": namespace }), "refused"),
            (json!({ "code": 404, "reason": "NotFound", "details": object }), "conflict"),
            (json!({ "code": 409, "reason": "Conflict", "details": object }), "conflict"),
            (json!({ "code": 409, "reason": "AlreadyExists" }), "conflict"),
            (json!({ "code": 410, "reason": "Expired" }), "expired"),
            (json!({ "code": 413, "message": "too large" }), "refused"),
            (json!({ "code": 422, "reason": "Invalid", "details": field }), "refused"),
            (json!({ "code": 422, "reason": "Invalid", "details": uid }), "conflict"),
            (json!({ "code": 429, "message": "slow" }), "throttled"),
            (json!({ "code": 500, "message": typed }), "refused"),
            (json!({ "code": 500, "message": webhook }), "refused"),
            (json!({ "code": 403, "reason": "Forbidden", "message": denied }), "refused"),
            (json!({ "code": 500, "message": "etcdserver: request timed out" }), "server"),
            (json!({ "code": 503, "reason": "ServiceUnavailable" }), "server"),
            (json!({ "code": 504, "reason": "Timeout" }), "server"),
        ];
        for (answer, label) in table {
            assert_eq!(means(answer.clone()).label(), label, "{answer}");
        }
    }

    #[test]
    fn pause_comes_from_header_then_body_then_default() {
        let body = json!({ "code": 429, "details": { "retryAfterSeconds": 3 } });
        let failure: Status = serde_json::from_value(body).unwrap();
        let after = |seconds| CallError::Throttled { after: Duration::from_secs(seconds) };
        let header = Some(Duration::from_secs(9));
        assert_eq!(call_error(&failure, Kind::Pod, header), after(9));
        assert_eq!(call_error(&failure, Kind::Pod, None), after(3));
        assert_eq!(means(json!({ "code": 429 })), after(1));
    }

    #[test]
    fn listed_objects_get_their_type_and_keep_only_what_other_managers_wrote() {
        let entry = |manager: &str, operation: &str, part: &str, fields: Value| {
            json!({ "manager": manager, "operation": operation, "apiVersion": "apps/v1", "subresource": part,
                    "time": "2030-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields })
        };
        let managers = json!([
            entry("trueup", "Apply", "", json!({ "f:spec": {} })),
            entry("trueup", "Update", "", json!({ "f:spec": {} })),
            entry("kube-controller-manager", "Update", "status", json!({ "f:status": {} })),
            entry("old-controller", "Update", "", json!({ "f:status": {} })),
            entry("kubectl-edit", "Update", "", json!({ "f:spec": { "f:replicas": {} } })),
            entry("kubectl", "Update", "scale", json!({ "f:spec": { "f:replicas": {} } })),
        ]);
        let named = |name: &str, managers: &Value| json!({ "metadata": { "name": name, "managedFields": managers } });
        let list =
            &mut json!({ "items": [named("a", &managers), named("b", &json!([managers[0]]))] });
        let items = take_items(list, Kind::Deployment);
        let edit = |manager: &str| {
            json!({ "manager": manager, "time": "2030-01-01T00:00:00Z",
                    "fieldsV1": { "f:spec": { "f:replicas": {} } } })
        };
        let edits = json!([edit("kubectl-edit"), edit("kubectl")]);
        let (kind, version) = ("Deployment", "apps/v1");
        assert_eq!(
            items,
            [
                json!({ "kind": kind, "apiVersion": version, "metadata": { "name": "a", "managedFields": edits } }),
                json!({ "kind": kind, "apiVersion": version, "metadata": { "name": "b" } }),
            ]
        );
    }
}
