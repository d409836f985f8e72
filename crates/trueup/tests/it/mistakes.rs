//! User errors: each is reported with its place, a fix and an exit code.

use std::net::TcpListener;

use trueup_model::service::DesiredState;

use crate::install::{Install, shared};
use crate::test_server::TestServer;

const GOOD: &str = "kind: Service\nname: mistaken\nproject: shop\ntemplate: web@1\n";

#[tokio::test]
async fn bad_manifest_is_reported_with_file_document_field_and_fix() {
    let install = shared().await;
    let bad = [
        (format!("{GOOD}replicas: 2\n"), ["document 1", "`replicas` is not known", "parameters:"]),
        (
            "kind: Servce\nname: a\n".to_owned(),
            ["document 1", "`Servce`", "did you mean `Service`"],
        ),
        ("kind: Pod\nname: a\n".to_owned(), ["document 1", "`Pod`", "`Project`, `Service`"]),
        (
            format!("{GOOD}parameters:\n  image: a:1\n  replicas: many\n"),
            ["document 1", "parameters.replicas", "must be an integer"],
        ),
        (
            format!("{GOOD}parameters:\n  image: a:1\n  replica: 2\n"),
            ["document 1", "parameters.replica", "replicas"],
        ),
        (
            format!("kind: Project\nname: shop\n---\n{GOOD}"),
            ["document 2", "parameters.image", "fix"],
        ),
        (GOOD.replace("shop", "shoop"), ["document 1", "project", "trueup get"]),
    ];
    for (number, (text, words)) in bad.iter().enumerate() {
        let file = install.file(&format!("bad-{number}.yaml"), text);
        let output = install.trueup(&["apply", "-f", &file]).await;
        output.failed_with(1, words);
        output.failed_with(1, &[&file, "were not accepted"]);
    }
    install.trueup(&["get", "mistaken"]).await.failed_with(3, &["mistaken"]);
    let nowhere = install.dir().join("nowhere.yaml");
    let output = install.trueup(&["apply", "-f", nowhere.to_str().unwrap()]).await;
    output.failed_with(1, &["nowhere.yaml", "check the path"]);
}

#[tokio::test]
async fn missing_objects_and_timeouts_have_exit_codes() {
    let install = shared().await;
    for command in ["get", "describe", "watch"] {
        install.trueup(&[command, "missing"]).await.failed_with(3, &["no service `missing`"]);
    }
    install.trueup(&["delete", "missing", "--yes"]).await.failed_with(3, &["no service `missing`"]);
    let args = ["watch", "storefront", "--until", "deleted", "--timeout", "1s"];
    install.trueup(&args).await.failed_with(4, &["is not deleted after 1s", "trueup describe"]);
    install.trueup(&["watch", "storefront", "--until", "green"]).await.failed_with(2, &["healthy"]);
    let args = ["--token", "tu_wrong", "get"];
    install.trueup(&args).await.failed_with(1, &["token"]);
}

/// Without a terminal a command cannot ask, and silence is not consent.
#[tokio::test]
async fn deletion_without_a_terminal_requires_yes() {
    let server = TestServer::new().await;
    server.declare("web", "nginx:1").await;
    for (args, operation) in [
        (&["delete", "shop/web"][..], "delete service shop/web"),
        (&["delete", "project", "shop"], "delete project shop"),
    ] {
        let refusal = format!("refusing to {operation} without confirmation: pass --yes");
        server.trueup(args).await.failed_with(2, &[&refusal]);
        let dry = [args, &["--dry-run"]].concat();
        server.trueup(&dry).await.succeeded();
    }
    let client = server.client();
    let service = client.service_get("shop", "web").await.unwrap();
    assert_eq!((service.desired, service.generation), (DesiredState::Active, 1));
    assert_eq!(client.project_get("shop").await.unwrap().desired, DesiredState::Active);

    server.trueup(&["delete", "shop/web", "--yes"]).await.succeeded();
    // A repetition deletes nothing more; forcing it does something else.
    server.trueup(&["delete", "shop/web"]).await.succeeded();
    let force = ["delete", "shop/web", "--force", "--reason", "the node was destroyed"];
    server.trueup(&force).await.failed_with(2, &["refusing to force-complete", "pass --yes"]);
}

#[tokio::test]
async fn commands_without_a_server_hint_at_trueup_up() {
    let install = Install::new(None);
    install.trueup(&["get"]).await.failed_with(5, &["trueup up"]);
    install.trueup(&["status"]).await.failed_with(5, &["trueup up"]);
    install.trueup(&["local", "kubeconfig"]).await.failed_with(3, &["trueup up"]);
    let down = install.trueup(&["down"]).await.succeeded();
    assert!(down.err.contains("was not up"), "{down:?}");
    let args = ["--url", "http://127.0.0.1:1", "--token", "tu_x", "get"];
    install.trueup(&args).await.failed_with(5, &["http://127.0.0.1:1"]);
}

#[tokio::test]
async fn taken_port_is_named_with_a_fix() {
    let install = Install::new(None);
    let _taken = TcpListener::bind(("127.0.0.1", install.port())).unwrap();
    let words = [&format!("port {} is taken", install.port()), "--port"];
    let output = install.up(&[]).await;
    output.failed_with(1, &words);
    assert_eq!(output.err.matches("error:").count(), 1, "{output:?}");
    let args = install.up_args(&[]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    install.trueup(&args).await.failed_with(1, &words);
    assert_eq!(install.processes(), [], "a failed start should leave no process running");
}

#[tokio::test]
async fn missing_kubeconfig_is_named() {
    let install = Install::new(Some("/nowhere/kubeconfig".as_ref()));
    install.up(&[]).await.failed_with(1, &["/nowhere/kubeconfig"]);
    let args = install.up_args(&[]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    install.trueup(&args).await.failed_with(1, &["/nowhere/kubeconfig"]);
    assert_eq!(install.processes(), [], "a failed start should leave no process running");
}
