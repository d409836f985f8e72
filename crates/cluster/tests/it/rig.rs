//! An executor on a cluster, with orders as the driver would make them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use trueup_cluster::{Cluster, Executor, Fence, InFlightWindow, Notices, Parts, Scope};
use trueup_model::cluster::Routing;
use trueup_model::drift::DriftOrder;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, DeletionPermit, Order, SecretValue, ServiceBody, Unit};
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::spec::Spec;
use trueup_model::survey::Survey;
use trueup_model::{Clock, ClusterId, OrgId, ProjectId, ServiceId};
use trueup_rules::render;
use trueup_rules::render::names;
use trueup_rules::render::proof::ProofKey;
use trueup_store::DbClock;
use trueup_testkit::fake_cluster::FakeCluster;
use trueup_testkit::virtual_clock::VirtualClock;

/// A survey that some process has recorded.
pub(crate) fn recorded_survey() -> Survey {
    Survey { at: Timestamp::UNIX_EPOCH, kinds: ["Widget.example.com".to_owned()].into() }
}

/// Longer than any wait of a passing test.
pub(crate) const LONG: Duration = Duration::from_secs(180);

/// The in-flight window where the test is not about it.
const WINDOW: Duration = Duration::from_millis(20);

pub(crate) struct Rig {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) fence: Arc<Fence>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) reports: mpsc::Receiver<Report>,
    pub(crate) executor: Executor,
    pub(crate) notices: Notices,
    tasks: JoinSet<()>,
    serial: u64,
}

static SERIAL: AtomicU64 = AtomicU64::new(1);

impl Rig {
    /// An executor on a real cluster, in real time.
    pub(crate) fn start(cluster: Arc<dyn Cluster>) -> Self {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        Self::on_clock(cluster, serial, Arc::new(DbClock::unanchored()))
    }

    /// An executor on the fake cluster, in virtual time: the test's runtime should be paused
    /// (`start_paused`), so that time advances only when every task waits for it.
    pub(crate) fn fake(cluster: &FakeCluster) -> Self {
        Self::in_virtual_time(Arc::new(cluster.clone()))
    }

    /// An executor in virtual time, on any cluster.
    pub(crate) fn in_virtual_time(cluster: Arc<dyn Cluster>) -> Self {
        Self::numbered(cluster, SERIAL.fetch_add(1, Ordering::Relaxed))
    }

    /// An executor on the caller's clock, with this in-flight window.
    pub(crate) fn timed(
        cluster: Arc<dyn Cluster>,
        clock: Arc<dyn Clock>,
        window: InFlightWindow,
    ) -> Self {
        Self::with(cluster, SERIAL.fetch_add(1, Ordering::Relaxed), clock, window)
    }

    /// An executor in virtual time with ids of the caller's choice, so that runs can be compared.
    pub(crate) fn numbered(cluster: Arc<dyn Cluster>, serial: u64) -> Self {
        Self::on_clock(cluster, serial, Arc::new(VirtualClock::new()))
    }

    /// Stops, as in a crash, and starts again on the same cluster with the same ids.
    pub(crate) fn restart(mut self) -> Self {
        self.tasks.abort_all();
        let window = InFlightWindow { lasts: WINDOW, inherited: true };
        Self::with(Arc::clone(&self.cluster), self.serial, Arc::clone(&self.clock), window)
    }

    fn on_clock(cluster: Arc<dyn Cluster>, serial: u64, clock: Arc<dyn Clock>) -> Self {
        Self::with(cluster, serial, clock, InFlightWindow { lasts: WINDOW, inherited: false })
    }

    fn with(
        cluster: Arc<dyn Cluster>,
        serial: u64,
        clock: Arc<dyn Clock>,
        window: InFlightWindow,
    ) -> Self {
        let fence = Arc::new(Fence::closed(Arc::clone(&clock)));
        fence.open(clock.monotonic(), Duration::from_secs(3600));
        let (reports_in, reports) = mpsc::channel(1024);
        let mut tasks = JoinSet::new();
        let parts = Parts {
            cluster: Arc::clone(&cluster),
            proofs: proofs(),
            fence: Arc::clone(&fence),
            clock: Arc::clone(&clock),
            observer: "test".to_owned(),
            in_flight: window,
        };
        let notices = Notices::kept();
        let executor = Executor::record_updates(parts, reports_in, &notices, &mut tasks);
        Self { cluster, fence, clock, reports, executor, notices, tasks, serial }
    }

    fn id<N: trueup_model::id::Noun>(&self, salt: u8) -> trueup_model::id::Id<N> {
        Self::id_of(self.serial, salt)
    }

    fn id_of<N: trueup_model::id::Noun>(serial: u64, salt: u8) -> trueup_model::id::Id<N> {
        let run = u64::from(std::process::id()) << 20 | serial;
        let mut entropy = [salt; 10];
        entropy[2..].copy_from_slice(&run.to_be_bytes());
        trueup_model::id::Id::from_parts(
            Timestamp::from_second(1_700_000_000).expect("the test should be set up right"),
            entropy,
        )
    }

    /// The order for this rig's project.
    pub(crate) fn project(&self) -> Order {
        let project: ProjectId = self.id(1);
        self.record(Order {
            unit: Unit::Project(project),
            org: OrgId::from_uuid(project.uuid()),
            project,
            namespace: names::namespace(
                &"rig".parse().expect("the test should be set up right"),
                project,
            ),
            generation: 1,
            desired: DesiredState::Active,
            body: Body::Project,
            freeze: None,
            drift: DriftOrder::default(),
            recorded: BTreeMap::new(),
            permit: DeletionPermit::default(),
        })
    }

    /// The order to delete this rig's project, with a recorded survey of its namespace.
    pub(crate) fn project_end(&self) -> Order {
        let mut end = Order { desired: DesiredState::Deleted, generation: 2, ..self.project() };
        end.permit.survey = Some(recorded_survey());
        end
    }

    /// An order for this rig's service.
    pub(crate) fn service(&self, generation: i64, spec: Spec) -> Order {
        self.service_of(self.id(2), generation, spec)
    }

    /// An order for another service of the same name, as after the first was deleted.
    pub(crate) fn namesake(&self, generation: i64, spec: Spec) -> Order {
        // Names of objects end with the tail of an id, so that is what must differ.
        self.service_of(Self::id_of(self.serial | 1 << 19, 2), generation, spec)
    }

    fn service_of(&self, service: ServiceId, generation: i64, spec: Spec) -> Order {
        let project = self.project();
        self.record(Order {
            unit: Unit::Service(service),
            generation,
            body: Body::Service(Box::new(ServiceBody {
                object_name: names::object_name(
                    &"web".parse().expect("the test should be set up right"),
                    service,
                ),
                template: "web@1".parse().expect("the test should be set up right"),
                endpoints: Vec::new(),
                routes: Vec::new(),
                routing: Routing::default(),
                sealed: BTreeMap::new(),
                secrets: BTreeMap::from([(
                    "KEY".to_owned(),
                    SecretValue::new("s3cret".to_owned()),
                )]),
                declared_variables: spec.variables.clone(),
                spec,
            })),
            recorded: BTreeMap::new(),
            ..project
        })
    }

    /// The order to delete this rig's service.
    pub(crate) fn gone(&self, generation: i64, spec: Spec) -> Order {
        Order { desired: DesiredState::Deleted, ..self.service(generation, spec) }
    }

    /// The order with the keys of an earlier one recorded as well, as the driver makes it.
    pub(crate) fn after(earlier: &Order, mut order: Order) -> Order {
        for (key, uid) in &earlier.recorded {
            order.recorded.entry(key.clone()).or_insert_with(|| uid.clone());
        }
        for key in render::unwanted(&order) {
            order.permit.unwanted.insert(key, order.generation);
        }
        order
    }

    fn record(&self, mut order: Order) -> Order {
        order.recorded = render::keys(&order).into_iter().map(|key| (key, None)).collect();
        order
    }

    /// Sends an order and waits for a report of its generation that is as wanted.
    pub(crate) async fn order_until(
        &mut self,
        order: Order,
        wanted: fn(&Report) -> bool,
    ) -> Report {
        let (unit, generation) = (order.unit, order.generation);
        let _passed = self.executor.order(order).await;
        self.until(unit, move |report| report.generation == generation && wanted(report)).await
    }

    /// Waits for a report of this unit that is as wanted.
    pub(crate) async fn until(&mut self, unit: Unit, wanted: impl Fn(&Report) -> bool) -> Report {
        let mut seen = Vec::new();
        let found = tokio::time::timeout(LONG, async {
            while let Some(report) = self.reports.recv().await {
                if report.unit == unit && wanted(&report) {
                    return Some(report);
                }
                seen.push((report.unit, report.outcome));
            }
            None
        });
        let found = found.await.ok().flatten();
        assert!(found.is_some(), "no such report of {unit}; seen: {seen:#?}");
        found.expect("a report should exist, as just asserted")
    }

    /// Orders project and service and waits until the service is healthy.
    pub(crate) async fn running(&mut self, spec: Spec) -> Report {
        self.order_until(self.project(), converged).await;
        self.order_until(self.service(1, spec), healthy).await
    }

    /// The keys of a service's pods that were seen last, in name order.
    pub(crate) async fn pods(&self, order: &Order) -> Vec<ResourceKey> {
        let list = self.cluster.list(Kind::Pod, Scope::Ours).await.expect("pods should be listed");
        let text =
            |pod: &Value, name: &str| pod["metadata"][name].as_str().unwrap_or_default().to_owned();
        list.objects
            .iter()
            .filter(|pod| text(pod, "namespace") == order.namespace)
            .map(|pod| ResourceKey::new(Kind::Pod, &order.namespace, &text(pod, "name")))
            .collect()
    }

    /// The live object at this key.
    pub(crate) async fn get(&self, key: &ResourceKey) -> Option<Value> {
        self.cluster.get(key).await.expect("the cluster should answer")
    }

    /// Waits until this condition holds.
    pub(crate) async fn holds(&self, wanted: impl Fn() -> bool) {
        let reached = tokio::time::timeout(LONG, async {
            while !wanted() {
                self.clock.sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(reached.await.is_ok(), "the condition was not reached in time");
    }

    /// Waits until the live object at this key is as wanted.
    pub(crate) async fn get_until(
        &self,
        key: &ResourceKey,
        wanted: impl Fn(Option<&Value>) -> bool,
    ) {
        let reached = tokio::time::timeout(LONG, async {
            while !wanted(self.get(key).await.as_ref()) {
                self.clock.sleep(Duration::from_millis(20)).await;
            }
        });
        assert!(reached.await.is_ok(), "{key} did not become as wanted: {:?}", self.get(key).await);
    }
}

/// Waits until every task is idle: paused time advances only then.
pub(crate) async fn at_rest() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

pub(crate) fn proofs() -> ProofKey {
    ProofKey::new(&[42; 32], ClusterId::from_uuid(uuid::Uuid::from_u128(7)))
}

pub(crate) fn converged(report: &Report) -> bool {
    report.outcome == Outcome::Converged
}

/// Applied, and every wanted pod is ready, both by the workload's count and by the observed pods.
/// Workloads and pods come from two watches, so either may be ahead of the other.
pub(crate) fn healthy(report: &Report) -> bool {
    let Some(seen) = &report.observation else { return false };
    let Some(workload) = &seen.workload else { return false };
    let ready_pods = u32::try_from(seen.pods.iter().filter(|pod| pod.ready).count());
    seen.applied
        && workload.current
        && workload.ready == workload.wanted
        && workload.updated == workload.wanted
        && ready_pods == Ok(workload.wanted)
}

pub(crate) fn with_receipt(report: &Report) -> bool {
    report.receipt.is_some()
}

/// A stateless service.
pub(crate) fn web(replicas: u32) -> Spec {
    spec(&json!({"workload": "deployment", "replicas": replicas}))
}

/// A stateless service whose number of pods follows the load.
pub(crate) fn elastic(image: &str, min: u32, max: u32) -> Spec {
    let autoscale = json!({"min": min, "max": max, "cpu_percent": 70});
    spec(&json!({"workload": "deployment", "image": image, "replicas": 1, "autoscale": autoscale}))
}

/// A service with a volume.
pub(crate) fn game() -> Spec {
    spec(
        &json!({"workload": "stateful_set", "replicas": 1, "volume": {"size_gib": 1, "path": "/data"}}),
    )
}

/// A workload that ends and has no ports.
pub(crate) fn run(own: &Value) -> Spec {
    let mut own = own.clone();
    own["ports"] = json!([]);
    own["replicas"] = json!(1);
    spec(&own)
}

/// A spec with the test's own fields over the defaults of all tests.
pub(crate) fn spec(own: &Value) -> Spec {
    let mut whole = json!({
        "image": "example:1", "ports": [{"name": "http", "port": 8080}],
        "variables": {"GREETING": "hello"}, "generated_secrets": ["KEY"],
        "resources": {"cpu_millis": 100, "memory_mib": 64},
    });
    whole
        .as_object_mut()
        .expect("the test should be set up right")
        .extend(own.as_object().expect("the test should be set up right").clone());
    serde_json::from_value(whole).expect("the test should be set up right")
}

/// The fields of an object that a pass reverted, with their managers.
pub(crate) fn reverted<'a>(
    report: &'a Report,
    object: &ResourceKey,
) -> Vec<(&'a str, Option<&'a str>)> {
    let fields = report.changes.iter().filter_map(|change| match change {
        ObjectChange::ModifiedExternally { key, fields } if key == object => Some(fields),
        _ => None,
    });
    fields.flatten().map(|one| (one.field.as_str(), one.by.as_deref())).collect()
}

/// The key of a service's object.
pub(crate) fn key(order: &Order, kind: Kind, name: impl Fn(&str) -> String) -> ResourceKey {
    let object_name = match &order.body {
        Body::Service(body) => body.object_name.as_str(),
        Body::Project => "a project has no such objects",
    };
    ResourceKey::new(kind, &order.namespace, &name(object_name))
}
