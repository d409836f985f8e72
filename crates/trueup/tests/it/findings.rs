//! What nobody records is found in a real cluster, told to operators, and removed by one of them.

use serde_json::{Value, json};
use trueup_cluster::Cluster;
use trueup_model::key::{Kind, ResourceKey};

use crate::install::{Install, SOON, shared};
use crate::wait::eventually;

/// What guards a project's namespace; sweeps come to these kinds first, each half a minute after the last.
const GUARDS: [Kind; 3] = [Kind::ResourceQuota, Kind::LimitRange, Kind::NetworkPolicy];

struct Desk {
    install: Install,
    operator: String,
}

impl Desk {
    /// What the command line lists for an operator.
    async fn findings(&self, more: &[&str]) -> Vec<Value> {
        let args = ["--token", &self.operator, "findings", "-o", "json"];
        let args: Vec<&str> = args.into_iter().chain(more.iter().copied()).collect();
        let list = self.install.trueup(&args).await.well().json().remove(0);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Ends a project by force while somebody else's object keeps it; answers with its id and namespace.
    async fn force_project(&self, name: &str) -> (String, String) {
        let file = self.install.file("left.yaml", &format!("kind: Project\nname: {name}\n"));
        self.install.trueup(&["apply", "-f", &file]).await.well();
        let shown = self.install.trueup(&["get", "project", name, "-o", "json"]).await.well();
        let shown = shown.json().remove(0);
        let text = |field: &str| shown[field].as_str().unwrap().to_owned();
        let theirs = ResourceKey::new(Kind::ConfigMap, &text("namespace"), "precious");
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "precious"}});
        let made = || async { self.install.kube().apply(&theirs, &object).await.ok() };
        eventually("an object of somebody else's", SOON, made).await;
        eventually("the guards of its namespace", SOON, || async {
            let live = self.install.trueup(&["get", "project", name, "-o", "json"]).await.well();
            let live = live.json().remove(0);
            (live["reconciliation"] == "settled").then_some(())
        })
        .await;
        self.install.trueup(&["delete", "project", name, "--yes"]).await.well();
        let reason = "nobody knows whose it is";
        let force = ["delete", "project", name, "--force", "--reason", reason, "--yes", "--wait"];
        self.install.trueup(&force).await.well();
        (text("id"), text("namespace"))
    }
}

#[tokio::test]
async fn what_a_forced_end_left_is_found_and_removed_by_an_operator() {
    let shared = shared().await;
    let install = Install::new(Some(&shared.kubeconfig()));
    install.up(&["--no-demo"]).await.well();
    install.reachable().await;
    let token = std::fs::read_to_string(install.dir().join("operator.token")).unwrap();
    let desk = Desk { install, operator: token.trim().to_owned() };
    let (project, namespace) = desk.force_project("left").await;

    let guard = |found: &Value| {
        let object = found["object"].as_str().unwrap_or_default();
        let mut kinds = GUARDS.iter();
        kinds.any(|kind| object.starts_with(&format!("{kind}/{namespace}/")))
    };
    let found = eventually("a sweep to find a guard", SOON, || async {
        desk.findings(&[]).await.into_iter().find(|found| guard(found))
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
    let live = desk.install.kube().get(&key).await.unwrap();
    assert_eq!(live.expect("it is still there")["metadata"]["uid"], found["uid"]);

    // Only operators see them, and nothing was removed by itself.
    desk.install.trueup(&["findings"]).await.complains(1, &["TU1002"]);
    let id = text("id");
    let remove = ["--token", &desk.operator, "findings", "remove", &id];
    let asked = desk.install.trueup(&remove).await.well();
    assert!(asked.out.contains("asked by"), "{asked:#?}");
    let closed = eventually("the removal", SOON, || async {
        let all = desk.findings(&["--closed"]).await;
        all.into_iter().find(|one| one["id"] == *id && !one["closed_at"].is_null())
    })
    .await;
    assert!(closed["closed_why"].as_str().unwrap().starts_with("removed by"), "{closed}");
    assert_eq!(desk.install.kube().get(&key).await.unwrap(), None);
    let kept = ResourceKey::new(Kind::ConfigMap, &namespace, "precious");
    assert!(desk.install.kube().get(&kept).await.unwrap().is_some(), "and nothing else");
}
