//! `trueup plan` of documents that depend on each other, and `--dry-run` of other commands.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use trueup_api::client::ServiceQuery;

use crate::test_server::TestServer;

const FILE: &str = "\
kind: Project
name: fresh
---
kind: Service
name: web
project: fresh
template: web@1
parameters: { image: nginx:1 }
---
kind: Service
name: lost
project: nowhere
template: web@1
parameters: { image: nginx:1 }
";

#[tokio::test]
async fn service_is_planned_with_the_new_project_of_the_same_file() {
    let server = TestServer::new().await;
    for args in [&["plan", "-f", "-"][..], &["apply", "--dry-run", "-f", "-"]] {
        let (code, out, err) = run_with_stdin(&server, args, FILE).await;
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(out.contains("project/fresh: generation 1"), "{out}");
        assert!(out.contains("service/fresh/web: generation 1"), "{out}");
        assert!(out.contains("+ Deployment"), "{out}");
        assert_eq!(out.matches("+ Namespace").count(), 1, "{out}");
        assert!(err.contains("document 3"), "{err}");
        assert!(err.contains("1 of 3 documents would be refused"), "{err}");
    }
    let output = server.trueup(&["get", "projects"]).await;
    assert!(!output.out.contains("fresh"), "nothing should be created: {}", output.out);
}

/// Each of three services fits into the quota alone, and all of them do not.
#[tokio::test]
async fn services_of_one_file_are_planned_and_refused_together() {
    let server = TestServer::new().await;
    let service = |name: &str| {
        format!(
            "kind: Service\nname: {name}\nproject: shop\ntemplate: web@1\n\
             parameters: {{ image: nginx:1 }}\n"
        )
    };
    let file = ["one", "two", "three"].map(service).join("---\n");
    server.tamper("update quotas set services_limit = services_used + 1").await;
    let (code, out, err) = run_with_stdin(&server, &["plan", "-f", "-"], &file).await;
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("total of 3 services: 13.14 EUR a month\n"), "{out}");
    assert!(out.contains("over quota: services: 3 more needed, 1 left"), "{out}");
    let second = "document 2: over quota with the services before it: \
                  services: 2 more needed, 1 left";
    assert!(err.contains(second), "{err}");
    assert!(err.contains("2 of 3 documents would be refused"), "{err}");

    let (code, out, err) = run_with_stdin(&server, &["apply", "-f", "-"], &file).await;
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(err.contains("nothing was applied"), "{err}");
    assert!(err.contains("services: 3 more needed, 1 left"), "{err}");
    let services =
        async || server.client().service_list(&ServiceQuery::default()).await.unwrap().items.len();
    assert_eq!(services().await, 0, "all or nothing");

    server.tamper("update quotas set services_limit = services_used + 3").await;
    let args = ["plan", "-f", "-", "-o", "json"];
    let (code, out, err) = run_with_stdin(&server, &args, &file).await;
    assert_eq!(code, Some(0), "{out}{err}");
    let printed: Value = serde_json::from_str(&out).unwrap();
    let left = |quota: &Value| quota["left"]["services"].as_i64().unwrap();
    let each: Vec<i64> = printed["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|planned| left(&planned["preview"]["quota"]))
        .collect();
    assert_eq!(each, [2, 1, 0], "each finds what the services before it leave");
    assert_eq!(left(&printed["total"]["quota"]), 0, "{printed:#}");
    assert_eq!(printed["total"]["monthly_after"][0]["text"], "13.14 EUR");
    let (code, out, err) = run_with_stdin(&server, &["apply", "-f", "-"], &file).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(services().await, 3);
}

/// Runs a command with this file on its standard input.
async fn run_with_stdin(
    server: &TestServer,
    args: &[&str],
    file: &str,
) -> (Option<i32>, String, String) {
    let mut command = server.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(file.as_bytes()).await.unwrap();
    drop(stdin);
    let ended = tokio::time::timeout(Duration::from_secs(300), child.wait_with_output()).await;
    let ended = ended.expect("the command should end").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

#[tokio::test]
async fn dry_run_of_freeze_and_reconcile_changes_nothing() {
    let server = TestServer::new().await;
    server.declare("web", "nginx:1").await;
    let freeze = ["freeze", "shop/web", "--reason", "investigating", "--dry-run"];
    let unfreeze = ["unfreeze", "shop/web", "--dry-run"];
    let reconcile = ["reconcile", "shop/web", "--wait", "--dry-run"];
    let pairs = [
        (&freeze[..], "service/web: would be recorded"),
        // The dry run did not freeze it.
        (&unfreeze, "service/web: nothing would change"),
        (&reconcile, "service/web: would be recorded"),
    ];
    for (args, expected) in pairs {
        let output = server.trueup(args).await;
        assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
        assert!(output.out.contains(expected), "{args:?}: {}", output.out);
    }
    assert_eq!(server.trueup(&freeze[..4]).await.code, Some(0));
    let output = server.trueup(&unfreeze).await;
    assert!(output.out.contains("would be recorded"), "{}", output.out);
}
