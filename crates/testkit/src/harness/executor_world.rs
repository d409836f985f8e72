//! An executor alone, told what a driver would tell it: the world for thousands of plans.
//!
//! What settle would have stored of its reports is kept here, so a new executor is told what a real
//! one would be told after a crash: the promise of now, every key ever recorded, the uids last seen.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use trueup_cluster::{Cluster, Echo, Executor, Fence, Parts};
use trueup_model::Clock;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Run;
use trueup_model::order::{Body, Order};
use trueup_model::report::{Change, Look, Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::spec::{Spec, Workload};
use trueup_rules::names;
use trueup_rules::proof::ProofKey;

use super::layer::Layer;
use super::orders;
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
    before: BTreeMap<String, Value>,
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
        let mut world = Self {
            layer: layer.clone(),
            fake: fake.clone(),
            clock,
            running: None,
            project: Held { order: orders::project(), last: None },
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
            proofs: ProofKey::new(&[42; 32], orders::id(7)),
            fence,
            clock: Arc::clone(&self.clock),
            observer: "harness".to_owned(),
            // Whoever starts with a service was there before.
            echo: Echo { lasts: ECHO, inherited: self.service.is_some() },
        };
        let executor = Executor::start(parts, reports_in, &mut tasks);
        for held in iter::once(&self.project).chain(&self.service).filter(|held| !held.has_ended())
        {
            let _passed = executor.order(held.order.clone()).await;
        }
        self.running = Some(Running { executor, reports, tasks });
    }

    /// Declares the service, as the door would.
    async fn declare(&mut self, spec: Spec) {
        match &self.service {
            None => {
                let order = orders::first(&self.project.order, spec);
                self.service = Some(Held { order: order.clone(), last: None });
                self.order(order).await;
            }
            Some(_) => {
                self.promise(DesiredState::Active, |order| {
                    if let Body::Service(body) = &mut order.body {
                        body.secrets = orders::secrets(&spec);
                        body.spec = spec;
                    }
                })
                .await;
            }
        }
    }

    /// Changes the promise about the service, as the door would.
    async fn promise(&mut self, desired: DesiredState, change: impl FnOnce(&mut Order)) {
        let Some(held) = &mut self.service else { return };
        change(&mut held.order);
        held.order.generation += 1;
        held.order.desired = desired;
        if desired != DesiredState::Deleted {
            held.order = orders::recorded(held.order.clone());
        }
        held.last = None;
        let order = held.order.clone();
        self.order(order).await;
    }

    /// Promises the end of the project, and of what is in it.
    async fn end_project(&mut self) {
        let service_is_left = self.service.as_ref().is_some_and(|held| !held.has_ended());
        if service_is_left {
            self.promise(DesiredState::Deleted, |_| ()).await;
        }
        let order = orders::end_of_project(self.project.order.clone(), service_is_left);
        self.project = Held { order: order.clone(), last: None };
        self.order(order).await;
    }

    /// The turn of a project that shall be gone has come: its last service is gone, or the look into
    /// its namespace is on record now, or no more.
    async fn go_on_with_project(&mut self, was_looked_into: bool) {
        let service_has_ended = self.service.as_ref().is_some_and(Held::has_ended);
        let is_left_alone = service_has_ended && !self.project.order.warrant.tenants.is_empty();
        if is_left_alone {
            self.project.order = orders::without_tenants(self.project.order.clone());
        }
        if is_left_alone || self.is_looked_into() != was_looked_into {
            self.order(self.project.order.clone()).await;
        }
    }

    const fn is_looked_into(&self) -> bool {
        self.project.order.warrant.look.is_some()
    }

    async fn order(&self, order: Order) {
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
        match &report.look {
            Some(Look::Clear(survey)) => {
                held.order.warrant.look.get_or_insert_with(|| survey.clone());
            }
            Some(Look::Kept) => held.order.warrant.look = None,
            None => {}
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

    /// Whether the service is as it is promised.
    fn is_there(&self) -> bool {
        self.service.as_ref().is_some_and(Held::is_there)
    }
}

impl Held {
    /// Whether its absence was proved: that is the last word on it, and outlives every process.
    fn has_ended(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.receipt.is_some())
    }

    /// Whether it is as it is promised.
    fn is_there(&self) -> bool {
        let (order, Some(report)) = (&self.order, &self.last) else { return false };
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
            Step::Declare(shape) => self.declare(Shape::spec(shape)).await,
            Step::Resume => self.promise(DesiredState::Active, |_| ()).await,
            Step::Pause => self.promise(DesiredState::Paused, |_| ()).await,
            Step::Lead(hosts) => {
                self.promise(DesiredState::Active, |order| orders::lead(order, hosts)).await;
            }
            Step::Delete => self.promise(DesiredState::Deleted, |_| ()).await,
            Step::DeleteProject => self.end_project().await,
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
            Step::Add(kind, list, entry) => {
                for key in self.keys(&[*kind]) {
                    self.fake.edit(&key, |object| {
                        let found = object.pointer_mut(list).and_then(Value::as_array_mut);
                        found.into_iter().for_each(|entries| entries.push(entry.clone()));
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
            Step::Declare(_) | Step::Pause | Step::Resume | Step::Lead(_) | Step::Delete => {
                self.is_there()
            }
            Step::DeleteProject => self.is_there() && self.project.is_there(),
            Step::Lose(_) | Step::Edit(..) | Step::Add(..) | Step::LoseNamespace => {
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
                Some(report) => {
                    let looked_into = self.is_looked_into();
                    self.hear(report);
                    self.go_on_with_project(looked_into).await;
                }
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
        // What a dead process would have said next is lost with it.
        for held in iter::once(&mut self.project).chain(&mut self.service) {
            if !held.has_ended() {
                held.last = None;
            }
            if held.order.desired != DesiredState::Deleted {
                held.order = orders::recorded(held.order.clone());
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
fn same_but_for_anchors(now: &BTreeMap<String, Value>, before: &BTreeMap<String, Value>) -> bool {
    let kinds = |stage: &BTreeMap<String, Value>| -> Vec<String> {
        stage.keys().map(|key| key.split('/').next().unwrap_or_default().to_owned()).collect()
    };
    let specs = |stage: &BTreeMap<String, Value>| -> Vec<Value> {
        stage.values().map(|object| object["spec"].clone()).collect()
    };
    kinds(now) == kinds(before) && specs(now) == specs(before)
}
