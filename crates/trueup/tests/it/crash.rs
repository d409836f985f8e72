//! `kill -9` at chosen points of create and delete: the end is the same, and so is the number of
//! creates and deletes of every object.
//!
//! A reference run without a crash says what "the same" is. Every other run does the same work with
//! one point armed, must really die there, is started again and must end like the reference.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::json;
use tokio::process::Child;
use trueup_api::Client;
use trueup_api::client::ClientError;
use trueup_api::client::Terms;
use trueup_api::service::{Service, ServiceManifest};

use crate::install::{Install, SOON, shared};
use crate::story::{Story, objects, shown, tidy};
use crate::tally::Tally;
use crate::wait::eventually;

/// SIGABRT: a crash point ends the process by it, and nothing else does.
const ABORT: i32 = 6;

/// Where a process is really killed, and at which hits: one point of each loop, in the middle of a
/// service's creation and deletion. All points of `trueup_model::crash` have plans of their own in
/// `control`, on a real Postgres; here the operating system takes everything away.
const KILLED: [(&str, &[u32]); 7] = [
    // The project, the service's declaration, and its deletion.
    ("door.recorded", &[2]),
    ("door.accepted", &[2, 3]),
    ("driver.claimed", &[1]),
    // The namespace, and the third object of the service.
    ("executor.applied", &[1, 9]),
    ("settle.settled", &[1]),
    ("executor.deleted", &[1]),
    ("executor.verified", &[1]),
];

#[tokio::test]
async fn a_crash_at_any_point_changes_neither_the_end_nor_the_number_of_writes() {
    let install = shared().await;
    let cluster = install.kubeconfig();
    let reference = run(&cluster, None).await;
    assert!(reference.counts.values().any(|counts| *counts == (1, 1)), "{reference:#?}");
    for (point, hits) in KILLED {
        for hit in hits {
            let story = run(&cluster, Some(&format!("{point}:{hit}"))).await;
            let differences = story.differences(&reference);
            assert!(differences.is_empty(), "a crash at {point}, hit {hit}: {differences:#?}");
        }
    }
}

/// One run on an install of its own; with a point armed, the process must die there on the way.
async fn run(cluster: &Path, armed: Option<&str>) -> Story {
    let install = Install::new(Some(cluster));
    let tally = Tally::start(install.kube()).await;
    let mut serving = start(&install, armed);
    let client = eventually("Trueup to answer", SOON, || async { install.client() }).await;
    let work = work(&install, &client, &tally);
    tokio::pin!(work);
    let died = tokio::select! {
        story = &mut work => {
            assert!(armed.is_none(), "{armed:?} was never reached: {story:#?}");
            return story;
        }
        status = serving.wait() => status.unwrap(),
    };
    assert_died_at(armed, died, &install);
    let _again = start(&install, None);
    work.await
}

/// In the foreground, as a child of this test: nobody else can learn how it ended.
fn start(install: &Install, armed: Option<&str>) -> Child {
    let args = install.up_args(&["--no-demo"]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let log = std::fs::File::create(install.dir().join("stderr.log")).unwrap();
    let mut command = install.command(&args);
    command.stdout(Stdio::null()).stderr(log);
    if let Some(armed) = armed {
        command.env("TRUEUP_CRASH_AT", armed);
    }
    command.spawn().unwrap()
}

fn assert_died_at(armed: Option<&str>, died: ExitStatus, install: &Install) {
    let said = std::fs::read_to_string(install.dir().join("stderr.log")).unwrap();
    assert!(armed.is_some(), "it died without being asked to: {died}: {said}");
    assert_eq!(died.signal(), Some(ABORT), "{armed:?}: {died}: {said}");
    assert!(!said.contains("panicked"), "a crash point says nothing, a panic does: {said}");
}

/// Declares a service, waits until it is healthy, deletes it and waits for the receipt.
async fn work(install: &Install, client: &Client, tally: &Tally) -> Story {
    let kube = install.kube();
    let project = serde_json::from_value(json!({ "kind": "Project", "name": "shop" })).unwrap();
    retry("project", || client.project_put("shop", &project)).await;
    let manifest: ServiceManifest = serde_json::from_value(
        json!({ "template": "web@1", "parameters": { "image": "web:1", "replicas": 2 } }),
    )
    .unwrap();
    let declared =
        retry("service", || client.service_put("shop", "web", &manifest, &Terms::PLAIN)).await;
    let id = declared.service.id;
    let healthy =
        until(client, &id, |one| one.status.health == "healthy" && one.reconciliation == "settled")
            .await;
    let alive = objects(&kube, &healthy).await;
    retry("deletion", || client.service_delete("shop", &id, &Terms::PLAIN)).await;
    let deleted = until(client, &id, |one| one.receipt.is_some()).await;
    let gone = objects(&kube, &deleted).await;
    let counts = tally.counts(&deleted.namespace, |name| tidy(name, &deleted)).await;
    Story { alive, gone, shown: [shown(&healthy), shown(&deleted)], counts }
}

/// Makes the same call until it is answered: what a client does whose server died.
async fn retry<T, F>(what: &str, mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, ClientError>>,
{
    eventually(what, SOON, || {
        let calling = call();
        async {
            match calling.await {
                Ok(answer) => Some(answer),
                Err(error) if error.is_passing() => None,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}

async fn until(client: &Client, id: &str, holds: impl Fn(&Service) -> bool) -> Service {
    let last = std::sync::Mutex::new(None);
    let waiting = eventually("the service", Duration::from_secs(600), || async {
        let service = client.service_get("shop", id).await.ok()?;
        let reached = holds(&service);
        *last.lock().unwrap() = Some(service.clone());
        reached.then_some(service)
    });
    match tokio::time::timeout(SOON, waiting).await {
        Ok(service) => service,
        Err(_) => panic!("the service stayed like this: {:#?}", last.lock().unwrap()),
    }
}
