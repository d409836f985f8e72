//! Kills, stops and restarts: no process is left running and no service is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use rustix::process::Signal;
use sqlx::{Connection, PgConnection};
use trueup_api::Client;
use trueup_api::client::ServiceQuery;
use trueup_local::Progress;
use trueup_local::postgres::{Options, Postgres};
use trueup_local::supervise::Process;
use trueup_model::cluster::Reachability;
use trueup_model::status::Health;

use crate::install::{Install, SOON, alone};
use crate::wait::{eventually, report_duration};

/// The target for the second `trueup up`.
const SECOND_UP: Duration = Duration::from_secs(15);

const TRUEUP_PID: &str = "trueup.pid.json";
const POSTGRES_PID: &str = "postgres/pid.json";
const KUBE_PID: &str = "kube/pid.json";

/// One test on one install: each start and stop of Kubernetes takes seconds.
#[tokio::test]
async fn killed_and_stopped_processes_restart_with_every_service() {
    let install = alone().await;
    let before = ids(&install).await;
    killed_trueup_takes_its_parts_over(&install).await;
    assert_eq!(ids(&install).await, before);
    killed_postgres_is_started_again(&install).await;
    assert_eq!(ids(&install).await, before);
    works(&install).await;

    let client = install.client().unwrap();
    let last_seen = client.cluster_list().await.unwrap().items[0].heard_at;
    down_ends_streams_and_leaves_nothing_running(&install, &client).await;
    up_again(&install, last_seen).await;
    assert_eq!(ids(&install).await, before);

    // `down` also stops what a killed Trueup left running.
    kill(&install.process(TRUEUP_PID).unwrap()).await;
    install.trueup(&["down"]).await.succeeded();
    assert_eq!(install.processes(), [], "no process of the install should be left");
    // L2: whoever listens on the port from now on is not sent the owner's token.
    assert!(!install.dir().join("client.json").exists(), "its token is of a server that is down");
}

/// The ids of all services, which a restart must not change.
async fn ids(install: &Install) -> Vec<String> {
    let client = install.client().unwrap();
    let services = eventually("the services to be read", SOON, || async {
        client.service_list(&ServiceQuery::default()).await.ok()
    });
    services.await.items.into_iter().map(|service| service.id).collect()
}

async fn kill(process: &Process) {
    assert!(process.signal(Signal::KILL).unwrap(), "the process should be running");
    assert!(process.gone_within(SOON).await, "SIGKILL should end the process");
}

/// Declares a service, waits until it is healthy and deletes it.
async fn works(install: &Install) {
    let text = "kind: Service\nname: works\nproject: shop\ntemplate: web@1\n\
                parameters:\n  image: a:1\n";
    let file = install.file("works.yaml", text);
    install.trueup(&["apply", "-f", &file, "--wait"]).await.succeeded();
    install.trueup(&["delete", "works", "--wait", "--yes"]).await.succeeded();
}

/// The stored passwords of Trueup's roles. Setting a password stores another salt, even if it is
/// the same password.
async fn stored_passwords(install: &Install) -> Vec<String> {
    let options = Options { dir: install.dir().join("postgres"), durable: true };
    let server = Postgres::adopt_or_start(&options, &Progress::new()).await.unwrap();
    let mut admin = PgConnection::connect(&server.admin_url()).await.unwrap();
    let stored = "select rolpassword from pg_authid where rolname like 'trueup%' order by rolname";
    sqlx::query_scalar(stored).fetch_all(&mut admin).await.unwrap()
}

async fn killed_trueup_takes_its_parts_over(install: &Install) {
    let passwords = stored_passwords(install).await;
    assert_eq!(passwords.len(), 3);
    let parts = [POSTGRES_PID, KUBE_PID].map(|file| install.process(file).unwrap());
    let trueup = install.process(TRUEUP_PID).unwrap();
    kill(&trueup).await;
    install.trueup(&["get"]).await.failed_with(5, &["trueup up"]);
    assert!(parts.iter().all(Process::is_alive), "Postgres and Kubernetes should outlive Trueup");

    install.up(&[]).await.succeeded();
    assert_ne!(install.process(TRUEUP_PID).unwrap(), trueup);
    install.reachable().await;
    assert_eq!([POSTGRES_PID, KUBE_PID].map(|file| install.process(file).unwrap()), parts);
    assert_eq!(stored_passwords(install).await, passwords, "no password should be sent again");
}

/// Where Postgres listens, by its lock file: the number in the socket's name, the folder of the
/// socket and the TCP address. Incomplete while it starts.
fn address(install: &Install) -> Vec<String> {
    let lock = fs::read_to_string(install.dir().join("postgres/data/postmaster.pid"));
    lock.unwrap_or_default().lines().skip(3).take(3).map(str::to_owned).collect()
}

async fn killed_postgres_is_started_again(install: &Install) {
    let (trueup, postgres) = (install.process(TRUEUP_PID), install.process(POSTGRES_PID).unwrap());
    let socket = install.dir().canonicalize().unwrap().join("postgres/socket");
    let private = ["5432", socket.to_str().unwrap(), ""];
    assert_eq!(address(install), private, "Postgres should have no TCP port");
    kill(&postgres).await;
    eventually("another Postgres", SOON, || async {
        install.process(POSTGRES_PID).filter(|now| *now != postgres && now.is_alive())
    })
    .await;
    ids(install).await;
    assert_eq!(install.process(TRUEUP_PID), trueup, "Trueup itself should not restart");
    assert_eq!(address(install), private, "the pools should reconnect to the same path");
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "only the account of Postgres should reach the socket");
}

/// `trueup down` ends streams cleanly and leaves no process running.
async fn down_ends_streams_and_leaves_nothing_running(install: &Install, client: &Client) {
    let service = install.services().await.remove(0);
    let mut watch = client.service_watch(&service.project, &service.id, None).await.unwrap();
    assert!(watch.next().await.is_some_and(|event| event.is_ok()));
    let (down, ()) = tokio::join!(install.trueup(&["down"]), async {
        // Events in flight are delivered, then the stream ends.
        while watch.next().await.is_some_and(|event| event.is_ok()) {}
    });
    down.succeeded();
    assert_eq!(install.processes(), [], "no process of the install should be left");
    install.trueup(&["get"]).await.failed_with(5, &["trueup up"]);
    eventually("the port to be free", SOON, || async {
        std::net::TcpListener::bind(("127.0.0.1", install.port())).ok().map(drop)
    })
    .await;
}

/// Restarts it, and waits until the cluster was seen after that time and all services are healthy.
async fn up_again(install: &Install, last_seen: Option<Timestamp>) {
    let up = async {
        install.up(&[]).await.succeeded();
        let client = install.client().unwrap();
        eventually("the cluster to be seen again and all services to be healthy", SOON, || async {
            let cluster = client.cluster_list().await.ok()?.items.remove(0);
            let services = client.service_list(&ServiceQuery::default()).await.ok()?.items;
            let healthy = services.iter().all(|one| one.status.health == Health::Healthy);
            (cluster.heard_at > last_seen
                && cluster.reachability == Reachability::Reachable
                && healthy)
                .then_some(())
        })
        .await;
    };
    report_duration("the second `trueup up` is ready", SECOND_UP, Box::pin(up)).await;
}
