//! Killed, stopped and started again: nothing is left running, and nothing is lost.

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use rustix::process::Signal;
use trueup_api::Client;
use trueup_api::client::ServiceQuery;
use trueup_local::supervise::Process;

use crate::install::{Install, SOON, alone};
use crate::wait::{eventually, promised};

/// What is promised for the second `trueup up`.
const AGAIN: Duration = Duration::from_secs(15);

const TRUEUP_PID: &str = "trueup.pid.json";
const POSTGRES_PID: &str = "postgres/pid.json";
const KUBE_PID: &str = "kube/pid.json";

/// One story on one install: each start and stop of a Kubernetes takes seconds.
#[tokio::test]
async fn killed_and_stopped_parts_come_back_with_every_service() {
    let install = alone().await;
    let before = ids(&install).await;
    killed_trueup_takes_its_parts_over(&install).await;
    assert_eq!(ids(&install).await, before);
    killed_postgres_is_started_again(&install).await;
    assert_eq!(ids(&install).await, before);
    works(&install).await;

    let client = install.client().unwrap();
    let heard = client.cluster_list().await.unwrap().items[0].heard_at;
    down_ends_streams_and_leaves_nothing_running(&install, &client).await;
    up_again(&install, heard).await;
    assert_eq!(ids(&install).await, before);

    // What a killed Trueup left is stopped by `down`, too.
    kill(&install.process(TRUEUP_PID).unwrap()).await;
    install.trueup(&["down"]).await.well();
    assert_eq!(install.processes(), [], "no process of the install is left");
}

/// What a restart must not change.
async fn ids(install: &Install) -> Vec<String> {
    let client = install.client().unwrap();
    let services = eventually("the services to be read", SOON, || async {
        client.service_list(&ServiceQuery::default()).await.ok()
    });
    services.await.items.into_iter().map(|service| service.id).collect()
}

async fn kill(process: &Process) {
    assert!(process.signal(Signal::KILL).unwrap(), "it was running");
    assert!(process.gone_within(SOON).await, "SIGKILL ends it");
}

/// Declares a service, sees it healthy and takes it away again.
async fn works(install: &Install) {
    let text = "kind: Service\nname: works\nproject: shop\ntemplate: web@1\n\
                parameters:\n  image: a:1\n";
    let file = install.file("works.yaml", text);
    install.trueup(&["apply", "-f", &file, "--wait"]).await.well();
    install.trueup(&["delete", "works", "--wait", "--yes"]).await.well();
}

async fn killed_trueup_takes_its_parts_over(install: &Install) {
    let parts = [POSTGRES_PID, KUBE_PID].map(|file| install.process(file).unwrap());
    let trueup = install.process(TRUEUP_PID).unwrap();
    kill(&trueup).await;
    install.trueup(&["get"]).await.complains(5, &["trueup up"]);
    assert!(parts.iter().all(Process::is_alive), "they outlive it");

    install.up(&[]).await.well();
    assert_ne!(install.process(TRUEUP_PID).unwrap(), trueup);
    install.reachable().await;
    assert_eq!([POSTGRES_PID, KUBE_PID].map(|file| install.process(file).unwrap()), parts);
}

async fn killed_postgres_is_started_again(install: &Install) {
    let (trueup, postgres) = (install.process(TRUEUP_PID), install.process(POSTGRES_PID).unwrap());
    kill(&postgres).await;
    eventually("another Postgres", SOON, || async {
        install.process(POSTGRES_PID).filter(|now| *now != postgres && now.is_alive())
    })
    .await;
    ids(install).await;
    assert_eq!(install.process(TRUEUP_PID), trueup, "Trueup itself went on");
}

/// `trueup down` lets streams end, leaves no answer half written, and nothing else either.
async fn down_ends_streams_and_leaves_nothing_running(install: &Install, client: &Client) {
    let service = install.services().await.remove(0);
    let mut watch = client.service_watch(&service.project, &service.id, None).await.unwrap();
    assert!(watch.next().await.is_some_and(|event| event.is_ok()));
    let (down, ()) = tokio::join!(install.trueup(&["down"]), async {
        // Whatever was on its way is told whole, and then it is over.
        while watch.next().await.is_some_and(|event| event.is_ok()) {}
    });
    down.well();
    assert_eq!(install.processes(), [], "no process of the install is left");
    install.trueup(&["get"]).await.complains(5, &["trueup up"]);
    eventually("the port to be free", SOON, || async {
        std::net::TcpListener::bind(("127.0.0.1", install.port())).ok().map(drop)
    })
    .await;
}

/// Starts it again, and waits until the cluster was heard after that time and all is healthy.
async fn up_again(install: &Install, heard: Option<Timestamp>) {
    let client = install.client().unwrap();
    let up = async {
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
    promised("the second `trueup up` is ready", AGAIN, Box::pin(up)).await;
}
