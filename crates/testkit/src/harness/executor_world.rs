//! An executor alone, told what a driver would tell it: the world for thousands of plans.
//!
//! What the database would have stored of its reports is kept here, so a new executor is told what a real
//! one would be told after a crash: the promise of now, every key ever recorded, the uids last seen.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use trueup_cluster::{Cluster, Executor, Fence, InFlightWindow, Parts};
use trueup_model::Clock;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, Order};
use trueup_model::receipt::Receipt;
use trueup_model::report::{Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::spec::Spec;
use trueup_rules::render::names;
use trueup_rules::render::proof::ProofKey;

use super::held::UnitHistory;
use super::layer::Layer;
use super::run::World;
use super::stage::Stage;
use super::workload::{Shape, WorkloadStep};
use super::{orders, receipts};
use crate::fake_cluster::{Controllers, FakeCluster};

/// Lease time and call deadline, as in production.
const ECHO: Duration = Duration::from_secs(20);
/// Who is named as observer in receipts.
const OBSERVER: &str = "harness";
/// How often the lease is renewed, and slow controllers are looked after.
const SLICE: Duration = Duration::from_secs(1);

/// The service of most steps.
const FIRST: usize = 0;
/// The service of a step beside it.
const SECOND: usize = 1;

/// The world.
#[derive(Debug)]
pub struct ExecutorWorld {
    layer: Layer,
    fake: FakeCluster,
    clock: Arc<dyn Clock>,
    running: Option<Running>,
    project: UnitHistory,
    services: BTreeMap<usize, UnitHistory>,
    /// How often the cluster's controllers run, if not at once, and when they do next.
    controllers: Option<(Duration, Duration)>,
    /// The cluster before somebody else did something to it: it must be so again.
    before: Stage,
    wrong: Vec<String>,
}

#[derive(Debug)]
struct Running {
    executor: Executor,
    reports: mpsc::Receiver<Report>,
    tasks: JoinSet<()>,
    started: Timestamp,
    echo: InFlightWindow,
}

impl ExecutorWorld {
    /// A project, and an executor that is told of it. Controllers run every so often, or at once.
    pub async fn new(
        layer: &Layer,
        fake: &FakeCluster,
        clock: Arc<dyn Clock>,
        controllers: Option<Duration>,
    ) -> Self {
        if controllers.is_some() {
            fake.set_controllers(Controllers::Manual);
        }
        layer.guard_workloads_with(orders::policies());
        let mut world = Self {
            layer: layer.clone(),
            fake: fake.clone(),
            clock,
            running: None,
            project: UnitHistory::new(orders::project()),
            services: BTreeMap::new(),
            controllers: controllers.map(|pace| (pace, Duration::ZERO)),
            before: Stage::new(),
            wrong: Vec::new(),
        };
        world.start().await;
        world
    }

    /// Starts an executor and tells it everything.
    async fn start(&mut self) {
        let fence = Arc::new(Fence::closed(Arc::clone(&self.clock)));
        self.layer.set_fence(Arc::clone(&fence));
        let (reports_in, reports) = mpsc::channel(1024);
        let mut tasks = JoinSet::new();
        let cluster: Arc<dyn Cluster> = Arc::new(self.layer.clone());
        // A process that starts with a service is not the first one.
        let echo = InFlightWindow { lasts: ECHO, inherited: !self.services.is_empty() };
        let parts = Parts {
            cluster,
            proofs: ProofKey::new(&[42; 32], orders::id(7)),
            fence,
            clock: Arc::clone(&self.clock),
            observer: OBSERVER.to_owned(),
            echo,
        };
        let started = self.clock.now();
        let executor = Executor::start(parts, reports_in, &mut tasks);
        let held = iter::once(&self.project).chain(self.services.values());
        for held in held.filter(|held| !held.has_ended()) {
            let _passed = executor.order(held.order.clone()).await;
        }
        self.running = Some(Running { executor, reports, tasks, started, echo });
    }

    /// Declares a service, as the API would.
    async fn declare(&mut self, service: usize, spec: Spec) {
        if self.services.contains_key(&service) {
            let change = |order: &mut Order| {
                if let Body::Service(body) = &mut order.body {
                    body.secrets = orders::secrets(&spec);
                    body.spec = spec;
                }
            };
            return self.promise(service, DesiredState::Active, change).await;
        }
        let order = orders::first(&self.project.order, service, spec);
        self.services.insert(service, UnitHistory::new(order.clone()));
        self.order(order).await;
    }

    /// Changes the promise about a service, as the API would.
    async fn promise(
        &mut self,
        service: usize,
        desired: DesiredState,
        change: impl FnOnce(&mut Order),
    ) {
        let Some(held) = self.services.get_mut(&service) else { return };
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

    /// The names of the services that are not gone yet.
    fn tenants(&self) -> BTreeSet<String> {
        let left = self.services.iter().filter(|(_, held)| !held.has_ended());
        left.map(|(service, _)| orders::service_name(*service).to_owned()).collect()
    }

    /// Promises the end of the project, and of what is in it.
    async fn end_project(&mut self) {
        let tenants = self.tenants();
        let left: Vec<usize> = self.services.keys().copied().collect();
        for service in left {
            if self.services.get(&service).is_some_and(|held| !held.has_ended()) {
                self.promise(service, DesiredState::Deleted, |_| ()).await;
            }
        }
        let order = orders::end_of_project(self.project.order.clone(), tenants);
        self.project = UnitHistory::new(order.clone());
        self.order(order).await;
    }

    /// The turn of a project that is to go has come: a service of it is gone, or the survey of its namespace is on
    /// record now, or no more.
    async fn go_on_with_project(&mut self, was_surveyed: bool) {
        let tenants = self.tenants();
        let is_left = self.project.order.desired == DesiredState::Deleted
            && self.project.order.permit.tenants != tenants;
        if is_left {
            self.project.order.permit.tenants = tenants;
        }
        if is_left || self.is_surveyed() != was_surveyed {
            self.order(self.project.order.clone()).await;
        }
    }

    const fn is_surveyed(&self) -> bool {
        self.project.order.permit.survey.is_some()
    }

    async fn order(&self, order: Order) {
        if let Some(running) = &self.running {
            let _passed = running.executor.order(order).await;
        }
    }

    /// What the database would store of a report.
    fn hear(&mut self, report: Report) {
        let wrong = report.receipt.as_ref().map(|receipt| self.check(&report, receipt));
        self.wrong.extend(wrong.into_iter().flatten());
        let mut held = iter::once(&mut self.project).chain(self.services.values_mut());
        match held.find(|held| held.order.unit == report.unit) {
            Some(held) => self.wrong.extend(held.hear(report)),
            None => self.wrong.push(format!("O3: a report of {}, never ordered", report.unit)),
        }
    }

    /// What is wrong about a receipt.
    fn check(&self, report: &Report, receipt: &Receipt) -> Vec<String> {
        let mut held = iter::once(&self.project).chain(self.services.values());
        let held = held.find(|held| held.order.unit == report.unit);
        let (Some(held), Some(running)) = (held, &self.running) else { return Vec::new() };
        if held.has_ended() || held.order.desired != DesiredState::Deleted {
            return vec![format!("O12: {} has a receipt it cannot have", report.unit)];
        }
        let object_name = |order: &Order| match &order.body {
            Body::Service(body) => body.object_name.clone(),
            Body::Project => order.namespace.clone(),
        };
        let names: Vec<String> =
            self.services.values().map(|held| object_name(&held.order)).collect();
        let own_name = object_name(&held.order);
        let (monotonic, now) = (self.clock.monotonic(), self.clock.now());
        let time = |at: Duration| {
            let ago = SignedDuration::try_from(monotonic.saturating_sub(at)).unwrap_or_default();
            now - ago
        };
        let notes = self.layer.notes();
        let calls = notes.calls.iter();
        let own = calls.filter(|call| receipts::belongs(&call.key, report.unit, &own_name, &names));
        receipts::wrong(
            receipt,
            &receipts::Facts {
                order: &held.order,
                fake: &self.fake,
                calls: own.map(|call| (time(call.at), call.clone())).collect(),
                observer: OBSERVER,
                started: running.started,
                echo: running.echo,
                now,
            },
        )
    }

    /// A service's objects of these kinds that are there now.
    fn keys(&self, service: usize, kinds: &[Kind]) -> Vec<ResourceKey> {
        let recorded = self.services.get(&service).into_iter();
        recorded
            .flat_map(|held| held.order.recorded.keys())
            .filter(|key| kinds.contains(&key.kind) && self.fake.find(key).is_some())
            .cloned()
            .collect()
    }

    /// Changes the objects of a kind from outside.
    fn edit(&self, service: usize, kind: Kind, change: impl Fn(&mut Value)) {
        for key in self.keys(service, &[kind]) {
            self.fake.edit(&key, |object| change(object));
        }
    }

    /// Whether every service is as it is promised.
    fn is_there(&self) -> bool {
        self.services.values().all(UnitHistory::is_there)
    }

    async fn begin_of(&mut self, service: usize, step: &WorkloadStep) {
        match step {
            WorkloadStep::Rest | WorkloadStep::Beside(_) | WorkloadStep::Hasty(_) => {}
            WorkloadStep::Declare(shape) => self.declare(service, Shape::spec(shape)).await,
            WorkloadStep::Resume => self.promise(service, DesiredState::Active, |_| ()).await,
            WorkloadStep::Pause => self.promise(service, DesiredState::Paused, |_| ()).await,
            WorkloadStep::Lead(hosts) => {
                let lead = |order: &mut Order| orders::lead(order, hosts);
                self.promise(service, DesiredState::Active, lead).await;
            }
            WorkloadStep::Delete => self.promise(service, DesiredState::Deleted, |_| ()).await,
            WorkloadStep::DeleteProject => self.end_project().await,
            WorkloadStep::Lose(kinds) => {
                self.keys(service, kinds).iter().for_each(|key| self.fake.remove(key));
            }
            WorkloadStep::Edit(kind, field, value) => self.edit(service, *kind, |object| {
                if let Some(found) = object.pointer_mut(field) {
                    *found = value.clone();
                }
            }),
            WorkloadStep::Add(kind, list, entry) => self.edit(service, *kind, |object| {
                let found = object.pointer_mut(list).and_then(Value::as_array_mut);
                found.into_iter().for_each(|entries| entries.push(entry.clone()));
            }),
            WorkloadStep::LoseNamespace => {
                let namespace = &self.project.order.namespace;
                self.fake.remove(&ResourceKey::new(Kind::Namespace, "", namespace));
            }
        }
    }

    /// Lets controllers that are slow work, if it is time.
    fn run_controllers(&mut self) {
        let now = self.clock.monotonic();
        if let Some((pace, next)) = &mut self.controllers
            && *next <= now
        {
            *next = now + *pace;
            self.fake.settle_controllers();
        }
    }

    /// Hears reports for so long.
    async fn listen(&mut self, time: Duration) {
        let over = self.clock.sleep(time);
        tokio::pin!(over);
        loop {
            let Some(running) = &mut self.running else { return over.await };
            let heard = tokio::select! {
                biased;
                report = running.reports.recv() => report,
                () = &mut over => return,
            };
            match heard {
                Some(report) => {
                    let was_surveyed = self.is_surveyed();
                    self.hear(report);
                    self.go_on_with_project(was_surveyed).await;
                }
                None => {
                    self.wrong.push("O10: the executor ended by itself".to_owned());
                    self.running = None;
                }
            }
        }
    }
}

impl World for ExecutorWorld {
    async fn begin(&mut self, step: &WorkloadStep) {
        self.before = self.fake.snapshot();
        match step.inner() {
            WorkloadStep::Beside(step) => self.begin_of(SECOND, step).await,
            step => self.begin_of(FIRST, step).await,
        }
    }

    async fn reached(&mut self, step: &WorkloadStep) -> bool {
        let step = match step.inner() {
            WorkloadStep::Beside(step) => step,
            step => step,
        };
        match step {
            WorkloadStep::Declare(_)
            | WorkloadStep::Pause
            | WorkloadStep::Resume
            | WorkloadStep::Lead(_)
            | WorkloadStep::Delete
            | WorkloadStep::Beside(_)
            | WorkloadStep::Hasty(_) => self.is_there(),
            WorkloadStep::Rest | WorkloadStep::DeleteProject => {
                self.is_there() && self.project.is_there()
            }
            WorkloadStep::Lose(_)
            | WorkloadStep::Edit(..)
            | WorkloadStep::Add(..)
            | WorkloadStep::LoseNamespace => {
                self.is_there() && same_specs(&self.fake.snapshot(), &self.before)
            }
        }
    }

    async fn pass(&mut self, time: Duration) {
        let until = self.clock.monotonic() + time;
        while let Some(left) = until.checked_sub(self.clock.monotonic()).filter(|it| !it.is_zero())
        {
            self.layer.renew_lease();
            self.run_controllers();
            self.listen(left.min(SLICE)).await;
        }
    }

    async fn restart(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.tasks.shutdown().await;
        }
        // What a dead process would have said next is lost with it.
        for held in iter::once(&mut self.project).chain(self.services.values_mut()) {
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
        let all = || iter::once(&self.project).chain(self.services.values());
        let known = |key: &ResourceKey| all().any(|held| held.order.recorded.contains_key(key));
        for kind in Kind::ALL {
            for object in self.fake.objects(kind) {
                let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
                let key = ResourceKey::new(kind, text("namespace"), text("name"));
                let ours = object["metadata"]["labels"][names::MANAGED_BY] == names::MANAGER;
                if ours && !known(&key) {
                    wrong.push(format!("O3: {key} carries our label and is in no order"));
                }
            }
        }
        if self.project.last.as_ref().is_some_and(|last| last.outcome != Outcome::Converged) {
            wrong.push(format!("O10: the project is not at rest: {:?}", self.project.last));
        }
        wrong
    }

    fn standing(&self) -> String {
        let of = |held: &UnitHistory| {
            held.last.as_ref().map(|last| (last.generation, last.outcome.clone()))
        };
        let services: Vec<_> = self.services.values().map(of).collect();
        format!("project {:?}, services {services:?}", of(&self.project))
    }
}

/// Whether there are as many objects of each kind with the same specs. The rest of a stage is judged afterwards:
/// here it would only say that a step is not reached, and not why.
fn same_specs(now: &Stage, before: &Stage) -> bool {
    let kind = |key: &String| key.split('/').next().unwrap_or_default().to_owned();
    let specs = |stage: &Stage| -> Vec<(String, Value)> {
        stage.iter().map(|(key, object)| (kind(key), object["spec"].clone())).collect()
    };
    specs(now) == specs(before)
}
