//! The admission policy of the writer account: what RBAC cannot express.
//!
//! RBAC lets the writer write in every namespace, because the namespaces of projects are not known
//! in advance. With this ValidatingAdmissionPolicy the server lets it write only in namespaces that
//! Trueup created, bind only the one role to itself, and never weaken pod security. So a stolen
//! token of the writer cannot be used to read the Secrets of other namespaces.

use serde_json::{Value, json};
use trueup_rules::render::names::{
    PROJECT_LABEL, PROOF_ANNOTATION, SECRETS_ROLE, SYSTEM_NAMESPACE, WRITER,
};

pub(super) const GROUP: &str = "admissionregistration.k8s.io";

/// The policy and its binding.
pub(super) fn objects() -> [Value; 2] {
    let policy = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": WRITER },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
            }] },
            "matchConditions": [{
                "name": "writer",
                "expression": format!(
                    "request.userInfo.username == 'system:serviceaccount:{SYSTEM_NAMESPACE}:{WRITER}'"
                ),
            }],
            "variables": [
                { "name": "target", "expression": TARGET },
                { "name": "created", "expression": format!(
                    "(has(variables.target.metadata.annotations) \
                      && '{PROOF_ANNOTATION}' in variables.target.metadata.annotations) \
                     || (has(variables.target.metadata.labels) \
                      && '{PROJECT_LABEL}' in variables.target.metadata.labels)"
                ) },
            ],
            "validations": [
                {
                    "expression": "variables.created",
                    "message": "Trueup's writer account may write only in namespaces that Trueup created",
                },
                {
                    "expression": RESTRICTED,
                    "message": "Trueup's writer account may not weaken the pod security of a namespace",
                },
                {
                    "expression": one_role(),
                    "message": format!(
                        "Trueup's writer account may bind only the role {SECRETS_ROLE} to itself"
                    ),
                },
            ],
        },
    });
    let binding = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": WRITER },
        "spec": { "policyName": WRITER, "validationActions": ["Deny"] },
    });
    [policy, binding]
}

/// The namespace that is written, or written in. One that exists is judged by what it was before:
/// a namespace of another owner cannot be claimed by marking it. Either of two marks is enough, so
/// that one which another writer removed can be restored.
const TARGET: &str = "request.kind.kind != 'Namespace' ? namespaceObject \
                         : request.operation == 'CREATE' ? object : oldObject";

/// New pods of a project are always checked against the strictest pod security standard, in its
/// newest version. A version that another writer set must not block other writes.
const RESTRICTED: &str = "request.kind.kind != 'Namespace' || request.operation == 'DELETE' \
    || (has(object.metadata.labels) \
        && 'pod-security.kubernetes.io/enforce' in object.metadata.labels \
        && object.metadata.labels['pod-security.kubernetes.io/enforce'] == 'restricted' \
        && (!('pod-security.kubernetes.io/enforce-version' in object.metadata.labels) \
            || object.metadata.labels['pod-security.kubernetes.io/enforce-version'] == 'latest' \
            || (request.operation == 'UPDATE' && has(oldObject.metadata.labels) \
                && 'pod-security.kubernetes.io/enforce-version' in oldObject.metadata.labels)))";

fn one_role() -> String {
    format!(
        "request.kind.kind != 'RoleBinding' || request.operation == 'DELETE' \
         || (object.roleRef.kind == 'ClusterRole' && object.roleRef.name == '{SECRETS_ROLE}' \
             && has(object.subjects) && object.subjects.size() == 1 \
             && object.subjects[0].kind == 'ServiceAccount' \
             && object.subjects[0].name == '{WRITER}' \
             && object.subjects[0].namespace == '{SYSTEM_NAMESPACE}')"
    )
}
