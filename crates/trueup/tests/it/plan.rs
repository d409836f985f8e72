//! `trueup plan` of documents that depend on each other, and `--dry-run` of other commands.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

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
        let (code, out, err) = run_with_stdin(&server, args).await;
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

/// Runs a command with the file on its standard input.
async fn run_with_stdin(server: &TestServer, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = server.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(FILE.as_bytes()).await.unwrap();
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
