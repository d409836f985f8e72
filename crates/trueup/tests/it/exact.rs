//! `trueup plan --exact` and `trueup apply --plan` on a real cluster.

use serde_json::{Value, json};
use trueup_cluster::Cluster;
use trueup_model::key::{Kind, ResourceKey};

use crate::install::{SOON, shared};
use crate::wait::eventually;

fn manifest(name: &str, image: &str, replicas: u32) -> String {
    format!(
        "kind: Service\nname: {name}\nproject: shop\ntemplate: web@1\nparameters:\n  image: {image}\n  \
         replicas: {replicas}\n"
    )
}

/// The id of the plan in what `plan --exact -o json` printed.
fn plan_of(printed: &[Value]) -> &Value {
    &printed[0][0]["plan"]
}

#[tokio::test]
async fn a_service_is_planned_by_the_cluster_and_applied_as_planned() {
    let install = shared().await;
    let file = install.file("exact.yaml", &manifest("exact", "exact:1", 1));
    let told = install.trueup(&["plan", "-f", &file, "--exact"]).await.well();
    for words in ["service/shop/exact: generation 1", "+ Deployment exact-", "+ Service exact-"] {
        assert!(told.out.contains(words), "`{words}` is not in {told:#?}");
    }
    assert!(told.err.contains(&format!("trueup apply -f {file} --preview pvr_")), "{told:#?}");
    install.trueup(&["get", "exact"]).await.complains(3, &["there is no service `exact`"]);

    let printed =
        install.trueup(&["plan", "-f", &file, "--exact", "-o", "json"]).await.well().json();
    let plan = plan_of(&printed);
    assert_eq!(plan["state"], "filled", "{plan:#}");
    let id = plan["id"].as_str().unwrap();
    let applied = install.trueup(&["apply", "-f", &file, "--plan", id, "--wait"]).await.well();
    assert!(applied.out.contains("service/exact accepted, generation 1"), "{applied:?}");
    let events = install.trueup(&["events", "exact"]).await.well();
    assert!(events.out.contains(&format!("as planned by {id}")), "{events:?}");
    // The names that were planned are those that there are.
    let described = install.trueup(&["describe", "exact", "-o", "json"]).await.well().json();
    let object_name = described[0]["object_name"].as_str().unwrap();
    let planned = plan["plan"]["objects"].as_array().unwrap();
    assert!(planned.iter().any(|object| object["name"] == object_name), "{planned:#?}");

    // A change, with the fields as the cluster would store them.
    let file = install.file("exact.yaml", &manifest("exact", "exact:2", 2));
    let told = install.trueup(&["plan", "-f", &file, "--exact"]).await.well();
    for words in [
        "~ Deployment exact-",
        "spec.replicas: 1 → 2",
        "spec.template.spec.containers.main.image: \"exact:1\" → \"exact:2\"",
        "+ PodDisruptionBudget exact-",
        "stay as they are",
    ] {
        assert!(told.out.contains(words), "`{words}` is not in {told:#?}");
    }
    let printed =
        install.trueup(&["plan", "-f", &file, "--exact", "-o", "json"]).await.well().json();
    let id = plan_of(&printed)["id"].as_str().unwrap().to_owned();

    // Somebody is quicker: the plan does not hold any more.
    let other = install.file("other.yaml", &manifest("exact", "exact:3", 1));
    install.trueup(&["apply", "-f", &other, "--wait"]).await.well();
    install
        .trueup(&["apply", "-f", &file, "--plan", &id])
        .await
        .complains(1, &["The plan does not hold any more", "generation 2 was planned"]);
    install.trueup(&["delete", "exact", "--yes"]).await.well();
}

#[tokio::test]
async fn a_plan_does_not_hold_after_somebody_changed_the_cluster() {
    let install = shared().await;
    let file = install.file("undercut.yaml", &manifest("undercut", "undercut:1", 1));
    install.trueup(&["apply", "-f", &file, "--wait"]).await.well();
    let described = install.trueup(&["describe", "undercut", "-o", "json"]).await.well().json();
    let text = |field: &str| described[0][field].as_str().unwrap().to_owned();
    let key = ResourceKey::new(Kind::Deployment, &text("namespace"), &text("object_name"));
    let file = install.file("undercut.yaml", &manifest("undercut", "undercut:2", 1));
    let printed =
        install.trueup(&["plan", "-f", &file, "--exact", "-o", "json"]).await.well().json();
    let id = plan_of(&printed)["id"].as_str().unwrap().to_owned();

    let kube = install.kube();
    eventually("the deployment to be deleted by hand", SOON, || async {
        let live = kube.get(&key).await.unwrap().unwrap();
        let part = |name: &str| live["metadata"][name].as_str().unwrap().to_owned();
        // A conflict means that its status changed in between.
        kube.delete(&key, &part("uid"), &part("resourceVersion")).await.ok()
    })
    .await;
    let client = install.client().expect("Trueup should be up");
    let void = eventually("the plan to be void", SOON, async || {
        let seen = client.preview_request_get("shop", "undercut", &id).await.ok()?;
        (seen.state == "void").then_some(seen)
    });
    let why = void.await.why.unwrap_or_default();
    assert!(why.starts_with(&key.to_string()), "{why}");
    install
        .trueup(&["apply", "-f", &file, "--plan", &id])
        .await
        .complains(1, &["The plan does not hold any more", &key.to_string()]);
    let shown = install.trueup(&["describe", "undercut", "-o", "json"]).await.well().json();
    assert_eq!(shown[0]["generation"], json!(1));
    install.trueup(&["delete", "undercut", "--yes"]).await.well();
}

#[tokio::test]
async fn a_plan_is_of_one_service() {
    let install = shared().await;
    let two = format!("{}---\n{}", manifest("one", "a:1", 1), manifest("two", "b:1", 1));
    let file = install.file("two.yaml", &two);
    let plan = "pvr_01h455vb4pex5vsknk084sn02q";
    install
        .trueup(&["apply", "-f", &file, "--plan", plan])
        .await
        .complains(2, &["a plan is of one service"]);
    let file = install.file("one.yaml", &manifest("one", "a:1", 1));
    install
        .trueup(&["apply", "-f", &file, "--plan", plan])
        .await
        .complains(1, &["there is no such plan request"]);
}
