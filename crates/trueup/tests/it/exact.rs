//! `trueup plan --exact` and `trueup apply --preview` on a real cluster.

use serde_json::{Value, json};
use trueup_cluster::Cluster;
use trueup_model::key::{Kind, ResourceKey};

use crate::install::{SOON, shared};
use crate::wait::eventually;
use trueup_model::preview_request::PreviewState;

fn manifest(name: &str, image: &str, replicas: u32) -> String {
    format!(
        "kind: Service\nname: {name}\nproject: shop\ntemplate: web@1\nparameters:\n  image: {image}\n  \
         replicas: {replicas}\n"
    )
}

/// The preview request in the output of `plan --exact -o json`.
fn request_of(printed: &[Value]) -> &Value {
    &printed[0]["documents"][0]["plan"]
}

#[tokio::test]
async fn exact_preview_is_applied_as_previewed() {
    let install = shared().await;
    let file = install.file("exact.yaml", &manifest("exact", "exact:1", 1));
    let output = install.trueup(&["plan", "-f", &file, "--exact"]).await.succeeded();
    for words in ["service/shop/exact: generation 1", "+ Deployment exact-", "+ Service exact-"] {
        assert!(output.out.contains(words), "`{words}` is not in {output:#?}");
    }
    assert!(output.err.contains(&format!("trueup apply -f {file} --preview pvr_")), "{output:#?}");
    install.trueup(&["get", "exact"]).await.failed_with(3, &["there is no service `exact`"]);

    let printed =
        install.trueup(&["plan", "-f", &file, "--exact", "-o", "json"]).await.succeeded().json();
    let request = request_of(&printed);
    assert_eq!(request["state"], "filled", "{request:#}");
    let id = request["id"].as_str().unwrap();
    let applied =
        install.trueup(&["apply", "-f", &file, "--preview", id, "--wait"]).await.succeeded();
    assert!(applied.out.contains("service/exact accepted, generation 1"), "{applied:?}");
    let events = install.trueup(&["events", "exact"]).await.succeeded();
    assert!(events.out.contains(&format!("from preview {id}")), "{events:?}");
    // The objects have the names in the preview.
    let described = install.trueup(&["describe", "exact", "-o", "json"]).await.succeeded().json();
    let object_name = described[0]["object_name"].as_str().unwrap();
    let previewed = request["preview"]["objects"].as_array().unwrap();
    assert!(previewed.iter().any(|object| object["name"] == object_name), "{previewed:#?}");

    // A change shows the fields as the cluster would store them.
    let file = install.file("exact.yaml", &manifest("exact", "exact:2", 2));
    let output = install.trueup(&["plan", "-f", &file, "--exact"]).await.succeeded();
    for words in [
        "~ Deployment exact-",
        "spec.replicas: 1 → 2",
        "spec.template.spec.containers.main.image: \"exact:1\" → \"exact:2\"",
        "+ PodDisruptionBudget exact-",
        "are unchanged",
    ] {
        assert!(output.out.contains(words), "`{words}` is not in {output:#?}");
    }
    let printed =
        install.trueup(&["plan", "-f", &file, "--exact", "-o", "json"]).await.succeeded().json();
    let id = request_of(&printed)["id"].as_str().unwrap().to_owned();

    // Another change invalidates the preview.
    let other = install.file("other.yaml", &manifest("exact", "exact:3", 1));
    install.trueup(&["apply", "-f", &other, "--wait"]).await.succeeded();
    install
        .trueup(&["apply", "-f", &file, "--preview", &id])
        .await
        .failed_with(1, &["Preview is no longer valid", "generation 2 was previewed"]);
    install.trueup(&["delete", "exact", "--yes"]).await.succeeded();
}

#[tokio::test]
async fn exact_preview_is_void_after_an_outside_change() {
    let install = shared().await;
    let file = install.file("undercut.yaml", &manifest("undercut", "undercut:1", 1));
    install.trueup(&["apply", "-f", &file, "--wait"]).await.succeeded();
    let described =
        install.trueup(&["describe", "undercut", "-o", "json"]).await.succeeded().json();
    let text = |field: &str| described[0][field].as_str().unwrap().to_owned();
    let key = ResourceKey::new(Kind::Deployment, &text("namespace"), &text("object_name"));
    let file = install.file("undercut.yaml", &manifest("undercut", "undercut:2", 1));
    let printed =
        install.trueup(&["plan", "-f", &file, "--exact", "-o", "json"]).await.succeeded().json();
    let id = request_of(&printed)["id"].as_str().unwrap().to_owned();

    let kube = install.kube();
    eventually("the deployment to be deleted by hand", SOON, || async {
        let live = kube.get(&key).await.unwrap().unwrap();
        let part = |name: &str| live["metadata"][name].as_str().unwrap().to_owned();
        // On a conflict the object's status changed; retry.
        kube.delete(&key, &part("uid"), &part("resourceVersion")).await.ok()
    })
    .await;
    let client = install.client().expect("Trueup should be up");
    let void = eventually("the preview to be void", SOON, async || {
        let seen = client.preview_request_get("shop", "undercut", &id).await.ok()?;
        (seen.state == PreviewState::Void).then_some(seen)
    });
    let why = void.await.why.unwrap_or_default();
    assert!(why.starts_with(&key.to_string()), "{why}");
    install
        .trueup(&["apply", "-f", &file, "--preview", &id])
        .await
        .failed_with(1, &["Preview is no longer valid", &key.to_string()]);
    let shown = install.trueup(&["describe", "undercut", "-o", "json"]).await.succeeded().json();
    assert_eq!(shown[0]["generation"], json!(1));
    install.trueup(&["delete", "undercut", "--yes"]).await.succeeded();
}

#[tokio::test]
async fn preview_flag_requires_one_service_document() {
    let install = shared().await;
    let two = format!("{}---\n{}", manifest("one", "a:1", 1), manifest("two", "b:1", 1));
    let file = install.file("two.yaml", &two);
    let id = "pvr_01h455vb4pex5vsknk084sn02q";
    install
        .trueup(&["apply", "-f", &file, "--preview", id])
        .await
        .failed_with(2, &["--preview needs exactly one document"]);
    let file = install.file("one.yaml", &manifest("one", "a:1", 1));
    install
        .trueup(&["apply", "-f", &file, "--preview", id])
        .await
        .failed_with(1, &["preview request"]);
}
