//! A world with only an executor, and orders as a driver would give them. Runs thousands of plans.
//!
//! It keeps what the database would store of the reports. So a new executor gets what a real one
//! gets after a crash: the current orders, every recorded key and the last observed uids.

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
use trueup_model::drift::DriftPolicy;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, Order};
use trueup_model::receipt::Receipt;
use trueup_model::report::{Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::spec::Spec;
use trueup_rules::render::names;
use trueup_rules::render::proof::ProofKey;

use super::layer::Layer;
use super::run::World;
use super::stage::Stage;
use super::unit_history::UnitHistory;
use super::workload::{Shape, Workload, WorkloadStep};
use super::{orders, outside, receipts};
use crate::fake_cluster::{Controllers, FakeCluster};

/// How long a call may be in flight: lease time and call deadline, as in production.
const IN_FLIGHT: Duration = Duration::from_secs(20);
/// The observer in receipts.
const OBSERVER: &str = "harness";
/// How often the lease is renewed and slow controllers may run.
const TICK: Duration = Duration::from_secs(1);

/// The index of the main service.
const FIRST: usize = 0;
/// The index of the second service, see [`WorkloadStep::Neighbour`].
const SECOND: usize = 1;

/// A world with an executor, a fake cluster and no database.
#[derive(Debug)]
pub struct ExecutorWorld {
    layer: Layer,
    fake: FakeCluster,
    clock: Arc<dyn Clock>,
    running: Option<Running>,
    project: UnitHistory,
    services: BTreeMap<usize, UnitHistory>,
    /// The drift policy of the services.
    drift: DriftPolicy,
    /// The period of slow controllers, and when they run next.
    controllers: Option<(Duration, Duration)>,
    /// The cluster before a foreign change, which the executor must restore.
    before: Stage,
    wrong: Vec<String>,
}

#[derive(Debug)]
struct Running {
    executor: Executor,
    reports: mpsc::Receiver<Report>,
    tasks: JoinSet<()>,
    started: Timestamp,
    in_flight: InFlightWindow,
}

impl ExecutorWorld {
    /// Starts an executor with a project, and with the controllers and the drift policy of this
    /// workload.
    pub async fn new(
        layer: &Layer,
        fake: &FakeCluster,
        clock: Arc<dyn Clock>,
        workload: &Workload,
    ) -> Self {
        let controllers = workload.controllers;
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
            drift: workload.drift.clone(),
            controllers: controllers.map(|pace| (pace, Duration::ZERO)),
            before: Stage::new(),
            wrong: Vec::new(),
        };
        world.start().await;
        world
    }

    /// Starts an executor and gives it all orders.
    async fn start(&mut self) {
        let fence = Arc::new(Fence::closed(Arc::clone(&self.clock)));
        self.layer.set_fence(Arc::clone(&fence));
        let (reports_in, reports) = mpsc::channel(1024);
        let mut tasks = JoinSet::new();
        let cluster: Arc<dyn Cluster> = Arc::new(self.layer.clone());
        // With a service, this is not the first process: earlier calls may be in flight.
        let in_flight = InFlightWindow { lasts: IN_FLIGHT, inherited: !self.services.is_empty() };
        let parts = Parts {
            cluster,
            proofs: ProofKey::new(&[42; 32], orders::id(7)),
            fence,
            clock: Arc::clone(&self.clock),
            observer: OBSERVER.to_owned(),
            in_flight,
        };
        let started = self.clock.now();
        let executor = Executor::start(parts, reports_in, &mut tasks);
        let units = iter::once(&self.project).chain(self.services.values());
        for unit in units.filter(|unit| !unit.has_ended()) {
            let _sent = executor.order(unit.order.clone()).await;
        }
        self.running = Some(Running { executor, reports, tasks, started, in_flight });
    }

    /// Declares a service.
    async fn declare(&mut self, service: usize, spec: Spec) {
        if self.services.contains_key(&service) {
            let change = |order: &mut Order| {
                if let Body::Service(body) = &mut order.body {
                    body.secrets = orders::secrets(&spec);
                    body.spec = spec;
                }
            };
            return self.change_order(service, DesiredState::Active, change).await;
        }
        let mut order = orders::first(&self.project.order, service, spec);
        order.drift.policies = vec![self.drift.clone()];
        self.services.insert(service, UnitHistory::new(order.clone()));
        self.order(order).await;
    }

    /// Changes the order of a service as a new generation.
    async fn change_order(
        &mut self,
        service: usize,
        desired: DesiredState,
        change: impl FnOnce(&mut Order),
    ) {
        let Some(unit) = self.services.get_mut(&service) else { return };
        change(&mut unit.order);
        unit.order.generation += 1;
        unit.order.desired = desired;
        if desired != DesiredState::Deleted {
            unit.order = orders::recorded(unit.order.clone());
        }
        unit.last = None;
        let order = unit.order.clone();
        self.order(order).await;
    }

    /// The names of the services that are not deleted yet.
    fn tenants(&self) -> BTreeSet<String> {
        let left = self.services.iter().filter(|(_, unit)| !unit.has_ended());
        left.map(|(service, _)| orders::service_name(*service).to_owned()).collect()
    }

    /// Deletes the project and all services in it.
    async fn delete_project(&mut self) {
        let tenants = self.tenants();
        let left: Vec<usize> = self.services.keys().copied().collect();
        for service in left {
            if self.services.get(&service).is_some_and(|unit| !unit.has_ended()) {
                self.change_order(service, DesiredState::Deleted, |_| ()).await;
            }
        }
        let order = orders::delete_project(self.project.order.clone(), tenants);
        self.project = UnitHistory::new(order.clone());
        self.order(order).await;
    }

    /// Renews the order of a project that is being deleted.
    ///
    /// Needed when one of its services is gone, or its namespace survey was recorded or withdrawn.
    async fn renew_project_order(&mut self, was_surveyed: bool) {
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
            let _sent = running.executor.order(order).await;
        }
    }

    /// Stores what the database would store of a report, and checks its receipt.
    fn record_report(&mut self, report: Report) {
        let wrong = report.receipt.as_ref().map(|receipt| self.check(&report, receipt));
        self.wrong.extend(wrong.into_iter().flatten());
        let mut units = iter::once(&mut self.project).chain(self.services.values_mut());
        match units.find(|unit| unit.order.unit == report.unit) {
            Some(unit) => self.wrong.extend(unit.record_report(report)),
            None => self.wrong.push(format!("O3: report of {}, which has no order", report.unit)),
        }
    }

    /// Everything that is wrong about a receipt.
    fn check(&self, report: &Report, receipt: &Receipt) -> Vec<String> {
        let mut units = iter::once(&self.project).chain(self.services.values());
        let unit = units.find(|unit| unit.order.unit == report.unit);
        let (Some(unit), Some(running)) = (unit, &self.running) else { return Vec::new() };
        if unit.has_ended() || unit.order.desired != DesiredState::Deleted {
            return vec![format!("O12: unexpected receipt of {}", report.unit)];
        }
        let object_name = |order: &Order| match &order.body {
            Body::Service(body) => body.object_name.clone(),
            Body::Project => order.namespace.clone(),
        };
        let names: Vec<String> =
            self.services.values().map(|unit| object_name(&unit.order)).collect();
        let own_name = object_name(&unit.order);
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
                order: &unit.order,
                fake: &self.fake,
                calls: own.map(|call| (time(call.at), call.clone())).collect(),
                observer: OBSERVER,
                started: running.started,
                in_flight: running.in_flight,
                now,
            },
        )
    }

    /// The keys of a service's objects of these kinds that exist.
    fn keys(&self, service: usize, kinds: &[Kind]) -> Vec<ResourceKey> {
        let recorded = self.services.get(&service).into_iter();
        recorded
            .flat_map(|unit| unit.order.recorded.keys())
            .filter(|key| kinds.contains(&key.kind) && self.fake.find(key).is_some())
            .cloned()
            .collect()
    }

    /// Changes a service's objects of a kind as a foreign writer.
    fn edit(&self, service: usize, kind: Kind, change: impl Fn(&mut Value)) {
        for key in self.keys(service, &[kind]) {
            self.fake.edit(&key, |object| change(object));
        }
    }

    /// O13: the last report of a service names exactly the values of foreign writers that stand.
    fn unreported_divergences(&self) -> Vec<String> {
        let standing = outside::standing(&self.layer.notes(), &self.fake);
        let wrong = self.services.values().filter(|unit| !unit.has_ended()).filter_map(|unit| {
            let own = standing.iter().filter(|(key, _)| unit.order.recorded.contains_key(key));
            let own: BTreeSet<_> = own.cloned().collect();
            let seen = unit.last.iter().filter_map(|last| last.observation.as_ref());
            let divergences = seen.flat_map(|seen| &seen.divergences);
            let reported = divergences.map(|one| (one.key.clone(), one.field.clone()));
            let reported: BTreeSet<_> = reported.collect();
            let unit = unit.order.unit;
            (own != reported)
                .then(|| format!("O13: {unit}: {own:?} stand, {reported:?} are reported"))
        });
        wrong.collect()
    }

    /// Whether every service has its desired state.
    fn is_converged(&self) -> bool {
        self.services.values().all(UnitHistory::is_converged)
    }

    async fn begin_of(&mut self, service: usize, step: &WorkloadStep) {
        match step {
            WorkloadStep::Rest | WorkloadStep::Neighbour(_) | WorkloadStep::Hasty(_) => {}
            WorkloadStep::Declare(shape) => self.declare(service, Shape::spec(shape)).await,
            WorkloadStep::Resume => self.change_order(service, DesiredState::Active, |_| ()).await,
            WorkloadStep::Pause => self.change_order(service, DesiredState::Paused, |_| ()).await,
            WorkloadStep::Route(hosts) => {
                let change = |order: &mut Order| orders::set_routes(order, hosts);
                self.change_order(service, DesiredState::Active, change).await;
            }
            WorkloadStep::Delete => self.change_order(service, DesiredState::Deleted, |_| ()).await,
            WorkloadStep::DeleteProject => self.delete_project().await,
            WorkloadStep::ForeignDelete(kinds) => {
                self.keys(service, kinds).iter().for_each(|key| self.fake.remove(key));
            }
            WorkloadStep::ForeignEdit(kind, field, value) => self.edit(service, *kind, |object| {
                if let Some(found) = object.pointer_mut(field) {
                    *found = value.clone();
                }
            }),
            WorkloadStep::ForeignAdd(kind, list, entry) => self.edit(service, *kind, |object| {
                let found = object.pointer_mut(list).and_then(Value::as_array_mut);
                found.into_iter().for_each(|entries| entries.push(entry.clone()));
            }),
            WorkloadStep::ForeignDeleteNamespace => {
                let namespace = &self.project.order.namespace;
                self.fake.remove(&ResourceKey::new(Kind::Namespace, "", namespace));
            }
        }
    }

    /// Runs slow controllers if they are due.
    fn run_controllers(&mut self) {
        let now = self.clock.monotonic();
        if let Some((pace, next)) = &mut self.controllers
            && *next <= now
        {
            *next = now + *pace;
            self.fake.settle_controllers();
        }
    }

    /// Receives reports for this long.
    async fn receive_reports(&mut self, time: Duration) {
        let over = self.clock.sleep(time);
        tokio::pin!(over);
        loop {
            let Some(running) = &mut self.running else { return over.await };
            let received = tokio::select! {
                biased;
                report = running.reports.recv() => report,
                () = &mut over => return,
            };
            match received {
                Some(report) => {
                    let was_surveyed = self.is_surveyed();
                    self.record_report(report);
                    self.renew_project_order(was_surveyed).await;
                }
                None => {
                    self.wrong.push("O10: the executor stopped unexpectedly".to_owned());
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
            WorkloadStep::Neighbour(step) => self.begin_of(SECOND, step).await,
            step => self.begin_of(FIRST, step).await,
        }
    }

    async fn reached(&mut self, step: &WorkloadStep) -> bool {
        let step = match step.inner() {
            WorkloadStep::Neighbour(step) => step,
            step => step,
        };
        match step {
            WorkloadStep::Declare(_)
            | WorkloadStep::Pause
            | WorkloadStep::Resume
            | WorkloadStep::Route(_)
            | WorkloadStep::Delete
            | WorkloadStep::Neighbour(_)
            | WorkloadStep::Hasty(_) => self.is_converged(),
            WorkloadStep::Rest | WorkloadStep::DeleteProject => {
                self.is_converged() && self.project.is_converged()
            }
            WorkloadStep::ForeignDelete(_)
            | WorkloadStep::ForeignEdit(..)
            | WorkloadStep::ForeignAdd(..)
            | WorkloadStep::ForeignDeleteNamespace => {
                self.is_converged() && same_specs(&self.fake.snapshot(), &self.before)
            }
        }
    }

    async fn advance(&mut self, time: Duration) {
        let until = self.clock.monotonic() + time;
        while let Some(left) = until.checked_sub(self.clock.monotonic()).filter(|it| !it.is_zero())
        {
            self.layer.renew_lease();
            self.run_controllers();
            self.receive_reports(left.min(TICK)).await;
        }
    }

    async fn restart(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.tasks.shutdown().await;
        }
        // Reports that the dead process did not send are lost.
        for unit in iter::once(&mut self.project).chain(self.services.values_mut()) {
            if !unit.has_ended() {
                unit.last = None;
            }
            if unit.order.desired != DesiredState::Deleted {
                unit.order = orders::recorded(unit.order.clone());
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

    async fn violations_at_rest(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        let all = || iter::once(&self.project).chain(self.services.values());
        let known = |key: &ResourceKey| all().any(|unit| unit.order.recorded.contains_key(key));
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
        wrong.extend(self.unreported_divergences());
        if self.project.last.as_ref().is_some_and(|last| last.outcome != Outcome::Converged) {
            wrong.push(format!("O10: the project did not converge: {:?}", self.project.last));
        }
        wrong
    }

    fn progress(&self) -> String {
        let of = |unit: &UnitHistory| {
            unit.last.as_ref().map(|last| (last.generation, last.outcome.clone()))
        };
        let services: Vec<_> = self.services.values().map(of).collect();
        format!("project {:?}, services {services:?}", of(&self.project))
    }
}

/// Whether both stages have the same kinds and specs.
///
/// The oracles compare the rest, because they report the difference and not only a timeout.
fn same_specs(now: &Stage, before: &Stage) -> bool {
    let kind = |key: &String| key.split('/').next().unwrap_or_default().to_owned();
    let specs = |stage: &Stage| -> Vec<(String, Value)> {
        stage.iter().map(|(key, object)| (kind(key), object["spec"].clone())).collect()
    };
    specs(now) == specs(before)
}
