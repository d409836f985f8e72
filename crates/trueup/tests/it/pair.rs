//! Two replicas that share an external Postgres and cluster.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use rustix::process::Signal;
use serde_json::json;
use trueup_api::Client;
use trueup_api::client::{ServiceQuery, WakeQuery};
use trueup_api::event::{CloudEvent, EventFilter, EventPage};
use trueup_api::service::Service;
use trueup_cluster::kube::Kube;
use trueup_cluster::{Cluster, Scope};
use trueup_local::Progress;
use trueup_local::postgres::{Options, Postgres};
use trueup_local::supervise::Process;
use trueup_model::key::Kind;
use trueup_model::status::{Health, Reconciliation};

use crate::acknowledged::Acknowledged;
use crate::install::{CommandOutput, Install, SOON};
use crate::wait::{eventually, report_duration};

/// The project of all services.
pub(crate) const PROJECT: &str = "shop";
/// The target for a takeover of the lease by the other replica.
const TAKEOVER: Duration = Duration::from_secs(30);
/// The timeout of a request: a stopped process does not respond.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Two installs with the same master key, and their Postgres.
pub(crate) struct Pair {
    pub(crate) replicas: [Install; 2],
    postgres: Options,
    database: String,
}

impl Pair {
    /// Starts both replicas and declares the project.
    pub(crate) async fn start(cluster: &Path) -> Self {
        let replicas = [Install::new(Some(cluster)), Install::new(Some(cluster))];
        // In the first install's directory, so that it is removed with it.
        let postgres = Options { dir: replicas[0].dir().join("postgres"), durable: true };
        let server = Postgres::adopt_or_start(&postgres, &Progress::new()).await.unwrap();
        let pair = Self { replicas, postgres, database: server.admin_url() };
        pair.up(0).await.succeeded();
        pair.up(1).await.failed_with(1, &["another master key", "copy master.key"]);
        let [first, second] = &pair.replicas;
        fs::copy(first.dir().join("master.key"), second.dir().join("master.key")).unwrap();
        pair.up(1).await.succeeded();
        let project = serde_json::from_value(json!({ "kind": "Project", "name": PROJECT }));
        pair.client(0).project_put(PROJECT, &project.unwrap()).await.unwrap();
        pair
    }

    /// Starts a replica in the background.
    pub(crate) async fn up(&self, which: usize) -> CommandOutput {
        self.replicas[which].up(&["--no-demo", "--database-url", &self.database]).await
    }

    pub(crate) fn client(&self, which: usize) -> Client {
        self.replicas[which].client().expect("the replica should have been up")
    }

    fn operator(&self, which: usize) -> Client {
        let install = &self.replicas[which];
        let token = fs::read_to_string(install.dir().join("operator.token")).unwrap();
        Client::new(&format!("http://127.0.0.1:{}", install.port()), token.trim()).unwrap()
    }

    /// Sends a signal to a replica.
    pub(crate) fn signal(&self, which: usize, signal: Signal) {
        assert!(self.process(which).signal(signal).unwrap(), "the replica should be running");
    }

    /// Kills a replica.
    pub(crate) async fn kill(&self, which: usize) {
        let process = self.process(which);
        assert!(process.signal(Signal::KILL).unwrap(), "the replica should be running");
        assert!(process.gone_within(SOON).await, "SIGKILL should end the replica");
    }

    pub(crate) fn process(&self, which: usize) -> Process {
        self.replicas[which].process("trueup.pid.json").expect("the replica should be up")
    }

    /// Kills Postgres and restarts it.
    pub(crate) async fn crash_postgres(&self) {
        let server = Postgres::adopt_or_start(&self.postgres, &Progress::new()).await.unwrap();
        server.kill().await.unwrap();
        let again = Postgres::adopt_or_start(&self.postgres, &Progress::new()).await.unwrap();
        assert_eq!(again.admin_url(), self.database, "Postgres should have the same address");
    }

    /// The metrics of a replica; `None` if it does not respond.
    async fn metrics(&self, which: usize) -> Option<String> {
        let operator = self.operator(which);
        let request = operator.raw("GET", "/metrics", &[], None);
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, request).await.ok()?.ok()?;
        (answer.status == 200).then(|| String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// Whether a replica holds the lease, by its metrics; `None` if it does not respond.
    pub(crate) async fn holds_lease(&self, which: usize) -> Option<bool> {
        Some(count(&self.metrics(which).await?, "trueup_lease_held", &[]) == 1)
    }

    /// The number of writes that a replica sent to the cluster since its start.
    pub(crate) async fn writes(&self, which: usize) -> u64 {
        let metrics = eventually("the metrics", SOON, || self.metrics(which)).await;
        let verbs = [r#"verb="apply""#, r#"verb="patch""#, r#"verb="delete""#];
        count(&metrics, "trueup_cluster_calls_total", &verbs)
    }

    /// Waits until a replica holds the lease, and returns it.
    pub(crate) async fn holder(&self) -> usize {
        eventually("a replica to hold the lease", SOON, || async {
            for which in 0..self.replicas.len() {
                if self.holds_lease(which).await == Some(true) {
                    return Some(which);
                }
            }
            None
        })
        .await
    }

    /// Waits until this replica holds the lease, and reports how long that took.
    pub(crate) async fn taken_over_by(&self, which: usize) {
        let taken_over = eventually("the other replica to take over", SOON, || async {
            self.holds_lease(which).await.filter(|holds| *holds).map(drop)
        });
        report_duration("takeover by the other replica", TAKEOVER, taken_over).await;
    }

    /// Waits until this replica responds and does not hold the lease.
    pub(crate) async fn stands_by(&self, which: usize) {
        eventually("the replica to stand by", SOON, || async {
            self.holds_lease(which).await.filter(|holds| !holds).map(drop)
        })
        .await;
    }

    /// Waits until all services are settled on both replicas and the work queue is empty.
    pub(crate) async fn settled(&self) -> Vec<Service> {
        self.settled_at(0).await;
        let seen = self.settled_at(1).await;
        eventually("the work queue to be empty", SOON, || async {
            let wakes = self.operator(0).wake_list(&WakeQuery::default()).await.ok()?.items;
            wakes.is_empty().then_some(())
        })
        .await;
        seen
    }

    /// Waits until all services are settled on this replica.
    pub(crate) async fn settled_at(&self, which: usize) -> Vec<Service> {
        let client = self.client(which);
        eventually("all services to be settled", SOON, || async {
            let services = client.service_list(&ServiceQuery::default()).await.ok()?.items;
            services.iter().all(is_settled).then_some(services)
        })
        .await
    }

    /// All events of this replica, oldest first.
    async fn events(&self, which: usize) -> Vec<CloudEvent> {
        let (client, mut events, mut after) = (self.client(which), Vec::new(), None);
        loop {
            let page = EventPage::After(after);
            let page = client.event_list(&EventFilter::default(), &page, Some(200)).await.unwrap();
            if page.items.is_empty() {
                return events;
            }
            events.extend(page.items);
            after = Some(page.next);
        }
    }

    /// Verifies that every acknowledged change is stored once with its content, and that both
    /// replicas return the same events without duplicates.
    pub(crate) async fn verify_events(
        &self,
        acknowledged: &Acknowledged,
        services: &[Service],
    ) -> usize {
        for which in [0, 1] {
            acknowledged.verify(&self.client(which), PROJECT).await;
        }
        let events = self.events(0).await;
        assert_eq!(
            hashes(&events),
            hashes(&self.events(1).await),
            "both replicas should return the same events"
        );
        let places: Vec<String> = events.iter().map(|event| event.sequence.clone()).collect();
        let expected: Vec<String> = (1..=events.len()).map(|place| place.to_string()).collect();
        assert_eq!(places, expected, "positions should have no gaps");
        for service in services {
            let own = |kind: &str| {
                let kind = format!("dev.trueup.{kind}.v1");
                events.iter().filter(move |one| one.subject == service.id && one.kind == kind)
            };
            let queued: Vec<i64> = own("ServiceQueued").map(|event| event.generation).collect();
            let all: Vec<i64> = (1..=service.generation).collect();
            assert_eq!(queued, all, "{}: each generation should be accepted once", service.name);
            let mut created: BTreeMap<String, usize> = BTreeMap::new();
            for event in own("ResourceCreated") {
                *created.entry(event.data.to_string()).or_default() += 1;
            }
            created.retain(|_, times| *times > 1);
            assert!(created.is_empty(), "{}: duplicate events: {created:#?}", service.name);
        }
        for replica in &self.replicas {
            replica.trueup(&["audit", "verify"]).await.succeeded();
        }
        events.len()
    }

    /// Verifies that the streams of both replicas deliver a change that either one accepts.
    pub(crate) async fn verify_streams(&self) {
        let filter = EventFilter { kind: Some("VariableSet".to_owned()), ..EventFilter::default() };
        let mut streams = Vec::new();
        for which in [0, 1] {
            streams.push(self.client(which).event_watch(&filter, None).await.unwrap());
        }
        for which in [0, 1] {
            let name = format!("SET_BY_{which}");
            let body = serde_json::from_value(json!({ "value": "1" })).unwrap();
            self.client(which).variable_put(PROJECT, &name, &body).await.unwrap();
            for stream in &mut streams {
                let event = tokio::time::timeout(SOON, stream.next()).await;
                let event = event.expect("the stream should deliver an event").unwrap().unwrap();
                assert_eq!(event.data["name"], name, "{event:?}");
            }
        }
    }

    /// Reconciles every service and verifies that nothing is written.
    pub(crate) async fn verify_quiet(&self, kube: &Kube, services: &[Service]) {
        let namespace = &services[0].namespace;
        let (before, sent) = (versions(kube, namespace).await, self.sent().await);
        assert!(before.len() > services.len(), "{before:?}");
        for (index, service) in services.iter().enumerate() {
            let args = ["-p", PROJECT, "reconcile", &service.name, "--wait"];
            self.replicas[index % 2].trueup(&args).await.succeeded();
        }
        assert_eq!(versions(kube, namespace).await, before, "no object should be written");
        assert_eq!(self.sent().await, sent, "no write should be sent");
    }

    async fn sent(&self) -> u64 {
        self.writes(0).await + self.writes(1).await
    }
}

fn is_settled(service: &Service) -> bool {
    let current = service.status.applied_generation == Some(service.generation);
    current
        && service.status.health == Health::Healthy
        && service.reconciliation == Reconciliation::Settled
}

fn hashes(events: &[CloudEvent]) -> Vec<&str> {
    events.iter().map(|event| event.hash.as_str()).collect()
}

/// The sum of a metric's values; with labels, of those that have one of them.
fn count(metrics: &str, name: &str, labels: &[&str]) -> u64 {
    metrics
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))
        .filter(|line| labels.is_empty() || labels.iter().any(|label| line.contains(label)))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

/// The resource version of every object in a namespace of the kinds that only Trueup writes:
/// controllers and nodes report status into the others.
pub(crate) async fn versions(kube: &Kube, namespace: &str) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for kind in [Kind::ConfigMap, Kind::Secret, Kind::Service, Kind::NetworkPolicy] {
        for object in kube.list(kind, Scope::Ours).await.unwrap().objects {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            if text("namespace") == namespace {
                let key = format!("{kind}/{}", text("name"));
                versions.insert(key, text("resourceVersion").to_owned());
            }
        }
    }
    versions
}
