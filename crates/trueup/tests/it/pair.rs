//! Two replicas of one Trueup on a Postgres and a cluster that neither of them keeps.

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

use crate::acknowledged::Acknowledged;
use crate::install::{Install, SOON, Said};
use crate::wait::{eventually, promised};

/// The project that everything is in.
pub(crate) const PROJECT: &str = "shop";
/// G7: how long it may take until another replica works on the cluster.
const TAKEOVER: Duration = Duration::from_secs(30);
/// For how long an answer is waited for: a stopped process gives none.
const ANSWER: Duration = Duration::from_secs(10);

/// Two installs with one key, and where their Postgres is.
pub(crate) struct Pair {
    pub(crate) replicas: [Install; 2],
    postgres: Options,
    database: String,
}

impl Pair {
    /// Both are up when this returns, and their project is declared.
    pub(crate) async fn start(cluster: &Path) -> Self {
        let replicas = [Install::new(Some(cluster)), Install::new(Some(cluster))];
        // In the folder of the first one: whatever takes that down takes this along.
        let postgres = Options { dir: replicas[0].dir().join("postgres"), durable: true };
        let server = Postgres::adopt_or_start(&postgres, &Progress::new()).await.unwrap();
        let pair = Self { replicas, postgres, database: server.admin_url() };
        pair.up(0).await.well();
        pair.up(1).await.complains(1, &["another master key", "copy master.key"]);
        let [first, second] = &pair.replicas;
        fs::copy(first.dir().join("master.key"), second.dir().join("master.key")).unwrap();
        pair.up(1).await.well();
        let project = serde_json::from_value(json!({ "kind": "Project", "name": PROJECT }));
        pair.client(0).project_put(PROJECT, &project.unwrap()).await.unwrap();
        pair
    }

    /// Starts one of them in the background.
    pub(crate) async fn up(&self, which: usize) -> Said {
        self.replicas[which].up(&["--no-demo", "--database-url", &self.database]).await
    }

    pub(crate) fn client(&self, which: usize) -> Client {
        self.replicas[which].client().expect("it should have been up")
    }

    fn operator(&self, which: usize) -> Client {
        let install = &self.replicas[which];
        let token = fs::read_to_string(install.dir().join("operator.token")).unwrap();
        Client::new(&format!("http://127.0.0.1:{}", install.port()), token.trim()).unwrap()
    }

    /// Sends a signal to one of them.
    pub(crate) fn signal(&self, which: usize, signal: Signal) {
        assert!(self.process(which).signal(signal).unwrap(), "it should be running");
    }

    /// Ends one of them as a crash would.
    pub(crate) async fn kill(&self, which: usize) {
        let process = self.process(which);
        assert!(process.signal(Signal::KILL).unwrap(), "it should be running");
        assert!(process.gone_within(SOON).await, "SIGKILL ends it");
    }

    pub(crate) fn process(&self, which: usize) -> Process {
        self.replicas[which].process("trueup.pid.json").expect("it should be up")
    }

    /// Ends Postgres as a crash would, and starts it again.
    pub(crate) async fn crash_postgres(&self) {
        let server = Postgres::adopt_or_start(&self.postgres, &Progress::new()).await.unwrap();
        server.kill().await.unwrap();
        let again = Postgres::adopt_or_start(&self.postgres, &Progress::new()).await.unwrap();
        assert_eq!(again.admin_url(), self.database, "it should be where it was");
    }

    /// What one of them counts, or nothing when it does not answer.
    async fn metrics(&self, which: usize) -> Option<String> {
        let operator = self.operator(which);
        let asked = operator.raw("GET", "/metrics", &[], None);
        let answer = tokio::time::timeout(ANSWER, asked).await.ok()?.ok()?;
        (answer.status == 200).then(|| String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// Whether one of them works on the cluster, as it says; nothing when it does not answer.
    pub(crate) async fn works(&self, which: usize) -> Option<bool> {
        Some(count(&self.metrics(which).await?, "trueup_lease_held", &[]) == 1)
    }

    /// How many writes one of them sent to the cluster since it was started.
    pub(crate) async fn writes(&self, which: usize) -> u64 {
        let metrics = eventually("its counters", SOON, || self.metrics(which)).await;
        let verbs = [r#"verb="apply""#, r#"verb="patch""#, r#"verb="delete""#];
        count(&metrics, "trueup_cluster_calls_total", &verbs)
    }

    /// The one that works on the cluster, once one of them says so.
    pub(crate) async fn holder(&self) -> usize {
        eventually("one of them to work", SOON, || async {
            for which in 0..self.replicas.len() {
                if self.works(which).await == Some(true) {
                    return Some(which);
                }
            }
            None
        })
        .await
    }

    /// Waits until this one works on the cluster, and reports how long that took.
    pub(crate) async fn taken_over_by(&self, which: usize) {
        let taken_over = eventually("the other replica to take over", SOON, || async {
            self.works(which).await.filter(|works| *works).map(drop)
        });
        promised("another replica takes over", TAKEOVER, taken_over).await;
    }

    /// Waits until this one answers and knows that it does not work on the cluster.
    pub(crate) async fn stands_by(&self, which: usize) {
        eventually("it to stand by", SOON, || async {
            self.works(which).await.filter(|works| !works).map(drop)
        })
        .await;
    }

    /// Waits until everything that was promised is true, whomever one asks.
    pub(crate) async fn settled(&self) -> Vec<Service> {
        self.settled_at(0).await;
        let seen = self.settled_at(1).await;
        eventually("every wake to be done with", SOON, || async {
            let wakes = self.operator(0).wake_list(&WakeQuery::default()).await.ok()?.items;
            wakes.is_empty().then_some(())
        })
        .await;
        seen
    }

    /// The same, asked of this one alone.
    pub(crate) async fn settled_at(&self, which: usize) -> Vec<Service> {
        let client = self.client(which);
        eventually("everything to be settled", SOON, || async {
            let services = client.service_list(&ServiceQuery::default()).await.ok()?.items;
            services.iter().all(is_settled).then_some(services)
        })
        .await
    }

    /// Every event, oldest first, as this one tells them.
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

    /// Every acknowledged change is there as it was asked for, once, and nothing is told twice; both
    /// replicas tell the same.
    pub(crate) async fn judge_events(
        &self,
        acknowledged: &Acknowledged,
        services: &[Service],
    ) -> usize {
        for which in [0, 1] {
            acknowledged.judge(&self.client(which), PROJECT).await;
        }
        let events = self.events(0).await;
        assert_eq!(hashes(&events), hashes(&self.events(1).await), "there is one history");
        let places: Vec<String> = events.iter().map(|event| event.sequence.clone()).collect();
        let expected: Vec<String> = (1..=events.len()).map(|place| place.to_string()).collect();
        assert_eq!(places, expected, "positions have no gaps");
        for service in services {
            let own = |kind: &str| {
                let kind = format!("dev.trueup.{kind}.v1");
                events.iter().filter(move |one| one.subject == service.id && one.kind == kind)
            };
            let queued: Vec<i64> = own("ServiceQueued").map(|event| event.generation).collect();
            let all: Vec<i64> = (1..=service.generation).collect();
            assert_eq!(queued, all, "{}: each generation is accepted once", service.name);
            let mut created: BTreeMap<String, usize> = BTreeMap::new();
            for event in own("ResourceCreated") {
                *created.entry(event.data.to_string()).or_default() += 1;
            }
            created.retain(|_, times| *times > 1);
            assert!(created.is_empty(), "{}: told twice: {created:#?}", service.name);
        }
        for replica in &self.replicas {
            replica.trueup(&["audit", "verify"]).await.well();
        }
        events.len()
    }

    /// Whatever one of them accepts, streams of both tell, whoever sealed it.
    pub(crate) async fn judge_streams(&self) {
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
                let told = tokio::time::timeout(SOON, stream.next()).await;
                let told = told.expect("a stream should tell").unwrap().unwrap();
                assert_eq!(told.data["name"], name, "{told:?}");
            }
        }
    }

    /// Looks at every service afresh: what is true is not written again, by anybody.
    pub(crate) async fn judge_quiet(&self, kube: &Kube, services: &[Service]) {
        let namespace = &services[0].namespace;
        let (before, sent) = (versions(kube, namespace).await, self.sent().await);
        assert!(before.len() > services.len(), "{before:?}");
        for (index, service) in services.iter().enumerate() {
            let asked = ["-p", PROJECT, "reconcile", &service.name, "--wait"];
            self.replicas[index % 2].trueup(&asked).await.well();
        }
        assert_eq!(versions(kube, namespace).await, before, "nothing is written any more");
        assert_eq!(self.sent().await, sent, "nothing is sent any more");
    }

    async fn sent(&self) -> u64 {
        self.writes(0).await + self.writes(1).await
    }
}

fn is_settled(service: &Service) -> bool {
    let current = service.status.applied_generation == Some(service.generation);
    current && service.status.health == "healthy" && service.reconciliation == "settled"
}

fn hashes(events: &[CloudEvent]) -> Vec<&str> {
    events.iter().map(|event| event.hash.as_str()).collect()
}

/// The sum of a metric's values; where labels are named, of those with one of them.
fn count(metrics: &str, name: &str, labels: &[&str]) -> u64 {
    metrics
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))
        .filter(|line| labels.is_empty() || labels.iter().any(|label| line.contains(label)))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

/// The version of every object in a namespace that Trueup writes and nobody else does: into the others,
/// controllers and nodes report.
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
