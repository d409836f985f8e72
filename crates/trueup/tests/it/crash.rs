//! Process crashes at chosen points of create and delete change neither the result nor the number
//! of creates and deletes of any object.
//!
//! Every run does the same work as a reference run without crashes, while one process after the
//! other is armed with a crash point, must abort there and is replaced by the next one. The
//! `control` crate tests every point of `trueup_model::crash` in-process; here the whole process
//! dies.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use serde_json::json;
use tokio::process::Child;
use trueup_api::Client;
use trueup_api::client::{ClientError, Terms};
use trueup_api::service::Service;
use trueup_model::status::{Health, Reconciliation};

use crate::acknowledged::Acknowledged;
use crate::install::{Install, SOON, shared};
use crate::load::web;
use crate::run_result::{RunResult, normalise, objects, shown};
use crate::tally::Tally;
use crate::wait::eventually;

/// SIGABRT, which only crash points raise.
const ABORT: i32 = 6;

/// Crash points of consecutive processes while a service is created. Each process counts hits from
/// its own start, and every point is reached regardless of what earlier processes did.
const CREATION: [&str; 6] = [
    // Hit 1 is the project, hit 2 the service: written and not committed.
    "door.recorded:2",
    // The same request again: committed and not acknowledged.
    "door.accepted:1",
    "driver.claimed:1",
    // One object exists and is not recorded; then a few more.
    "executor.applied:1",
    "executor.applied:3",
    "report.recorded:1",
];

/// Crash points while it is deleted.
const DELETION: [&str; 3] = [
    // Project, service and deletion: committed and not acknowledged.
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
    for (points, result) in [(&CREATION[..], created), (&DELETION, deleted)] {
        let differences = result.differences(&reference);
        assert!(differences.is_empty(), "crashes at {points:?}: {differences:#?}");
    }
}

/// One run on its own install: a process per crash point that must die there, and a last one.
async fn run(cluster: &Path, points: &[&str]) -> RunResult {
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
            result = &mut work => {
                assert!(armed.is_none(), "{armed:?} was never reached: {result:#?}");
                return result;
            }
            status = serving.wait() => status.unwrap(),
        };
        assert_died_at(armed, died, &install);
        armed = points.next();
        serving = start(&install, armed);
    }
}

/// Starts it in the foreground, as a child of this test, to get its exit status.
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
    let stderr = std::fs::read_to_string(install.dir().join("stderr.log")).unwrap();
    assert!(armed.is_some(), "it died without a crash point: {died}: {stderr}");
    assert_eq!(died.signal(), Some(ABORT), "{armed:?}: {died}: {stderr}");
    assert!(!stderr.contains("panicked"), "it panicked instead of aborting: {stderr}");
}

/// Declares a service, waits until it is healthy, deletes it and waits for the receipt. Every
/// acknowledged change must be stored.
async fn work(install: &Install, client: &Client, tally: &Tally) -> RunResult {
    let kube = install.kube();
    let project = serde_json::from_value(json!({ "kind": "Project", "name": "shop" })).unwrap();
    retry("project", || client.project_put("shop", &project)).await;
    let mut acknowledged = Acknowledged::default();
    let manifest = web(&json!({ "image": "web:1", "replicas": 2 }));
    let declared =
        retry("service", || client.service_put("shop", "web", &manifest, &Terms::PLAIN)).await;
    acknowledged.put(&manifest, &declared);
    let id = declared.service.id;
    let healthy = until(client, &id, |one| {
        one.status.health == Health::Healthy && one.reconciliation == Reconciliation::Settled
    })
    .await;
    let alive = objects(&kube, &healthy).await;
    let deletion = retry("deletion", || client.service_delete("shop", &id, &Terms::PLAIN)).await;
    acknowledged.deleted(&deletion);
    let deleted = until(client, &id, |one| one.receipt.is_some()).await;
    acknowledged.verify(client, "shop").await;
    let gone = objects(&kube, &deleted).await;
    let counts = tally.counts(&deleted.namespace, |name| normalise(name, &deleted)).await;
    RunResult { alive, gone, shown: [shown(&healthy), shown(&deleted)], counts }
}

/// Retries a call until it is acknowledged, like a client whose server died.
async fn retry<T, F>(what: &str, mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, ClientError>>,
{
    eventually(what, SOON, || {
        let calling = call();
        async {
            match calling.await {
                Ok(answer) => Some(answer),
                Err(error) if error.is_transient() => None,
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
        Err(_) => panic!("timed out; the service was last {:#?}", last.lock().unwrap()),
    }
}
