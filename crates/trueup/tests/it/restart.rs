//! Stopped, killed and started again: nothing is left running, and nothing is lost.

use std::time::Duration;
use trueup_api::client::ServiceQuery;

use rustix::process::Signal;
use trueup_local::supervise::Process;

use crate::install::{Install, SOON, alone};
use crate::wait::eventually;

/// What is promised for the second `trueup up`.
const AGAIN: Duration = Duration::from_secs(60);

const TRUEUP_PID: &str = "trueup.pid.json";
const POSTGRES_PID: &str = "postgres/pid.json";
const KUBE_PID: &str = "kube/pid.json";

/// What a restart must not change.
async fn ids(install: &Install) -> Vec<String> {
    install.services().await.into_iter().map(|service| service.id).collect()
}

async fn kill(process: &Process) {
    assert!(process.signal(Signal::KILL).unwrap(), "it was running");
    assert!(process.gone_within(Duration::from_secs(30)).await, "SIGKILL ends it");
}

/// Declares a service, sees it healthy and takes it away again.
async fn works(install: &Install, name: &str) {
    let text = format!(
        "kind: Service\nname: {name}\nproject: shop\ntemplate: web@1\nparameters:\n  image: a:1\n"
    );
    let file = install.file("works.yaml", &text);
    install.trueup(&["apply", "-f", &file, "--wait", "--timeout", "60s"]).await.well();
    install.trueup(&["delete", name, "--wait", "--yes", "--timeout", "60s"]).await.well();
}

#[tokio::test]
async fn down_leaves_nothing_running_and_up_is_ready_in_fifteen_seconds() {
    let install = alone().await;
    let before = ids(&install).await;
    let client = install.client().unwrap();
    let heard = client.cluster_list().await.unwrap().items[0].heard_at;

    install.trueup(&["down"]).await.well();
    assert_eq!(install.processes(), [], "no process of the install is left");
    install.trueup(&["get"]).await.complains(5, &["trueup up"]);

    let up_again = async {
        install.up(&[]).await.well();
        eventually("the cluster to be heard again and all to be healthy", SOON, || async {
            let cluster = client.cluster_list().await.ok()?.items.remove(0);
            let services = client.service_list(&ServiceQuery::default()).await.ok()?.items;
            let healthy = services.iter().all(|one| one.status.health == "healthy");
            (cluster.heard_at > heard && cluster.reachability == "reachable" && healthy)
                .then_some(())
        })
        .await;
    };
    tokio::time::timeout(AGAIN, up_again).await.expect("the second start should be quick");
    assert_eq!(ids(&install).await, before);
}

#[tokio::test]
async fn a_killed_trueup_takes_its_parts_over_again() {
    let install = alone().await;
    let before = ids(&install).await;
    let parts = [POSTGRES_PID, KUBE_PID].map(|file| install.process(file).unwrap());
    let trueup = install.process(TRUEUP_PID).unwrap();
    kill(&trueup).await;
    install.trueup(&["get"]).await.complains(5, &["trueup up"]);
    assert!(parts.iter().all(Process::is_alive), "they outlive it");

    install.up(&[]).await.well();
    assert_ne!(install.process(TRUEUP_PID).unwrap(), trueup);
    install.reachable().await;
    assert_eq!([POSTGRES_PID, KUBE_PID].map(|file| install.process(file).unwrap()), parts);
    assert_eq!(ids(&install).await, before);
    works(&install, "after-kill").await;
}

#[tokio::test]
async fn what_a_killed_trueup_left_is_stopped_by_down() {
    let install = alone().await;
    kill(&install.process(TRUEUP_PID).unwrap()).await;
    install.trueup(&["down"]).await.well();
    assert_eq!(install.processes(), [], "no process of the install is left");
}

#[tokio::test]
async fn a_killed_postgres_is_started_again_and_nothing_is_lost() {
    let install = alone().await;
    let before = ids(&install).await;
    let (trueup, postgres) = (install.process(TRUEUP_PID), install.process(POSTGRES_PID).unwrap());
    kill(&postgres).await;
    eventually("another Postgres", SOON, || async {
        install.process(POSTGRES_PID).filter(|now| *now != postgres && now.is_alive())
    })
    .await;
    let client = install.client().unwrap();
    let after = eventually("the services to be read again", SOON, || async {
        client.service_list(&ServiceQuery::default()).await.ok()
    })
    .await;
    assert_eq!(after.items.into_iter().map(|one| one.id).collect::<Vec<_>>(), before);
    assert_eq!(install.process(TRUEUP_PID), trueup, "Trueup itself went on");
    works(&install, "after-postgres").await;
}
