//! One service from manifest to receipt, by the commands that a person types.

use std::time::Duration;

use serde_json::{Value, json};
use trueup_cluster::Cluster;
use trueup_local::kube::node;
use trueup_model::key::{Kind, ResourceKey};

use crate::install::{SOON, shared};
use crate::wait::{eventually, promised};

/// How long the demo may take to converge on a quiet machine.
const DEMO: Duration = Duration::from_secs(60);

#[tokio::test]
async fn up_again_says_that_it_is_up_and_where() {
    let install = shared().await;
    let again = install.up(&[]).await.well();
    assert!(again.err.contains("already up"), "{again:?}");
    let url = format!("http://127.0.0.1:{}", install.port());
    assert!(again.out.contains(&url), "{again:?}");

    let status = install.trueup(&["status"]).await.well();
    assert!(status.out.contains("Cluster local: reachable"), "{status:?}");
    let status = install.trueup(&["status", "-o", "json"]).await.well().json();
    assert_eq!((&status[0]["url"], &status[0]["ready"]), (&Value::from(url), &Value::Bool(true)));

    let kubeconfig = install.trueup(&["local", "kubeconfig"]).await.well();
    assert_eq!(kubeconfig.out.trim(), install.kubeconfig().to_str().unwrap());
}

#[tokio::test]
async fn the_demo_converges() {
    let install = shared().await;
    let demo = [
        "games/creative",
        "games/survival",
        "shop/mailer",
        "shop/orders",
        "shop/recommendations",
        "shop/report",
        "shop/sessions",
        "shop/storefront",
    ];
    promised("the demo converges", DEMO, async {
        for name in demo {
            let watched = install.trueup(&["watch", name, "--until", "healthy"]).await.well();
            let ended = if name == "shop/recommendations" { "completed" } else { "running" };
            assert!(watched.out.contains(ended), "{watched:?}");
        }
    })
    .await;
    let services = install.services().await;
    // A cron has no pods until its time comes, and a job's run has ended.
    let serving =
        demo.iter().filter(|name| !["shop/report", "shop/recommendations"].contains(name));
    for name in serving {
        let (project, name) = name.split_once('/').unwrap();
        let service = services.iter().find(|one| one.project == project && one.name == name);
        let status = &service.unwrap().status;
        assert_eq!((status.phase.as_str(), status.health.as_str()), ("running", "healthy"));
        let real = name == "storefront" && node::missing().is_none();
        assert_eq!(status.simulated, !real, "{project}/{name} must say what its nodes are");
    }
    let listed = install.trueup(&["get", "services"]).await.well();
    assert!(demo.iter().all(|name| listed.out.contains(&name[name.find('/').unwrap() + 1..])));
    let projects = install.trueup(&["get", "projects", "-o", "json"]).await.well().json();
    assert!(projects[0]["items"].as_array().unwrap().len() >= 2, "{projects:?}");
    let page = install.trueup(&["describe", "survival"]).await.well();
    assert!(page.out.contains("games/survival") && page.out.contains("StatefulSet/"), "{page:?}");
}

#[tokio::test]
async fn a_service_lives_and_ends_with_a_receipt() {
    let install = shared().await;
    let text = "kind: Service\nname: lived\nproject: shop\ntemplate: web@1\n\
                parameters:\n  image: lived:1\n  replicas: 2\n";
    let file = install.file("lived.yaml", text);
    let applied = install.trueup(&["apply", "-f", &file]).await.well();
    assert!(applied.out.contains("service/lived accepted, generation 1"), "{applied:?}");
    let again = install.trueup(&["apply", "-f", &file, "-o", "json"]).await.well().json();
    assert_eq!(again[0][0]["outcome"], "unchanged", "{again:?}");

    install.trueup(&["watch", "lived", "--until", "healthy"]).await.well();
    let told = install.trueup(&["events", "lived"]).await.well();
    assert!(told.out.contains("the cluster carries generation 1"), "{told:?}");
    let events = install.trueup(&["watch", "lived", "--until", "healthy", "-o", "json"]).await;
    events.well().json();

    let service =
        install.trueup(&["describe", "lived", "-o", "json"]).await.well().json().remove(0);
    let text = |field: &str| service[field].as_str().unwrap().to_owned();
    let key = ResourceKey::new(Kind::Deployment, &text("namespace"), &text("object_name"));
    let deployment = install.kube().get(&key).await.unwrap().unwrap();
    assert_eq!(deployment["status"]["readyReplicas"], 2, "{deployment:#}");

    let deleted = install.trueup(&["delete", "lived", "--wait", "--yes"]).await.well();
    let uid = deployment["metadata"]["uid"].as_str().unwrap();
    for words in ["shop/lived is gone", "verified at", &format!("{key}  {uid}")] {
        assert!(deleted.out.contains(words), "`{words}` is not in {deleted:#?}");
    }
    assert_eq!(install.kube().get(&key).await.unwrap(), None);
    install.trueup(&["get", "lived"]).await.complains(3, &["there is no service `lived`"]);
    // The receipt stays, under the id.
    let kept = install.trueup(&["describe", &text("id"), "-o", "json"]).await.well().json();
    assert_eq!(kept[0]["receipt"]["level"], "api_absence", "{kept:?}");

    // The name is free again, for another service.
    let anew = install.trueup(&["apply", "-f", &file, "--wait"]).await.well();
    assert!(anew.out.contains("accepted, generation 1"), "{anew:?}");
    let deleted = install.trueup(&["delete", "lived", "--wait", "--yes", "-o", "json"]).await;
    let printed = deleted.well().json();
    assert_ne!(printed.last().unwrap()["id"], service["id"]);
}

#[tokio::test]
async fn a_project_ends_with_its_services_and_its_name_is_free_at_once() {
    let install = shared().await;
    let text = "kind: Project\nname: brief\n---\nkind: Service\nname: web\nproject: brief\n\
                template: web@1\nparameters:\n  image: brief:1\n";
    let file = install.file("brief.yaml", text);
    for round in 1..=2 {
        install.trueup(&["apply", "-f", &file, "--wait"]).await.well();
        let shown = install.trueup(&["get", "project", "brief", "-o", "json"]).await.well().json();
        let namespace = shown[0]["namespace"].as_str().unwrap().to_owned();
        let key = ResourceKey::new(Kind::Namespace, "", &namespace);
        assert!(install.kube().get(&key).await.unwrap().is_some(), "round {round}");
        let gone = ["delete", "project", "brief", "--wait", "--yes"];
        let gone = install.trueup(&gone).await.well();
        for words in ["project/brief is gone", "looked into", "nothing of others", &namespace] {
            assert!(gone.out.contains(words), "`{words}` is not in {gone:#?}");
        }
        assert_eq!(install.kube().get(&key).await.unwrap(), None, "round {round}");
    }
    install.trueup(&["get", "project", "brief"]).await.complains(3, &["no such project"]);
}

#[tokio::test]
async fn a_deletion_that_is_held_can_be_ended_by_force_and_says_what_is_left() {
    let install = shared().await;
    let text = "kind: Service\nname: held\nproject: shop\ntemplate: web@1\n\
                parameters:\n  image: held:1\n";
    let file = install.file("held.yaml", text);
    install.trueup(&["apply", "-f", &file, "--wait"]).await.well();
    let shown = install.trueup(&["describe", "held", "-o", "json"]).await.well().json().remove(0);
    let text = |field: &str| shown[field].as_str().unwrap().to_owned();
    let key = ResourceKey::new(Kind::Service, &text("namespace"), &text("object_name"));
    let hold = |by: Value| json!({"metadata": {"finalizers": by}});
    install.kube().patch(&key, &hold(json!(["example.com/hold"]))).await.unwrap();

    let force = ["delete", "held", "--force", "--reason", "nobody runs it", "--yes", "--wait"];
    install.trueup(&force).await.complains(1, &["is not being deleted"]);
    install.trueup(&["delete", "held", "--yes"]).await.well();
    let ended = install.trueup(&force).await.well();
    for words in ["forced by", "nobody runs it", &format!("{key}  ")] {
        assert!(ended.out.contains(words), "`{words}` is not in {ended:#?}");
    }
    let left = install.kube().get(&key).await.unwrap();
    assert!(left.is_some(), "what is held stays there");
    install.kube().patch(&key, &hold(Value::Null)).await.unwrap();
    install.trueup(&["apply", "-f", &file, "--wait"]).await.well();
    install.trueup(&["delete", "held", "--yes", "--wait"]).await.well();
}

#[tokio::test]
async fn a_projects_deletion_that_is_kept_can_be_ended_by_force_and_its_name_is_free() {
    let install = shared().await;
    let file = install.file("stuck.yaml", "kind: Project\nname: stuck\n");
    install.trueup(&["apply", "-f", &file]).await.well();
    let shown = || async {
        install.trueup(&["get", "project", "stuck", "-o", "json"]).await.well().json().remove(0)
    };
    let project = shown().await;
    let text = |field: &str| project[field].as_str().unwrap().to_owned();
    let (id, namespace) = (text("id"), text("namespace"));
    let key = ResourceKey::new(Kind::ConfigMap, &namespace, "precious");
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "precious"}});
    let made = || async { install.kube().apply(&key, &theirs).await.ok() };
    eventually("an object of another owner", SOON, made).await;

    let reason = "nobody knows whose it is";
    let force = ["delete", "project", "stuck", "--force", "--reason", reason, "--yes", "--wait"];
    install.trueup(&force).await.complains(1, &["is not being deleted"]);
    install.trueup(&["delete", "project", "stuck", "--yes"]).await.well();
    let dry = ["delete", "project", "stuck", "--force", "--reason", reason, "--dry-run"];
    let dry = install.trueup(&dry).await.well();
    assert!(dry.out.contains("no object differs"), "{dry:#?}");
    let ended = install.trueup(&force).await.well();
    for words in ["ends without proof", "forced by", reason, "ConfigMap/precious", &namespace] {
        assert!(ended.out.contains(words), "`{words}` is not in {ended:#?}");
    }
    let gone = install.trueup(&["get", "project", &id, "-o", "json"]).await.well().json().remove(0);
    assert_eq!(gone["receipt"]["level"], "forced", "{gone}");
    assert!(install.kube().get(&key).await.unwrap().is_some(), "what is left stays there");

    install.trueup(&["apply", "-f", &file]).await.well();
    assert_ne!(shown().await["namespace"], namespace.as_str());
    install.trueup(&["delete", "project", "stuck", "--yes", "--wait"]).await.well();
}
