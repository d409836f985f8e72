//! The lifecycle of services and projects, from manifest to receipt, on the command line.

use std::time::Duration;

use serde_json::{Value, json};
use trueup_cluster::Cluster;
use trueup_local::kube::node;
use trueup_model::key::{Kind, ResourceKey};

use crate::install::{SOON, shared};
use crate::wait::{eventually, report_duration};
use trueup_model::status::{Health, Phase};

/// The target for the demo to converge on an idle machine.
const DEMO: Duration = Duration::from_secs(60);

#[tokio::test]
async fn second_up_reports_the_running_install() {
    let install = shared().await;
    let again = install.up(&[]).await.succeeded();
    assert!(again.err.contains("already up"), "{again:?}");
    let url = format!("http://127.0.0.1:{}", install.port());
    assert!(again.out.contains(&url), "{again:?}");

    let status = install.trueup(&["status"]).await.succeeded();
    assert!(status.out.contains("Cluster local: reachable"), "{status:?}");
    let status = install.trueup(&["status", "-o", "json"]).await.succeeded().json();
    assert_eq!((&status[0]["url"], &status[0]["ready"]), (&Value::from(url), &Value::Bool(true)));

    let kubeconfig = install.trueup(&["local", "kubeconfig"]).await.succeeded();
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
    report_duration("the demo converges", DEMO, async {
        for name in demo {
            let watched = install.trueup(&["watch", name, "--until", "healthy"]).await.succeeded();
            let ended = if name == "shop/recommendations" { "completed" } else { "running" };
            assert!(watched.out.contains(ended), "{watched:?}");
        }
    })
    .await;
    let services = install.services().await;
    // A cron has no pods until it is due, and the job's run has ended.
    let serving =
        demo.iter().filter(|name| !["shop/report", "shop/recommendations"].contains(name));
    for name in serving {
        let (project, name) = name.split_once('/').unwrap();
        let service = services.iter().find(|one| one.project == project && one.name == name);
        let status = &service.unwrap().status;
        assert_eq!((status.phase, status.health), (Phase::Running, Health::Healthy));
        let real = name == "storefront" && node::missing().is_none();
        assert_eq!(status.simulated, !real, "{project}/{name}: wrong `simulated`");
    }
    let listed = install.trueup(&["get", "services"]).await.succeeded();
    assert!(demo.iter().all(|name| listed.out.contains(&name[name.find('/').unwrap() + 1..])));
    let projects = install.trueup(&["get", "projects", "-o", "json"]).await.succeeded().json();
    assert!(projects[0]["items"].as_array().unwrap().len() >= 2, "{projects:?}");
    let page = install.trueup(&["describe", "survival"]).await.succeeded();
    assert!(page.out.contains("games/survival") && page.out.contains("StatefulSet/"), "{page:?}");
}

#[tokio::test]
async fn service_is_created_and_deleted_with_a_receipt() {
    let install = shared().await;
    let text = "kind: Service\nname: lived\nproject: shop\ntemplate: web@1\n\
                parameters:\n  image: lived:1\n  replicas: 2\n";
    let file = install.file("lived.yaml", text);
    let applied = install.trueup(&["apply", "-f", &file]).await.succeeded();
    assert!(applied.out.contains("service/lived accepted, generation 1"), "{applied:?}");
    let again = install.trueup(&["apply", "-f", &file, "-o", "json"]).await.succeeded().json();
    assert_eq!(again[0][0]["outcome"], "unchanged", "{again:?}");

    install.trueup(&["watch", "lived", "--until", "healthy"]).await.succeeded();
    let events = install.trueup(&["events", "lived"]).await.succeeded();
    assert!(events.out.contains("applied             generation 1"), "{events:?}");
    let events = install.trueup(&["watch", "lived", "--until", "healthy", "-o", "json"]).await;
    events.succeeded().json();

    let service =
        install.trueup(&["describe", "lived", "-o", "json"]).await.succeeded().json().remove(0);
    let text = |field: &str| service[field].as_str().unwrap().to_owned();
    let key = ResourceKey::new(Kind::Deployment, &text("namespace"), &text("object_name"));
    let deployment = install.kube().get(&key).await.unwrap().unwrap();
    assert_eq!(deployment["status"]["readyReplicas"], 2, "{deployment:#}");

    let deleted = install.trueup(&["delete", "lived", "--wait", "--yes"]).await.succeeded();
    let uid = deployment["metadata"]["uid"].as_str().unwrap();
    for words in ["shop/lived is gone", "verified at", &format!("{key}  {uid}")] {
        assert!(deleted.out.contains(words), "`{words}` is not in {deleted:#?}");
    }
    assert_eq!(install.kube().get(&key).await.unwrap(), None);
    install.trueup(&["get", "lived"]).await.failed_with(3, &["there is no service `lived`"]);
    // The receipt stays available under the id.
    let kept = install.trueup(&["describe", &text("id"), "-o", "json"]).await.succeeded().json();
    assert_eq!(kept[0]["receipt"]["level"], "api_absence", "{kept:?}");

    // The name is free for a new service.
    let applied = install.trueup(&["apply", "-f", &file, "--wait"]).await.succeeded();
    assert!(applied.out.contains("accepted, generation 1"), "{applied:?}");
    let deleted = install.trueup(&["delete", "lived", "--wait", "--yes", "-o", "json"]).await;
    let printed = deleted.succeeded().json();
    assert_ne!(printed.last().unwrap()["id"], service["id"]);
}

#[tokio::test]
async fn deleted_project_is_gone_with_its_services_and_its_name_is_free() {
    let install = shared().await;
    let text = "kind: Project\nname: brief\n---\nkind: Service\nname: web\nproject: brief\n\
                template: web@1\nparameters:\n  image: brief:1\n";
    let file = install.file("brief.yaml", text);
    for round in 1..=2 {
        install.trueup(&["apply", "-f", &file, "--wait"]).await.succeeded();
        let shown =
            install.trueup(&["get", "project", "brief", "-o", "json"]).await.succeeded().json();
        let namespace = shown[0]["namespace"].as_str().unwrap().to_owned();
        let key = ResourceKey::new(Kind::Namespace, "", &namespace);
        assert!(install.kube().get(&key).await.unwrap().is_some(), "round {round}");
        let gone = ["delete", "project", "brief", "--wait", "--yes"];
        let gone = install.trueup(&gone).await.succeeded();
        for words in ["project/brief is gone", "surveyed", "no foreign objects", &namespace] {
            assert!(gone.out.contains(words), "`{words}` is not in {gone:#?}");
        }
        assert_eq!(install.kube().get(&key).await.unwrap(), None, "round {round}");
    }
    install.trueup(&["get", "project", "brief"]).await.failed_with(3, &["no such project"]);
}

#[tokio::test]
async fn receipts_of_a_deleted_project_are_one_bundle_and_stay_readable_by_id() {
    let install = shared().await;
    let text = "kind: Project\nname: parting\n---\nkind: Service\nname: web\nproject: parting\n\
                template: web@1\nparameters:\n  image: parting:1\n";
    let file = install.file("parting.yaml", text);
    install.trueup(&["apply", "-f", &file, "--wait"]).await.succeeded();
    let shown = install.trueup(&["describe", "parting/web", "-o", "json"]).await.succeeded().json();
    let web = shown[0]["id"].as_str().unwrap();
    let open = install.trueup(&["receipts", "parting", "-o", "json"]).await.succeeded().json();
    assert_eq!(open[0]["complete"], false, "{open:?}");
    let project = open[0]["project_id"].as_str().unwrap();

    let gone = ["delete", "project", "parting", "--wait", "--yes"];
    let gone = install.trueup(&gone).await.succeeded();
    assert!(gone.err.contains(&format!("trueup receipts {project}")), "{gone:#?}");

    let bundle = install.trueup(&["receipts", project, "-o", "json"]).await.succeeded().json();
    assert_eq!(bundle[0]["complete"], true, "{bundle:?}");
    let subjects: Vec<&Value> =
        bundle[0]["items"].as_array().unwrap().iter().map(|item| &item["subject"]).collect();
    assert_eq!(subjects, [&json!(web), &json!(project)]);
    let listed = install.trueup(&["receipts", "parting"]).await.succeeded();
    for words in ["PROOF", web, project, "api_absence"] {
        assert!(listed.out.contains(words), "`{words}` is not in {listed:#?}");
    }
    let one = install.trueup(&["receipt", web]).await.succeeded();
    assert!(one.out.contains("service/web is gone") && one.out.contains("verified at"), "{one:#?}");
    // The service is found by its id, though its project is gone.
    let page = install.trueup(&["describe", web]).await.succeeded();
    assert!(page.out.contains("Deletion receipt"), "{page:#?}");
    let events = install.trueup(&["events", web]).await.succeeded();
    assert!(events.out.contains(web), "{events:#?}");
    install.trueup(&["watch", web, "--until", "deleted"]).await.succeeded();
    let unknown = "svc_01h455vb4pex5vsknk084sn02q";
    install.trueup(&["describe", unknown]).await.failed_with(3, &["there is no service"]);
    install.trueup(&["receipt", unknown]).await.failed_with(3, &["no such receipt"]);
}

#[tokio::test]
async fn blocked_service_deletion_is_forced_and_lists_what_is_left() {
    let install = shared().await;
    let text = "kind: Service\nname: held\nproject: shop\ntemplate: web@1\n\
                parameters:\n  image: held:1\n";
    let file = install.file("held.yaml", text);
    install.trueup(&["apply", "-f", &file, "--wait"]).await.succeeded();
    let shown =
        install.trueup(&["describe", "held", "-o", "json"]).await.succeeded().json().remove(0);
    let text = |field: &str| shown[field].as_str().unwrap().to_owned();
    let key = ResourceKey::new(Kind::Service, &text("namespace"), &text("object_name"));
    let hold = |by: Value| json!({"metadata": {"finalizers": by}});
    install.kube().patch(&key, &hold(json!(["example.com/hold"]))).await.unwrap();

    let force = ["delete", "held", "--force", "--reason", "controller removed", "--yes", "--wait"];
    install.trueup(&force).await.failed_with(1, &["is not being deleted"]);
    install.trueup(&["delete", "held", "--yes"]).await.succeeded();
    let ended = install.trueup(&force).await.succeeded();
    for words in ["forced by", "controller removed", &format!("{key}  ")] {
        assert!(ended.out.contains(words), "`{words}` is not in {ended:#?}");
    }
    let left = install.kube().get(&key).await.unwrap();
    assert!(left.is_some(), "the blocked object should stay");
    install.kube().patch(&key, &hold(Value::Null)).await.unwrap();
    install.trueup(&["apply", "-f", &file, "--wait"]).await.succeeded();
    install.trueup(&["delete", "held", "--yes", "--wait"]).await.succeeded();
}

#[tokio::test]
async fn blocked_project_deletion_is_forced_and_its_name_is_free() {
    let install = shared().await;
    let file = install.file("stuck.yaml", "kind: Project\nname: stuck\n");
    install.trueup(&["apply", "-f", &file]).await.succeeded();
    let shown = || async {
        install
            .trueup(&["get", "project", "stuck", "-o", "json"])
            .await
            .succeeded()
            .json()
            .remove(0)
    };
    let project = shown().await;
    let text = |field: &str| project[field].as_str().unwrap().to_owned();
    let (id, namespace) = (text("id"), text("namespace"));
    let key = ResourceKey::new(Kind::ConfigMap, &namespace, "precious");
    let foreign =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "precious"}});
    let made = || async { install.kube().apply(&key, &foreign).await.ok() };
    eventually("a foreign object", SOON, made).await;

    let reason = "unknown owner";
    let force = ["delete", "project", "stuck", "--force", "--reason", reason, "--yes", "--wait"];
    install.trueup(&force).await.failed_with(1, &["is not being deleted"]);
    install.trueup(&["delete", "project", "stuck", "--yes"]).await.succeeded();
    let dry = ["delete", "project", "stuck", "--force", "--reason", reason, "--dry-run"];
    let dry = install.trueup(&dry).await.succeeded();
    assert!(dry.out.contains("no object differs"), "{dry:#?}");
    let ended = install.trueup(&force).await.succeeded();
    for words in ["deletion forced", "forced by", reason, "ConfigMap/precious", &namespace] {
        assert!(ended.out.contains(words), "`{words}` is not in {ended:#?}");
    }
    let gone =
        install.trueup(&["get", "project", &id, "-o", "json"]).await.succeeded().json().remove(0);
    assert_eq!(gone["receipt"]["level"], "forced", "{gone}");
    assert!(install.kube().get(&key).await.unwrap().is_some(), "the foreign object should stay");

    install.trueup(&["apply", "-f", &file]).await.succeeded();
    assert_ne!(shown().await["namespace"], namespace.as_str());
    install.trueup(&["delete", "project", "stuck", "--yes", "--wait"]).await.succeeded();
}
