//! A process that aborts at chosen points of create and delete: the end is the same, and so is the
//! number of creates and deletes of every object.
//!
//! A reference run without a crash says what "the same" is. Every other run does the same work while one
//! process after the other is armed with a point, must really die there and is followed by the next one,
//! and must end like the reference. All points of `trueup_model::crash` have runs of their own in
//! `control`, on a real Postgres; here the operating system takes everything away.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use serde_json::json;
use tokio::process::Child;
use trueup_api::Client;
use trueup_api::client::{ClientError, Terms};
use trueup_api::service::Service;

use crate::acknowledged::Acknowledged;
use crate::install::{Install, SOON, shared};
use crate::load::web;
use crate::story::{Story, objects, shown, tidy};
use crate::tally::Tally;
use crate::wait::eventually;

/// SIGABRT: a crash point ends the process by it, and nothing else does.
const ABORT: i32 = 6;

/// Where one process after the other dies while a service is created. Each of them counts hits from its
/// own start, and every point is reached whatever the ones before have done already.
const CREATION: [&str; 6] = [
    // Hit 1 is the project, hit 2 the service: written and not committed.
    "door.recorded:2",
    // The same request again: committed and not answered.
    "door.accepted:1",
    "driver.claimed:1",
    // One object is there and not recorded; then a few more.
    "executor.applied:1",
    "executor.applied:3",
    "report.recorded:1",
];

/// The same for its deletion.
const DELETION: [&str; 3] = [
    // Project, service and deletion: committed and not answered.
    "door.accepted:3",
    "executor.deleted:1",
    "executor.verified:1",
];

#[tokio::test]
async fn process_crashes_at_nine_points_change_neither_the_end_nor_the_number_of_writes() {
    let cluster = shared().await.kubeconfig();
    let run = |points| Box::pin(run(&cluster, points));
    let (reference, created, deleted) = tokio::join!(run(&[]), run(&CREATION), run(&DELETION));
    assert!(reference.counts.values().any(|counts| *counts == (1, 1)), "{reference:#?}");
    for (points, story) in [(&CREATION[..], created), (&DELETION, deleted)] {
        let differences = story.differences(&reference);
        assert!(differences.is_empty(), "crashes at {points:?}: {differences:#?}");
    }
}

/// One run on an install of its own: one process for each point, which must die there, and one more.
async fn run(cluster: &Path, points: &[&str]) -> Story {
    let install = Install::new(Some(cluster));
    let tally = Tally::start(install.kube()).await;
    let mut points = points.iter().copied();
    let mut armed = points.next();
    let mut serving = start(&install, armed);
    let client = eventually("Trueup to answer", SOON, || async { install.client() }).await;
    let work = work(&install, &client, &tally);
    tokio::pin!(work);
    loop {
        let died = tokio::select! {
            story = &mut work => {
                assert!(armed.is_none(), "{armed:?} was never reached: {story:#?}");
                return story;
            }
            status = serving.wait() => status.unwrap(),
        };
        assert_died_at(armed, died, &install);
        armed = points.next();
        serving = start(&install, armed);
    }
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

/// Declares a service, waits until it is healthy, deletes it and waits for the receipt. Whatever was
/// acknowledged on the way must be stored.
async fn work(install: &Install, client: &Client, tally: &Tally) -> Story {
    let kube = install.kube();
    let project = serde_json::from_value(json!({ "kind": "Project", "name": "shop" })).unwrap();
    retry("project", || client.project_put("shop", &project)).await;
    let mut acknowledged = Acknowledged::default();
    let manifest = web(&json!({ "image": "web:1", "replicas": 2 }));
    let declared =
        retry("service", || client.service_put("shop", "web", &manifest, &Terms::PLAIN)).await;
    acknowledged.put(&manifest, &declared);
    let id = declared.service.id;
    let healthy =
        until(client, &id, |one| one.status.health == "healthy" && one.reconciliation == "settled")
            .await;
    let alive = objects(&kube, &healthy).await;
    let deletion = retry("deletion", || client.service_delete("shop", &id, &Terms::PLAIN)).await;
    acknowledged.deleted(&deletion);
    let deleted = until(client, &id, |one| one.receipt.is_some()).await;
    acknowledged.judge(client, "shop").await;
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
    let waiting = eventually("the service", SOON * 3, || async {
        let service = client.service_get("shop", id).await.ok()?;
        let reached = holds(&service);
        *last.lock().unwrap() = Some(service.clone());
        reached.then_some(service)
    });
    match tokio::time::timeout(SOON * 2, waiting).await {
        Ok(service) => service,
        Err(_) => panic!("the service stayed like this: {:#?}", last.lock().unwrap()),
    }
}
