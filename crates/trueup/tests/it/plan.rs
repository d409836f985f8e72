//! `trueup plan` of files whose documents build on each other.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use crate::desk::Desk;

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
async fn a_service_is_planned_with_the_project_that_the_same_file_makes() {
    let desk = Desk::new().await;
    for args in [&["plan", "-f", "-"][..], &["apply", "--dry-run", "-f", "-"]] {
        let (code, out, err) = told(&desk, args).await;
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(out.contains("project/fresh: generation 1"), "{out}");
        assert!(out.contains("service/fresh/web: generation 1"), "{out}");
        assert!(out.contains("+ Deployment"), "{out}");
        assert_eq!(out.matches("+ Namespace").count(), 1, "{out}");
        assert!(err.contains("document 3"), "{err}");
        assert!(err.contains("1 of 3 documents would be refused"), "{err}");
    }
    let said = desk.trueup(&["get", "projects"]).await;
    assert!(!said.out.contains("fresh"), "nothing was made: {}", said.out);
}

/// Runs a command that reads the file from its standard input.
async fn told(desk: &Desk, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = desk.command(args);
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
async fn switches_and_looks_are_only_told_with_dry_run() {
    let desk = Desk::new().await;
    desk.declare("web", "nginx:1").await;
    let freeze = ["freeze", "shop/web", "--reason", "we look into it", "--dry-run"];
    let unfreeze = ["unfreeze", "shop/web", "--dry-run"];
    let reconcile = ["reconcile", "shop/web", "--wait", "--dry-run"];
    let pairs = [
        (&freeze[..], "service/web: would be recorded"),
        // It was not frozen by that.
        (&unfreeze, "service/web: nothing would change"),
        (&reconcile, "service/web: would be recorded"),
    ];
    for (args, told) in pairs {
        let said = desk.trueup(args).await;
        assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
        assert!(said.out.contains(told), "{args:?}: {}", said.out);
    }
    assert_eq!(desk.trueup(&freeze[..4]).await.code, Some(0));
    let said = desk.trueup(&unfreeze).await;
    assert!(said.out.contains("would be recorded"), "{}", said.out);
}
