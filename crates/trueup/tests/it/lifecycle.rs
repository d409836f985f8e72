//! One service from manifest to receipt, by the commands that a person types.

use serde_json::Value;
use trueup_cluster::Cluster;
use trueup_local::kube::node;
use trueup_model::key::{Kind, ResourceKey};

use crate::install::shared;

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
    for name in demo {
        let watched =
            install.trueup(&["watch", name, "--until", "healthy", "--timeout", "60s"]).await.well();
        let ended = if name == "shop/recommendations" { "completed" } else { "running" };
        assert!(watched.out.contains(ended), "{watched:?}");
    }
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
