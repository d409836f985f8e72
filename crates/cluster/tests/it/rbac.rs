//! The two service accounts: their permissions are checked in, and everything works with them
//! (S29).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::Request;
use serde_json::{Value, json};
use trueup_cluster::kube::{Kube, rbac};
use trueup_rules::render::names;
use trueup_testkit::real_kube;

use crate::rig::Rig;

const UPDATE: &str = "TRUEUP_UPDATE";

/// Compares with what is checked in, or writes it.
fn is_checked_in(path: &Path, text: &str) {
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(path, text).expect("it should be written");
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    let (name, how) = (path.display(), format!("{UPDATE}=1 cargo test -p trueup-cluster rbac"));
    assert_eq!(stored, text, "{name} is not up to date; run {how}");
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn deploy_rbac_yaml_is_up_to_date() {
    is_checked_in(&root().join("deploy/rbac.yaml"), &rbac::manifest());
}

/// Every rule of every role, with the role's name.
fn rules() -> Vec<(String, Value)> {
    rbac::objects()
        .iter()
        .filter(|object| object["kind"] == "ClusterRole")
        .flat_map(|role| {
            let name = role["metadata"]["name"].as_str().expect("a name").to_owned();
            let rules = role["rules"].as_array().expect("rules").clone();
            rules.into_iter().map(move |rule| (name.clone(), rule))
        })
        .collect()
}

#[test]
fn s29_no_role_has_excess_permissions() {
    let never = [
        "*",
        "nodes/proxy",
        "pods/exec",
        "pods/attach",
        "pods/portforward",
        "serviceaccounts/token",
        "certificatesigningrequests",
        "certificatesigningrequests/approval",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "roles",
        "clusterrolebindings",
        "escalate",
        "impersonate",
        "approve",
        "deletecollection",
    ];
    let has = |rule: &Value, list: &str, word: &str| {
        rule[list].as_array().is_some_and(|words| words.iter().any(|it| it == word))
    };
    // The survey before a namespace is deleted: everything in it is listed.
    let everything = json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["list"] });
    for (role, rule) in rules() {
        if role == names::SECRETS_ROLE && rule == everything {
            continue;
        }
        for word in never {
            for list in ["apiGroups", "resources", "verbs"] {
                assert!(!has(&rule, list, word), "{role} has {word}: {rule}");
            }
        }
        let lists = has(&rule, "verbs", "list") || has(&rule, "verbs", "watch");
        let writes =
            ["create", "patch", "delete", "update"].iter().any(|it| has(&rule, "verbs", it));
        assert!(
            !(lists && writes) || role == names::SECRETS_ROLE,
            "{role} lists and writes: {rule}"
        );
        assert!(!(has(&rule, "verbs", "watch") && role == names::SECRETS_ROLE), "{rule}");
        assert_eq!(
            has(&rule, "resources", "secrets"),
            role == names::SECRETS_ROLE,
            "{role}: {rule}"
        );
        if has(&rule, "verbs", "bind") {
            assert_eq!(rule["resourceNames"], json!([names::SECRETS_ROLE]), "{rule}");
        }
        if writes {
            assert!(role != names::WATCHER, "{role} writes: {rule}");
            for kind in ["persistentvolumes", "nodes", "pods"] {
                assert!(!has(&rule, "resources", kind), "{role} writes {kind}");
            }
        }
    }
    let bound = |object: &&Value| object["kind"] == "ClusterRoleBinding";
    for binding in rbac::objects().iter().filter(bound) {
        assert_ne!(
            binding["roleRef"]["name"],
            names::SECRETS_ROLE,
            "secrets are bound per project only"
        );
    }
}

/// A client with the token of one account.
async fn account(name: &str) -> kube::Client {
    let kubeconfig = real_kube::shared().await;
    let mut config = kube::config::Kubeconfig::read_from(&kubeconfig).expect("a kubeconfig");
    let of_config = |config: &kube::config::Kubeconfig| {
        let config = kube::Config::try_from(config.clone()).expect("a kubeconfig");
        kube::Client::try_from(config).expect("a client")
    };
    let admin = of_config(&config);
    let path =
        format!("/api/v1/namespaces/{}/serviceaccounts/{name}/token", names::SYSTEM_NAMESPACE);
    let token_request =
        json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let answer = post(&admin, &path, &token_request).await;
    let token = json!({ "token": answer["status"]["token"] });
    for known in &mut config.auth_infos {
        known.auth_info = serde_json::from_value(token.clone()).ok();
    }
    of_config(&config)
}

async fn post(client: &kube::Client, path: &str, body: &Value) -> Value {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())
        .expect("a request");
    client.request(request).await.expect("it should answer")
}

/// The permissions of an account as the server lists them, one per line.
async fn rights(client: &kube::Client) -> Vec<String> {
    let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
                        "spec": { "namespace": "default" } });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let answer = post(client, path, &review).await;
    let words = |value: &Value| {
        let mut words: Vec<&str> =
            value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        words.sort_unstable();
        words.join(",")
    };
    let mut lines = Vec::new();
    for rule in answer["status"]["resourceRules"].as_array().expect("rules") {
        for resource in rule["resources"].as_array().into_iter().flatten() {
            let named = words(&rule["resourceNames"]);
            let named = if named.is_empty() { String::new() } else { format!(" named {named}") };
            let (group, verbs) = (words(&rule["apiGroups"]), words(&rule["verbs"]));
            let resource = resource.as_str().unwrap_or_default();
            let of = if group.is_empty() { String::new() } else { format!(".{group}") };
            lines.push(format!("{resource}{of}{named}: {verbs}"));
        }
    }
    lines.sort();
    lines.dedup();
    lines
}

async fn may(client: &kube::Client, verb: &str, group: &str, resource: &str) -> bool {
    let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes =
        json!({ "verb": verb, "group": group, "resource": resource, "subresource": part });
    let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                        "spec": { "resourceAttributes": attributes } });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    post(client, path, &review).await["status"]["allowed"] == true
}

#[tokio::test]
async fn s29_permissions_of_each_account_match_the_golden_file() {
    let kubeconfig = real_kube::shared().await;
    Kube::provision(&kubeconfig).await.expect("an administrator should make the accounts");
    let mut text = String::new();
    for name in [names::WATCHER, names::WRITER] {
        let lines = rights(&account(name).await).await;
        text.push_str(&format!("{name}\n  {}\n\n", lines.join("\n  ")));
    }
    is_checked_in(&root().join("crates/cluster/tests/it/golden/rbac.txt"), &text);
}

#[tokio::test]
async fn s29_server_denies_dangerous_permissions() {
    let kubeconfig = real_kube::shared().await;
    Kube::provision(&kubeconfig).await.expect("an administrator should make the accounts");
    for name in [names::WATCHER, names::WRITER] {
        let client = account(name).await;
        for (verb, group, resource) in [
            ("list", "", "secrets"),
            ("watch", "", "secrets"),
            ("get", "", "secrets"),
            ("create", "", "secrets"),
            ("get", "", "nodes/proxy"),
            ("create", "", "pods/exec"),
            ("create", "", "pods"),
            ("create", "", "serviceaccounts/token"),
            ("create", "", "persistentvolumes"),
            ("impersonate", "", "users"),
            ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
            ("bind", "rbac.authorization.k8s.io", "clusterroles"),
            ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
            ("update", "certificates.k8s.io", "certificatesigningrequests/approval"),
            ("create", "admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
            ("*", "*", "*"),
        ] {
            assert!(!may(&client, verb, group, resource).await, "{name} may {verb} {resource}");
        }
    }
    let (watcher, writer) = (account(names::WATCHER).await, account(names::WRITER).await);
    assert!(may(&watcher, "watch", "apps", "deployments").await);
    assert!(!may(&watcher, "patch", "apps", "deployments").await);
    assert!(may(&writer, "patch", "apps", "deployments").await);
    assert!(!may(&writer, "list", "apps", "deployments").await);
}

#[tokio::test]
async fn s29_executor_behaviours_hold_with_the_two_accounts() {
    let kubeconfig = real_kube::shared().await;
    crate::executor::definitions::ensure(&kubeconfig).await;
    let kube =
        Kube::provision(&kubeconfig).await.expect("an administrator should make the accounts");
    let failures = crate::executor::failures(Arc::new(kube), Rig::start).await;
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Sends a request; returns the status code and the server's message.
async fn try_write(
    client: &kube::Client,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<(), String> {
    let kind = if method == "PATCH" { "merge-patch+json" } else { "json" };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", format!("application/{kind}"))
        .body(body.to_string().into_bytes())
        .expect("a request");
    client.request::<Value>(request).await.map(|_| ()).map_err(|error| error.to_string())
}

/// The policy takes a moment to become effective, so the first forbidden write is tried until it
/// is denied.
async fn policy_in_force(writer: &kube::Client) {
    let strange = json!({ "metadata": { "labels": { "policy-probe": "1" } } });
    for _try in 0..600 {
        let answer = try_write(writer, "PATCH", "/api/v1/namespaces/default", &strange).await;
        if answer.is_err_and(|why| why.contains("only in namespaces that Trueup created")) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    unreachable!("the admission policy should be in force after 30 seconds");
}

#[tokio::test]
async fn s29_stolen_writer_token_is_useless_outside_of_projects() {
    let kubeconfig = real_kube::shared().await;
    Kube::provision(&kubeconfig).await.expect("an administrator should make the accounts");
    let writer = account(names::WRITER).await;
    policy_in_force(&writer).await;

    let binding = |subject: &str, role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": names::SECRETS_ROLE },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": subject,
                           "namespace": names::SYSTEM_NAMESPACE }],
        })
    };
    let namespace = |name: &str, annotations: Value, security: &str| {
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "annotations": annotations,
                          "labels": { "pod-security.kubernetes.io/enforce": security } },
        })
    };
    let proof = json!({ names::PROOF_ANNOTATION: "any" });
    let own = format!("policy-{}", std::process::id());
    let bindings =
        |at: &str| format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{at}/rolebindings");
    let spaces = "/api/v1/namespaces";
    let in_own = format!("{spaces}/{own}");
    let config = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });

    let made =
        try_write(&writer, "POST", spaces, &namespace(&own, proof.clone(), "restricted")).await;
    assert_eq!(made, Ok(()), "a project's namespace should be created");
    let allowed = try_write(&writer, "POST", &format!("{in_own}/configmaps"), &config).await;
    assert_eq!(allowed, Ok(()), "the writer should write in a project's namespace");
    let to_itself = binding(names::WRITER, names::SECRETS_ROLE);
    assert_eq!(try_write(&writer, "POST", &bindings(&own), &to_itself).await, Ok(()));

    let created = "only in namespaces that Trueup created";
    let security = "may not weaken the pod security";
    let one_role = "may bind only the role";
    let claim = json!({ "metadata": { "annotations": proof } });
    let weaken =
        json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "privileged" } } });
    let older = json!({ "metadata": { "labels": {
        "pod-security.kubernetes.io/enforce-version": "v1.0" } } });
    let forbidden = [
        ("POST", bindings("kube-system"), to_itself, created),
        ("PATCH", format!("{spaces}/kube-system"), claim.clone(), created),
        ("DELETE", format!("{spaces}/{}", names::SYSTEM_NAMESPACE), json!({}), created),
        ("POST", format!("{spaces}/default/configmaps"), config, created),
        ("POST", spaces.to_owned(), namespace("policy-bare", json!({}), "restricted"), created),
        ("POST", spaces.to_owned(), namespace("policy-weak", proof.clone(), "baseline"), security),
        ("PATCH", in_own.clone(), weaken, security),
        ("PATCH", in_own.clone(), older, security),
        (
            "PATCH",
            format!("{}/{}", bindings(&own), names::SECRETS_ROLE),
            json!({ "subjects": [{ "kind": "ServiceAccount", "name": names::WATCHER,
                                "namespace": names::SYSTEM_NAMESPACE }] }),
            one_role,
        ),
    ];
    for (method, path, body, why) in forbidden {
        let answer = try_write(&writer, method, &path, &body).await;
        assert!(
            answer.clone().is_err_and(|text| text.contains(why)),
            "{method} {path}: {answer:?}"
        );
    }

    // A mark that another writer removes can be restored.
    let admin = kube::Client::try_from(
        kube::Config::try_from(
            kube::config::Kubeconfig::read_from(&kubeconfig).expect("a kubeconfig"),
        )
        .expect("a kubeconfig"),
    )
    .expect("a client");
    let labelled = json!({ "metadata": { "labels": { names::PROJECT_LABEL: "prj_1" } } });
    assert_eq!(try_write(&writer, "PATCH", &in_own, &labelled).await, Ok(()));
    let bare = json!({ "metadata": { "annotations": { names::PROOF_ANNOTATION: null } } });
    assert_eq!(try_write(&admin, "PATCH", &in_own, &bare).await, Ok(()));
    assert_eq!(try_write(&writer, "PATCH", &in_own, &claim).await, Ok(()), "it is restored");
    assert_eq!(try_write(&writer, "DELETE", &in_own, &json!({})).await, Ok(()));
}
