//! Shared variables and secrets on the command line: what they change, and who is asked.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt;

use crate::install::{Install, shared};
use crate::test_server::TestServer;

/// The generations of the services `api` and `web`.
async fn generations(server: &TestServer) -> [i64; 2] {
    let client = server.client();
    let generation = async |name: &str| client.service_get("shop", name).await.unwrap().generation;
    [generation("api").await, generation("web").await]
}

#[tokio::test]
async fn change_of_several_services_requires_yes_without_a_terminal() {
    let server = TestServer::new().await;
    server.declare("web", "nginx:1").await;
    // One service: nothing to ask.
    let one = server.trueup(&["-p", "shop", "variable", "set", "REGION=north"]).await.succeeded();
    assert!(one.err.contains("1 service changes: shop/web"), "{one:?}");
    server.declare("api", "nginx:1").await;
    assert_eq!(generations(&server).await, [1, 2]);

    let set = ["-p", "shop", "variable", "set", "REGION=south", "LOG_LEVEL=info"];
    let delete = ["-p", "shop", "variable", "delete", "REGION"];
    for args in [&set[..], &delete] {
        let words = [
            "2 services change: shop/api, shop/web",
            "refusing to change 2 services without confirmation: pass --yes",
        ];
        server.trueup(args).await.failed_with(2, &words);
        server.trueup(&[args, &["--dry-run"]].concat()).await.succeeded();
    }
    assert_eq!(generations(&server).await, [1, 2], "nothing was changed");
    let listed = server.trueup(&["-p", "shop", "variable", "list"]).await.succeeded();
    assert!(listed.out.contains("north") && !listed.out.contains("LOG_LEVEL"), "{listed:?}");

    // The same values change nothing, and one service is not several.
    let same = ["-p", "shop", "variable", "set", "REGION=north"];
    let same = server.trueup(&same).await.succeeded();
    assert!(same.err.contains("no service changes"), "{same:?}");
    server.trueup(&["variable", "set", "REGION=south", "-s", "shop/web"]).await.succeeded();
    server.trueup(&[&delete[..], &["--yes"]].concat()).await.succeeded();
    assert_eq!(generations(&server).await, [2, 3], "its own value hides the project's from web");
}

#[tokio::test]
async fn several_variables_are_one_generation_all_or_none() {
    let server = TestServer::new().await;
    for service in ["api", "web"] {
        server.declare(service, "nginx:1").await;
    }
    let run = async |args: &[&str]| {
        let args = [&["-p", "shop", "variable"][..], args, &["--yes"]].concat();
        server.trueup(&args).await
    };
    let set = run(&["set", "ONE=1", "TWO=2", "THREE=3"]).await.succeeded();
    assert!(set.out.contains("variable/TWO version 1, project shop"), "{set:?}");
    assert_eq!(generations(&server).await, [2, 2]);

    let words = ["set.APP_KEY", "is a secret that the template generates"];
    run(&["set", "FOUR=4", "APP_KEY=mine"]).await.failed_with(1, &words);
    run(&["delete", "ONE", "FOUR"]).await.failed_with(3, &["variable"]);
    run(&["set", "ONE=1", "ONE=2"]).await.failed_with(2, &["`ONE` is given twice"]);
    assert_eq!(generations(&server).await, [2, 2], "nothing was changed");

    let deleted = run(&["delete", "ONE", "TWO"]).await.succeeded();
    let line = "variable/TWO deleted, project shop";
    assert!(deleted.out.contains(line), "{deleted:?}");
    assert_eq!(generations(&server).await, [3, 3]);
    let left = server.trueup(&["-p", "shop", "variable", "list"]).await.succeeded();
    assert!(left.out.contains("THREE") && !left.out.contains("TWO"), "{left:?}");
}

/// Its value comes from a pipe, so the command cannot ask.
#[tokio::test]
async fn shared_secret_of_several_services_requires_yes() {
    let server = TestServer::new().await;
    server.declare("web", "nginx:1").await;
    server.declare("api", "nginx:1").await;
    let set = async |more: &[&str]| {
        let args = [&["-p", "shop", "secret", "set", "PASSWORD"][..], more].concat();
        let mut command = server.command(&args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"y\n").await.unwrap();
        child.wait_with_output().await.unwrap()
    };
    let refused = set(&[]).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert_eq!(generations(&server).await, [1, 1]);
    let accepted = set(&["--yes"]).await;
    assert_eq!(accepted.status.code(), Some(0), "{accepted:?}");
    assert_eq!(generations(&server).await, [2, 2]);
}

/// The generation of a completed service, and the uid of its Job.
async fn job(install: &Install, service: &str) -> (i64, Value) {
    let shown = install.trueup(&["describe", service, "-o", "json"]).await.succeeded().json();
    assert_eq!(shown[0]["status"]["phase"], "completed", "{shown:?}");
    let objects = shown[0]["objects"].as_array().unwrap();
    let jobs: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "Job").collect();
    assert_eq!(jobs.len(), 1, "{objects:?}");
    (shown[0]["generation"].as_i64().unwrap(), jobs[0]["uid"].clone())
}

/// A run may cost a day of GPUs.
#[tokio::test]
async fn shared_variable_does_not_run_a_completed_job_again() {
    let install = shared().await;
    let text = "kind: Project\nname: batch\n---\nkind: Service\nname: once\nproject: batch\n\
                template: job@1\nparameters:\n  image: once:1\n";
    let file = install.file("batch.yaml", text);
    install.trueup(&["apply", "-f", &file, "--wait"]).await.succeeded();
    let (_, first) = job(install, "batch/once").await;
    let watch = ["watch", "batch/once", "--until", "healthy"];
    for (number, value) in (2..).zip(["REGION=north", "REGION=south"]) {
        install.trueup(&["-p", "batch", "variable", "set", value]).await.succeeded();
        install.trueup(&watch).await.succeeded();
        assert_eq!(job(install, "batch/once").await, (number, first.clone()));
    }
    install.trueup(&["restart", "batch/once", "--wait"]).await.succeeded();
    install.trueup(&watch).await.succeeded();
    let shown = install.trueup(&["describe", "batch/once", "-o", "json"]).await.succeeded().json();
    let objects = shown[0]["objects"].as_array().unwrap();
    let another = |object: &Value| object["kind"] == "Job" && object["uid"] != first;
    assert!(objects.iter().any(another), "a restart does: {objects:?}");
    install.trueup(&["delete", "project", "batch", "--yes", "--wait"]).await.succeeded();
}
