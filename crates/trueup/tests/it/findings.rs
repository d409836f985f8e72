//! Orphans in a real cluster are found, reported to operators and removed by one.

use serde_json::{Value, json};
use trueup_cluster::Cluster;
use trueup_model::key::{Kind, ResourceKey};

use crate::install::{Install, SOON, shared};
use crate::wait::eventually;

/// The kinds that guard a project's namespace; sweeps check these first, one every half minute.
const GUARDS: [Kind; 3] = [Kind::ResourceQuota, Kind::LimitRange, Kind::NetworkPolicy];

struct Operator {
    install: Install,
    token: String,
}

impl Operator {
    /// The findings that `trueup findings` lists.
    async fn findings(&self, more: &[&str]) -> Vec<Value> {
        let args = ["--token", &self.token, "findings", "-o", "json"];
        let args: Vec<&str> = args.into_iter().chain(more.iter().copied()).collect();
        let list = self.install.trueup(&args).await.succeeded().json().remove(0);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Force-deletes a project whose namespace holds a foreign object; returns its id and
    /// namespace.
    async fn force_project(&self, name: &str) -> (String, String) {
        let file = self.install.file("left.yaml", &format!("kind: Project\nname: {name}\n"));
        self.install.trueup(&["apply", "-f", &file]).await.succeeded();
        let shown = self.install.trueup(&["get", "project", name, "-o", "json"]).await.succeeded();
        let shown = shown.json().remove(0);
        let text = |field: &str| shown[field].as_str().unwrap().to_owned();
        let foreign = ResourceKey::new(Kind::ConfigMap, &text("namespace"), "precious");
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "precious"}});
        let made = || async { self.install.kube().apply(&foreign, &object).await.ok() };
        eventually("a foreign object", SOON, made).await;
        eventually("the guards of its namespace", SOON, || async {
            let live =
                self.install.trueup(&["get", "project", name, "-o", "json"]).await.succeeded();
            let live = live.json().remove(0);
            (live["reconciliation"] == "settled").then_some(())
        })
        .await;
        self.install.trueup(&["delete", "project", name, "--yes"]).await.succeeded();
        let reason = "unknown owner";
        let force = ["delete", "project", name, "--force", "--reason", reason, "--yes", "--wait"];
        self.install.trueup(&force).await.succeeded();
        (text("id"), text("namespace"))
    }
}

#[tokio::test]
async fn orphan_of_a_forced_deletion_is_found_and_removed_by_an_operator() {
    let shared = shared().await;
    let install = Install::new(Some(&shared.kubeconfig()));
    install.up(&["--no-demo"]).await.succeeded();
    install.reachable().await;
    let token = std::fs::read_to_string(install.dir().join("operator.token")).unwrap();
    let operator = Operator { install, token: token.trim().to_owned() };
    let (project, namespace) = operator.force_project("left").await;

    let guard = |found: &Value| {
        let object = found["object"].as_str().unwrap_or_default();
        let mut kinds = GUARDS.iter();
        kinds.any(|kind| object.starts_with(&format!("{kind}/{namespace}/")))
    };
    let found = eventually("a sweep to find a guard", SOON, || async {
        operator.findings(&[]).await.into_iter().find(|found| guard(found))
    })
    .await;
    assert_eq!((&found["class"], &found["subject"]), (&json!("orphan"), &json!(project)));
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    let (kind, name) = {
        let object = text("object");
        let mut parts = object.split('/').map(str::to_owned);
        (parts.next().unwrap(), parts.next_back().unwrap())
    };
    let key = ResourceKey::new(kind.parse().unwrap(), &namespace, &name);
    let live = operator.install.kube().get(&key).await.unwrap();
    assert_eq!(live.expect("the object should exist")["metadata"]["uid"], found["uid"]);

    // Only operators see findings, and nothing was removed automatically.
    operator.install.trueup(&["findings"]).await.failed_with(1, &["TU1002"]);
    let id = text("id");
    let remove = ["--token", &operator.token, "findings", "remove", &id];
    let requested = operator.install.trueup(&remove).await.succeeded();
    assert!(requested.out.contains("requested by"), "{requested:#?}");
    let closed = eventually("the removal", SOON, || async {
        let all = operator.findings(&["--closed"]).await;
        all.into_iter().find(|one| one["id"] == *id && !one["closed_at"].is_null())
    })
    .await;
    assert!(closed["closed_why"].as_str().unwrap().starts_with("removed by"), "{closed}");
    assert_eq!(operator.install.kube().get(&key).await.unwrap(), None);
    let kept = ResourceKey::new(Kind::ConfigMap, &namespace, "precious");
    assert!(
        operator.install.kube().get(&kept).await.unwrap().is_some(),
        "only the orphan should be removed"
    );
}
