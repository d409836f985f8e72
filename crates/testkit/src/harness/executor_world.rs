//! An executor alone, told what a driver would tell it: the world for thousands of plans.
//!
//! What settle would have stored of its reports is kept here, so a new executor is told what a real
//! one would be told after a crash: the promise of now, every key ever recorded, the uids last seen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use trueup_cluster::{Cluster, Echo, Executor, Fence, Parts};
use trueup_model::id::{Id, Noun};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Run;
use trueup_model::order::{Body, Order, SecretValue, ServiceBody, Unit, Warrant};
use trueup_model::report::{Change, Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::spec::{Spec, Workload};
use trueup_model::{Clock, OrgId, ProjectId, ServiceId};
use trueup_rules::proof::ProofKey;
use trueup_rules::{names, render};

use super::layer::Layer;
use super::run::World;
use super::workload::{Shape, Step};
use crate::fake_cluster::FakeCluster;

/// Lease time and call deadline, as in production.
const ECHO: Duration = Duration::from_secs(20);

/// The world.
#[derive(Debug)]
pub struct ExecutorWorld {
    layer: Layer,
    fake: FakeCluster,
    clock: Arc<dyn Clock>,
    running: Option<Running>,
    project: Held,
    service: Option<Held>,
    /// The cluster before somebody else did something to it: it shall be so again.
    before: BTreeMap<String, serde_json::Value>,
    wrong: Vec<String>,
}

#[derive(Debug)]
struct Running {
    executor: Executor,
    reports: mpsc::Receiver<Report>,
    tasks: JoinSet<()>,
}

/// What is promised about a unit, and the last thing that was said of it.
#[derive(Debug)]
struct Held {
    order: Order,
    last: Option<Report>,
}

impl ExecutorWorld {
    /// A project, and an executor that is told of it.
    pub async fn new(layer: &Layer, fake: &FakeCluster, clock: Arc<dyn Clock>) -> Self {
        let project: ProjectId = id(1);
        let order = Order {
            unit: Unit::Project(project),
            org: OrgId::from_uuid(project.uuid()),
            project,
            namespace: names::namespace(&name("plan"), project),
            generation: 1,
            desired: DesiredState::Active,
            body: Body::Project,
            freeze: None,
            recorded: BTreeMap::new(),
            warrant: Warrant::default(),
        };
        let mut world = Self {
            layer: layer.clone(),
            fake: fake.clone(),
            clock,
            running: None,
            project: Held { order: recorded(order), last: None },
            service: None,
            before: BTreeMap::new(),
            wrong: Vec::new(),
        };
        world.start().await;
        world
    }

    /// Starts an executor and tells it everything.
    async fn start(&mut self) {
        let fence = Arc::new(Fence::closed(Arc::clone(&self.clock)));
        fence.open(self.clock.monotonic(), Duration::from_secs(365 * 86400));
        let (reports_in, reports) = mpsc::channel(1024);
        let mut tasks = JoinSet::new();
        let cluster: Arc<dyn Cluster> = Arc::new(self.layer.clone());
        let parts = Parts {
            cluster,
            proofs: ProofKey::new(&[42; 32], id(7)),
            fence,
            clock: Arc::clone(&self.clock),
            observer: "harness".to_owned(),
            // Whoever starts with a service was there before.
            echo: Echo { lasts: ECHO, inherited: self.service.is_some() },
        };
        let executor = Executor::start(parts, reports_in, &mut tasks);
        let _passed = executor.order(self.project.order.clone()).await;
        if let Some(service) = &self.service {
            let _passed = executor.order(service.order.clone()).await;
        }
        self.running = Some(Running { executor, reports, tasks });
    }

    /// Changes the promise about the service, as the door would, and orders it.
    async fn promise(&mut self, desired: DesiredState, spec: Option<Spec>) {
        let order = match (&self.service, spec) {
            (None, None) => return,
            (None, Some(spec)) => first(&self.project.order, spec),
            (Some(held), spec) => {
                let mut order = held.order.clone();
                if let (Body::Service(body), Some(spec)) = (&mut order.body, spec) {
                    body.secrets = secrets(&spec);
                    body.spec = spec;
                }
                order.generation += 1;
                order.desired = desired;
                if desired == DesiredState::Deleted { order } else { recorded(order) }
            }
        };
        self.service = Some(Held { order: order.clone(), last: None });
        if let Some(running) = &self.running {
            let _passed = running.executor.order(order).await;
        }
    }

    /// What settle would store of a report.
    fn hear(&mut self, report: Report) {
        let held = match (report.unit == self.project.order.unit, &mut self.service) {
            (true, _) => &mut self.project,
            (false, Some(held)) if held.order.unit == report.unit => held,
            (false, _) => {
                self.wrong.push(format!("O3: a report of {}, which nobody ordered", report.unit));
                return;
            }
        };
        let last = held.last.as_ref().map_or(0, |last| last.generation);
        if report.generation < last || report.generation > held.order.generation {
            let seen = (last, report.generation, held.order.generation);
            self.wrong.push(format!("O6: generations went back (last, now, ordered): {seen:?}"));
        }
        let recorded = &mut held.order.recorded;
        if held.order.desired != DesiredState::Deleted {
            for change in &report.changes {
                if let Change::Removed { key } = change {
                    recorded.insert(key.clone(), None);
                }
            }
        }
        for seen in report.observation.iter().flat_map(|seen| &seen.objects) {
            if let Some(uid) = recorded.get_mut(&seen.key) {
                *uid = Some(seen.uid.clone());
            }
        }
        held.last = Some(report);
    }

    /// The service's objects of these kinds that are there now.
    fn keys(&self, kinds: &[Kind]) -> Vec<ResourceKey> {
        let recorded = self.service.iter().flat_map(|held| held.order.recorded.keys());
        recorded
            .filter(|key| kinds.contains(&key.kind) && self.fake.find(key).is_some())
            .cloned()
            .collect()
    }

    fn last(&self) -> Option<(&Order, &Report)> {
        let held = self.service.as_ref()?;
        Some((&held.order, held.last.as_ref()?))
    }

    /// Whether the service is as it is promised.
    fn is_there(&self) -> bool {
        let Some((order, report)) = self.last() else { return false };
        if report.generation != order.generation {
            return false;
        }
        match order.desired {
            DesiredState::Deleted => report.receipt.is_some(),
            DesiredState::Active | DesiredState::Paused => {
                report.outcome == Outcome::Converged && is_up(order, report)
            }
        }
    }
}

/// Whether the workload says that it does what the order asks.
fn is_up(order: &Order, report: &Report) -> bool {
    let Body::Service(body) = &order.body else { return true };
    let Some(seen) = &report.observation else { return false };
    let Some(workload) = &seen.workload else { return false };
    match body.spec.workload {
        Workload::Deployment | Workload::StatefulSet => {
            let ready = seen.pods.iter().filter(|pod| pod.ready).count();
            workload.current
                && workload.ready == workload.wanted
                && workload.updated == workload.wanted
                && u32::try_from(ready) == Ok(workload.wanted)
                && (order.desired == DesiredState::Paused) == (workload.wanted == 0)
        }
        Workload::Job if order.desired == DesiredState::Paused => true,
        Workload::Job => workload.runs.as_ref().is_some_and(|runs| runs.last == Run::Succeeded),
        Workload::CronJob => true,
    }
}

impl World for ExecutorWorld {
    async fn begin(&mut self, step: &Step) {
        self.before = self.fake.snapshot();
        match step {
            Step::Declare(shape) => {
                self.promise(DesiredState::Active, Some(Shape::spec(shape))).await
            }
            Step::Resume => self.promise(DesiredState::Active, None).await,
            Step::Pause => self.promise(DesiredState::Paused, None).await,
            Step::Delete => self.promise(DesiredState::Deleted, None).await,
            Step::Lose(kinds) => self.keys(kinds).iter().for_each(|key| self.fake.remove(key)),
            Step::Edit(kind, field, value) => {
                for key in self.keys(&[*kind]) {
                    self.fake.edit(&key, |object| {
                        if let Some(found) = object.pointer_mut(field) {
                            *found = value.clone();
                        }
                    });
                }
            }
            Step::LoseNamespace => {
                let namespace = &self.project.order.namespace;
                self.fake.remove(&ResourceKey::new(Kind::Namespace, "", namespace));
            }
        }
    }

    async fn reached(&mut self, step: &Step) -> bool {
        match step {
            Step::Declare(_) | Step::Pause | Step::Resume | Step::Delete => self.is_there(),
            Step::Lose(_) | Step::Edit(..) | Step::LoseNamespace => {
                self.is_there() && same_but_for_anchors(&self.fake.snapshot(), &self.before)
            }
        }
    }

    async fn pass(&mut self, time: Duration) {
        let over = self.clock.sleep(time);
        tokio::pin!(over);
        loop {
            let heard = match &mut self.running {
                Some(running) => tokio::select! {
                    biased;
                    report = running.reports.recv() => report,
                    () = &mut over => return,
                },
                None => return,
            };
            match heard {
                Some(report) => self.hear(report),
                None => {
                    self.wrong.push("O10: the executor ended by itself".to_owned());
                    self.running = None;
                }
            }
        }
    }

    async fn restart(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.tasks.shutdown().await;
        }
        // The reports of a dead process are lost with it.
        self.project.last = None;
        self.project.order = recorded(self.project.order.clone());
        if let Some(service) = &mut self.service {
            service.last = None;
            if service.order.desired != DesiredState::Deleted {
                service.order = recorded(service.order.clone());
            }
        }
        self.start().await;
    }

    async fn end(&mut self) -> Vec<String> {
        if let Some(mut running) = self.running.take() {
            running.tasks.shutdown().await;
        }
        let left = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        if left > 0 {
            self.wrong.push(format!("O10: {left} tasks outlive their executor"));
        }
        std::mem::take(&mut self.wrong)
    }

    async fn faults_at_rest(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        let known = |key: &ResourceKey| {
            let of = |held: &Held| held.order.recorded.contains_key(key);
            of(&self.project) || self.service.as_ref().is_some_and(of)
        };
        for kind in Kind::WATCHED {
            for object in self.fake.objects(kind) {
                let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
                let key = ResourceKey::new(kind, text("namespace"), text("name"));
                let ours = object["metadata"]["labels"][names::MANAGED_BY] == names::MANAGER;
                if ours && !known(&key) {
                    wrong.push(format!("O3: {key} carries our label and nobody knows of it"));
                }
            }
        }
        if self.project.last.as_ref().is_some_and(|last| last.outcome != Outcome::Converged) {
            wrong.push(format!("O10: the project is not at rest: {:?}", self.project.last));
        }
        wrong
    }

    fn standing(&self) -> String {
        let of =
            |held: &Held| held.last.as_ref().map(|last| (last.generation, last.outcome.clone()));
        format!("project {:?}, service {:?}", of(&self.project), self.service.as_ref().map(of))
    }
}

/// An anchor that was deleted comes back under the next name, and its children hang from that one.
fn same_but_for_anchors(
    now: &BTreeMap<String, serde_json::Value>,
    before: &BTreeMap<String, serde_json::Value>,
) -> bool {
    let kinds = |stage: &BTreeMap<String, serde_json::Value>| -> Vec<String> {
        stage.keys().map(|key| key.split('/').next().unwrap_or_default().to_owned()).collect()
    };
    let specs = |stage: &BTreeMap<String, serde_json::Value>| -> Vec<serde_json::Value> {
        stage.values().map(|object| object["spec"].clone()).collect()
    };
    kinds(now) == kinds(before) && specs(now) == specs(before)
}

/// The order for a service that was never ordered before.
fn first(project: &Order, spec: Spec) -> Order {
    let service: ServiceId = id(2);
    recorded(Order {
        unit: Unit::Service(service),
        generation: 1,
        body: Body::Service(Box::new(ServiceBody {
            object_name: names::object_name(&name("it"), service),
            template: "web@1".parse().expect("a template should be named"),
            endpoints: Vec::new(),
            routes: Vec::new(),
            routing: trueup_model::cluster::Routing::default(),
            sealed: BTreeMap::new(),
            secrets: secrets(&spec),
            spec,
        })),
        freeze: None,
        recorded: BTreeMap::new(),
        warrant: Warrant::default(),
        ..project.clone()
    })
}

fn secrets(spec: &Spec) -> BTreeMap<String, SecretValue> {
    let generated = spec.generated_secrets.iter();
    generated.map(|name| (name.clone(), SecretValue::new(format!("value of {name}")))).collect()
}

/// The order with every key that it may touch, as the driver records them.
fn recorded(mut order: Order) -> Order {
    for key in render::keys(&order) {
        order.recorded.entry(key).or_insert(None);
    }
    for key in render::unwanted(&order) {
        order.warrant.unwanted.entry(key).or_insert(order.generation);
    }
    order
}

fn name(text: &str) -> trueup_model::name::Name {
    text.parse().expect("a name should be valid")
}

/// The same ids in every run, so that runs can be compared.
fn id<N: Noun>(salt: u8) -> Id<N> {
    let at = Timestamp::from_second(1_700_000_000).expect("this should be a time");
    Id::from_parts(at, [salt; 10])
}
