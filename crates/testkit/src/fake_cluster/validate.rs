//! Validation as in an API server, with its error messages as far as they name the field.
//!
//! Covers only mistakes that Trueup could make or must explain, not the full schema.

use serde_json::Value;
use trueup_cluster::CallError;
use trueup_model::key::{Kind, ResourceKey};

/// Name, namespace and type must match the key.
pub(super) fn identity(key: &ResourceKey, object: &Value) -> Result<(), CallError> {
    let agrees = |place: &str, expected: &str| {
        object.pointer(place).is_none_or(|value| value.as_str() == Some(expected))
    };
    if object["kind"] != key.kind.as_str() || object["apiVersion"].as_str().is_none() {
        return Err(refused(key, "kind and apiVersion", "must be set and match the address"));
    }
    if !agrees("/metadata/name", &key.name) || !agrees("/metadata/namespace", &key.namespace) {
        return Err(refused(key, "metadata", "the name does not match the address"));
    }
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let name = key.name.as_bytes();
    let bounded =
        name.first().copied().is_some_and(letters) && name.last().copied().is_some_and(letters);
    if !bounded || !name.iter().all(|byte| letters(*byte) || b"-.".contains(byte)) {
        return Err(refused(
            key,
            "metadata.name",
            "Invalid value: a lowercase RFC 1123 name is needed",
        ));
    }
    Ok(())
}

/// Validates a whole object.
pub(super) fn object(key: &ResourceKey, object: &Value) -> Result<(), CallError> {
    let (root, spec) = known_fields(key.kind);
    undeclared(key, object, "", root)?;
    undeclared(key, &object["spec"], ".spec", spec)?;
    match key.kind {
        Kind::Deployment | Kind::StatefulSet => workload(key, &object["spec"]),
        Kind::Job => run(key, "spec", &object["spec"]),
        Kind::CronJob => run(key, "spec.jobTemplate.spec", &object["spec"]["jobTemplate"]["spec"]),
        _ => Ok(()),
    }
}

/// Validates a change of an existing object.
pub(super) fn change(key: &ResourceKey, before: &Value, after: &Value) -> Result<(), CallError> {
    let moved = |place: &str| before.pointer(place) != after.pointer(place);
    if before.pointer("/metadata/deletionTimestamp").is_some() {
        let list = |object: &Value| {
            object
                .pointer("/metadata/finalizers")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default()
        };
        let existing = list(before);
        if list(after).iter().any(|finalizer| !existing.contains(finalizer)) {
            let why = "Forbidden: no new finalizers can be added if the object is being deleted";
            return Err(refused(key, "metadata.finalizers", why));
        }
    }
    match key.kind {
        Kind::Deployment if moved("/spec/selector") => {
            Err(refused(key, "spec.selector", "Invalid value: field is immutable"))
        }
        Kind::StatefulSet
            if without(before, STATEFUL_MAY_CHANGE) != without(after, STATEFUL_MAY_CHANGE) =>
        {
            Err(refused(
                key,
                "spec",
                "Forbidden: updates to statefulset spec for fields other than 'replicas', 'template' and a few more are forbidden",
            ))
        }
        Kind::Job
            if ["template", "selector", "completions", "completionMode"]
                .iter()
                .any(|field| moved(&format!("/spec/{field}"))) =>
        {
            Err(refused(key, "spec.template", "Invalid value: field is immutable"))
        }
        Kind::PersistentVolumeClaim
            if without(before, CLAIM_MAY_CHANGE) != without(after, CLAIM_MAY_CHANGE) =>
        {
            Err(refused(
                key,
                "spec",
                "Forbidden: spec is immutable after creation except resources.requests",
            ))
        }
        Kind::PersistentVolumeClaim
            if moved("/spec/resources") && before["status"]["phase"] != "Bound" =>
        {
            Err(refused(
                key,
                "spec",
                "Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
            ))
        }
        Kind::RoleBinding if moved("/roleRef") => {
            Err(refused(key, "roleRef", "Invalid value: cannot change roleRef"))
        }
        Kind::Secret if moved("/type") => {
            Err(refused(key, "type", "Invalid value: field is immutable"))
        }
        _ => Ok(()),
    }
}

const STATEFUL_MAY_CHANGE: &[&str] = &[
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];
const CLAIM_MAY_CHANGE: &[&str] = &["resources", "volumeAttributesClassName"];

fn without(object: &Value, may_change: &[&str]) -> Value {
    let mut spec = object["spec"].clone();
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|name, _| !may_change.contains(&name.as_str()));
    }
    spec
}

fn workload(key: &ResourceKey, spec: &Value) -> Result<(), CallError> {
    let Some(selector) = spec.pointer("/selector/matchLabels").and_then(Value::as_object) else {
        return Err(refused(key, "spec.selector", "Required value"));
    };
    let labels = &spec["template"]["metadata"]["labels"];
    if selector.iter().any(|(name, value)| labels.get(name) != Some(value)) {
        let why = "Invalid value: `selector` does not match template `labels`";
        return Err(refused(key, "spec.template.metadata.labels", why));
    }
    containers(key, "spec", spec)
}

/// Pods of a Job end, so their restart policy must allow that.
fn run(key: &ResourceKey, place: &str, spec: &Value) -> Result<(), CallError> {
    let policy = &spec["template"]["spec"]["restartPolicy"];
    if policy != "Never" && policy != "OnFailure" {
        let field = format!("{place}.template.spec.restartPolicy");
        return Err(refused(key, &field, "Required value: valid values: \"OnFailure\", \"Never\""));
    }
    containers(key, place, spec)
}

fn containers(key: &ResourceKey, place: &str, spec: &Value) -> Result<(), CallError> {
    let containers = spec.pointer("/template/spec/containers").and_then(Value::as_array);
    let Some(containers) = containers.filter(|containers| !containers.is_empty()) else {
        let field = format!("{place}.template.spec.containers");
        return Err(refused(key, &field, "Required value"));
    };
    for (index, container) in containers.iter().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().is_none_or(str::is_empty) {
                let place = format!("{place}.template.spec.containers[{index}].{field}");
                return Err(refused(key, &place, "Required value"));
            }
        }
    }
    Ok(())
}

const JOB: &[&str] = &[
    "backoffLimit",
    "activeDeadlineSeconds",
    "suspend",
    "template",
    "selector",
    "completions",
    "completionMode",
    "parallelism",
    "ttlSecondsAfterFinished",
    "podReplacementPolicy",
];

/// Known fields at the root and in `spec`; an empty list disables the check.
const fn known_fields(kind: Kind) -> (&'static [&'static str], &'static [&'static str]) {
    const WITH_SPEC: &[&str] = &["apiVersion", "kind", "metadata", "spec", "status"];
    match kind {
        Kind::ConfigMap => {
            (&["apiVersion", "kind", "metadata", "data", "binaryData", "immutable"], &[])
        }
        Kind::Deployment => (
            WITH_SPEC,
            &[
                "replicas",
                "selector",
                "template",
                "strategy",
                "minReadySeconds",
                "revisionHistoryLimit",
                "paused",
                "progressDeadlineSeconds",
            ],
        ),
        Kind::StatefulSet => (
            WITH_SPEC,
            &[
                "replicas",
                "selector",
                "template",
                "volumeClaimTemplates",
                "serviceName",
                "podManagementPolicy",
                "updateStrategy",
                "revisionHistoryLimit",
                "minReadySeconds",
                "persistentVolumeClaimRetentionPolicy",
                "ordinals",
            ],
        ),
        Kind::CronJob => (
            WITH_SPEC,
            &[
                "schedule",
                "timeZone",
                "concurrencyPolicy",
                "startingDeadlineSeconds",
                "successfulJobsHistoryLimit",
                "failedJobsHistoryLimit",
                "suspend",
                "jobTemplate",
            ],
        ),
        Kind::Job => (WITH_SPEC, JOB),
        Kind::PodDisruptionBudget => (
            WITH_SPEC,
            &["minAvailable", "maxUnavailable", "selector", "unhealthyPodEvictionPolicy"],
        ),
        Kind::HorizontalPodAutoscaler => {
            (WITH_SPEC, &["scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior"])
        }
        Kind::Ingress => (WITH_SPEC, &["ingressClassName", "rules", "tls", "defaultBackend"]),
        Kind::HttpRoute
        | Kind::Certificate
        | Kind::ServiceMonitor
        | Kind::Namespace
        | Kind::ResourceQuota
        | Kind::LimitRange
        | Kind::NetworkPolicy
        | Kind::PersistentVolumeClaim
        | Kind::Service
        | Kind::Pod
        | Kind::PersistentVolume
        | Kind::Node => (WITH_SPEC, &[]),
        Kind::ServiceAccount | Kind::RoleBinding | Kind::Secret => (&[], &[]),
    }
}

fn undeclared(
    key: &ResourceKey,
    object: &Value,
    place: &str,
    known: &[&str],
) -> Result<(), CallError> {
    let Some(fields) = object.as_object().filter(|_| !known.is_empty()) else {
        return Ok(());
    };
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(CallError::Refused(format!(
            "failed to create typed patch object ({key}): {place}.{name}: field not declared in schema"
        ))),
    }
}

fn refused(key: &ResourceKey, field: &str, why: &str) -> CallError {
    CallError::Refused(format!("{} \"{}\" is invalid: {field}: {why}", key.kind, key.name))
}
