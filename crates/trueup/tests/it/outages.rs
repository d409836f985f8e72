//! Outages: a cluster that starts late, an API server that hangs and dies, a Postgres that stops
//! responding.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use trueup_api::Client;
use trueup_api::client::ClientError;
use trueup_api::client::{ServiceQuery, Terms};
use trueup_api::problem::Code;
use trueup_api::service::{Service, ServiceManifest};
use trueup_cluster::Cluster;
use trueup_local::supervise::Process;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::status::{Health, Reason, Reconciliation};
use trueup_store::Lease;

use crate::acknowledged::Acknowledged;
use crate::install::{Install, SOON, alone, free_port, shared};
use crate::load;
use crate::wait::{always, eventually};

const POSTGRES_PID: &str = "postgres/pid.json";

fn web(replicas: u32) -> ServiceManifest {
    load::web(&json!({ "image": "web:1", "replicas": replicas }))
}

/// A client of a running install with only the project `shop`.
async fn with_shop(install: &Install) -> Client {
    let client = install.client().unwrap();
    let project = serde_json::from_value(json!({ "kind": "Project", "name": "shop" }));
    client.project_put("shop", &project.unwrap()).await.unwrap();
    client
}

/// Waits until the current generation is healthy; it must never have health `error` on the way.
async fn healthy(client: &Client, name: &str) -> Service {
    eventually(&format!("{name} to be healthy"), SOON, || async {
        let service = client.service_get("shop", name).await.ok()?;
        assert_ne!(service.status.health, Health::Error, "{service:#?}");
        let current = service.status.applied_generation == Some(service.generation);
        (current && service.status.health == Health::Healthy).then_some(service)
    })
    .await
}

fn deployment(service: &Service) -> ResourceKey {
    ResourceKey::new(Kind::Deployment, &service.namespace, &service.object_name)
}

#[tokio::test]
async fn services_declared_without_a_cluster_converge_when_it_appears() {
    let real = shared().await;
    let port = free_port();
    let (kubeconfig, server) = elsewhere(&fs::read_to_string(real.kubeconfig()).unwrap(), port);
    let folder = Install::new(None);
    let file = folder.file("later.kubeconfig", &kubeconfig);
    let install = Install::new(Some(file.as_ref()));
    let up = install.up(&["--no-demo"]).await.succeeded();
    assert!(up.out.contains(&file), "the output should name the given cluster: {up:?}");
    install.trueup(&["local", "kubeconfig"]).await.failed_with(3, &[&file]);
    let client = with_shop(&install).await;

    for name in ["web", "other"] {
        let accepted = client.service_put("shop", name, &web(2), &Terms::PLAIN).await.unwrap();
        assert!(
            accepted.changed,
            "the change should be accepted although the cluster is unreachable"
        );
    }
    eventually("every service to report an unreachable cluster", SOON, || async {
        let services = client.service_list(&ServiceQuery::default()).await.unwrap().items;
        assert_eq!(services.len(), 2);
        let reported = services.iter().all(|service| {
            let status = &service.status;
            assert_eq!(
                status.health,
                Health::Unknown,
                "health must be unknown, not error: {service:#?}"
            );
            assert_eq!(service.reconciliation, Reconciliation::Pending);
            status.conditions.iter().any(|one| one.reason == Reason::ClusterUnreachable)
        });
        reported.then_some(())
    })
    .await;
    let status = install.trueup(&["status", "-o", "json"]).await.succeeded().json().remove(0);
    assert_eq!(status["clusters"][0]["reachability"], "unreachable", "{status:#}");
    let listed = install.trueup(&["get"]).await.succeeded();
    assert!(!listed.out.contains("error"), "{listed:?}");

    // The cluster becomes reachable.
    let mut cluster = JoinSet::new();
    cluster.spawn(forward(port, server));
    for name in ["web", "other"] {
        healthy(&client, name).await;
    }
    install.reachable().await;
}

/// The kubeconfig with another port, and the original port.
fn elsewhere(kubeconfig: &str, port: u16) -> (String, u16) {
    let before = "https://127.0.0.1:";
    let at = kubeconfig.find(before).unwrap() + before.len();
    let digits = kubeconfig[at..].chars().take_while(char::is_ascii_digit).count();
    let real = &kubeconfig[at..at + digits];
    let server = real.parse().unwrap();
    (kubeconfig.replace(&format!("{before}{real}"), &format!("{before}{port}")), server)
}

/// Forwards connections from one local port to another while polled.
async fn forward(port: u16, server: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let mut connections = JoinSet::new();
    loop {
        let (mut inside, _) = listener.accept().await.unwrap();
        connections.spawn(async move {
            if let Ok(mut outside) = TcpStream::connect(("127.0.0.1", server)).await {
                // Either side may close the connection at any time.
                tokio::io::copy_bidirectional(&mut inside, &mut outside).await.ok();
            }
        });
    }
}

#[tokio::test]
async fn change_during_api_server_outage_converges_after_restart() {
    let install = alone().await;
    let (client, mut acknowledged) = (install.client().unwrap(), Acknowledged::default());
    let first = client.service_put("shop", "patient", &web(1), &Terms::PLAIN).await.unwrap();
    acknowledged.put(&web(1), &first);
    let service = healthy(&client, "patient").await;

    // It hangs first, then it is killed.
    let server = api_server(&install);
    assert!(server.signal(Signal::STOP).unwrap());
    let accepted = client.service_put("shop", "patient", &web(3), &Terms::PLAIN).await.unwrap();
    assert!(accepted.changed && accepted.service.generation == 2, "{accepted:#?}");
    acknowledged.put(&web(3), &accepted);
    always("the service is pending, not failed", Duration::from_secs(3), || async {
        let service = client.service_get("shop", "patient").await.unwrap();
        service.status.health != Health::Error && service.status.applied_generation == Some(1)
    })
    .await;
    assert!(server.signal(Signal::KILL).unwrap());

    healthy(&client, "patient").await;
    assert_ne!(
        api_server(&install),
        server,
        "the supervisor should have started another API server"
    );
    let found = install.kube().get(&deployment(&service)).await.unwrap().unwrap();
    assert_eq!(found["spec"]["replicas"], 3, "{found:#}");
    acknowledged.verify(&client, "shop").await;
    install.trueup(&["delete", "patient", "--wait", "--yes"]).await.succeeded();
}

fn api_server(install: &Install) -> Process {
    let servers = install.processes();
    let (pid, _) = servers.iter().find(|(_, line)| line.contains(" kube-apiserver ")).unwrap();
    Process::find(*pid).unwrap()
}

#[tokio::test]
async fn postgres_outage_stops_writes_after_the_lease_and_drift_is_repaired_later() {
    let real = shared().await;
    let install = Install::new(Some(&real.kubeconfig()));
    install.up(&["--no-demo"]).await.succeeded();
    let client = with_shop(&install).await;
    client.service_put("shop", "web", &web(1), &Terms::PLAIN).await.unwrap();
    let service = healthy(&client, "web").await;
    let (kube, key) = (install.kube(), deployment(&service));

    // Postgres is killed and cannot be restarted.
    let postgres = install.process(POSTGRES_PID).unwrap();
    let marker = install.dir().join("postgres/data/PG_VERSION");
    let hidden = marker.with_extension("hidden");
    fs::rename(&marker, &hidden).unwrap();
    assert!(postgres.signal(Signal::KILL).unwrap());
    let refused = eventually("changes to be refused", SOON, || async {
        match client.service_put("shop", "web", &web(1), &Terms::PLAIN).await {
            Ok(unchanged) => {
                assert!(!unchanged.changed);
                None
            }
            Err(ClientError::Problem(problem)) => Some(problem),
            Err(error) => panic!("{error}"),
        }
    })
    .await;
    assert_eq!((refused.status, refused.code), (503, Code::DatabaseUnavailable));
    install.trueup_once(&["status"]).await.failed_with(1, &["database is unavailable"]);
    nothing_is_written_after_the_lease(&kube, &key).await;

    fs::rename(&hidden, &marker).unwrap();
    repaired(&client, &kube, &key).await;
}

#[tokio::test]
async fn hanging_postgres_stops_writes_after_the_lease() {
    let real = shared().await;
    let install = Install::new(Some(&real.kubeconfig()));
    install.up(&["--no-demo"]).await.succeeded();
    let client = with_shop(&install).await;
    client.service_put("shop", "web", &web(1), &Terms::PLAIN).await.unwrap();
    let service = healthy(&client, "web").await;
    let (kube, key) = (install.kube(), deployment(&service));

    let postgres = Frozen::freeze(&install);
    nothing_is_written_after_the_lease(&kube, &key).await;
    postgres.thaw();
    repaired(&client, &kube, &key).await;
}

/// Deletes an object once the lease has expired, and checks that it is not recreated.
async fn nothing_is_written_after_the_lease(kube: &impl Cluster, key: &ResourceKey) {
    // The last renewal was just before the outage at the latest.
    tokio::time::sleep(Lease::TTL + Duration::from_secs(1)).await;
    delete_by_hand(kube, key).await;
    always("nothing is written without a lease", Duration::from_secs(4), || async {
        kube.get(key).await.unwrap().is_none()
    })
    .await;
}

/// After the outage, the deleted object is recreated and changes are accepted again.
async fn repaired(client: &Client, kube: &impl Cluster, key: &ResourceKey) {
    let found =
        eventually("the object to be back", SOON, || async { kube.get(key).await.unwrap() }).await;
    assert_eq!(found["spec"]["replicas"], 1, "{found:#}");
    eventually("changes to be accepted again", SOON, || async {
        client.service_put("shop", "web", &web(2), &Terms::PLAIN).await.ok()
    })
    .await;
    healthy(client, "web").await;
}

async fn delete_by_hand(kube: &impl Cluster, key: &ResourceKey) {
    eventually("the deployment to be deleted by hand", SOON, || async {
        let Some(object) = kube.get(key).await.unwrap() else { return Some(()) };
        let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
        // On a conflict the object's status changed; retry.
        kube.delete(key, &text("uid"), &text("resourceVersion")).await.ok();
        None
    })
    .await;
}

/// A Postgres whose processes are all stopped by SIGSTOP. Dropping this resumes them, so that they
/// can be shut down.
struct Frozen(Vec<Process>);

impl Frozen {
    fn freeze(install: &Install) -> Self {
        let postmaster = install.process(POSTGRES_PID).unwrap();
        // The postmaster first, so that it starts no new children.
        assert!(postmaster.signal(Signal::STOP).unwrap());
        let children = children(postmaster.pid());
        assert!(!children.is_empty());
        for child in &children {
            child.signal(Signal::STOP).unwrap();
        }
        Self(children.into_iter().chain([postmaster]).collect())
    }

    fn thaw(self) {
        drop(self);
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for process in &self.0 {
            process.signal(Signal::CONT).ok();
        }
    }
}

fn children(parent: u32) -> Vec<Process> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = fs::read_to_string(path).unwrap();
    text.split_ascii_whitespace().filter_map(|pid| Process::find(pid.parse().ok()?)).collect()
}
