//! What is measured of single services: how long a change takes until it is healthy, which ones
//! keep failing, and which ones another writer fights over.
//!
//! The driver notes orders, and the report tap reports. Only services in trouble have metrics of
//! their own, and at most a hundred of them: a label for each service would overload Prometheus.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use trueup_model::ClusterId;
use trueup_model::key::ResourceKey;
use trueup_model::order::{Body, Order, Unit};
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::status::{Health, Inputs, Status};
use trueup_model::wake::{Claimed, Lane};
use trueup_rules::status::project;

use crate::metrics::{Metrics, OfService};

/// A unit that fails for this long was tried more than five times: the executor's backoff starts
/// at half a second and doubles.
const FAILING: Duration = Duration::from_secs(30);
/// More repairs than this within this time are a fight with another writer.
const REPAIRS: usize = 5;
const FIGHT: Duration = Duration::from_secs(600);
/// The most services of one metric.
const MOST: usize = 100;

/// A service that became healthy for the first time in a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstHealthy {
    pub(crate) unit: Unit,
    pub(crate) generation: i64,
    pub(crate) at: Timestamp,
}

/// Measures single services. Clones share what they know.
#[derive(Debug, Clone)]
pub(crate) struct ServiceMeter {
    metrics: Metrics,
    cluster: ClusterId,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    units: BTreeMap<Unit, KnownUnit>,
    failing: BTreeSet<OfService>,
    fought: BTreeSet<OfService>,
}

#[derive(Debug)]
struct KnownUnit {
    labels: OfService,
    generation: i64,
    desired: DesiredState,
    /// Whether this generation was requested while this process worked, and is not healthy yet.
    awaited: bool,
    failing_since: Option<Duration>,
    /// When the last repairs of changes from outside ended.
    repairs: VecDeque<Duration>,
}

impl ServiceMeter {
    /// Nothing is known yet.
    pub(crate) fn new(metrics: Metrics, cluster: ClusterId) -> Self {
        Self { metrics, cluster, known: Arc::default() }
    }

    /// Notes an order that is given to the executor.
    pub(crate) fn ordered(&self, wake: &Claimed, order: &Order) {
        let mut known = self.known();
        let new = || KnownUnit {
            labels: labels(order),
            generation: 0,
            desired: order.desired,
            awaited: false,
            failing_since: None,
            repairs: VecDeque::new(),
        };
        let unit = known.units.entry(order.unit).or_insert_with(new);
        unit.desired = order.desired;
        if unit.generation < order.generation {
            unit.generation = order.generation;
            // A fresh wake asks for a check and not for a change.
            unit.awaited = wake.lane == Lane::UserChange && !wake.fresh;
        }
    }

    /// Notes a report; returns whether it is the first healthy one of its generation.
    pub(crate) fn reported(
        &self,
        report: &Report,
        now: Timestamp,
        at: Duration,
    ) -> Option<FirstHealthy> {
        let mut known = self.known();
        if report.receipt.is_some() {
            known.units.remove(&report.unit);
            return None;
        }
        let unit = known.units.get_mut(&report.unit)?;
        unit.failing_since = is_failing(&report.outcome).then(|| unit.failing_since.unwrap_or(at));
        if report.changes.iter().any(|change| changed_externally(change).is_some()) {
            unit.repairs.push_back(at);
            if unit.repairs.len() > REPAIRS.saturating_add(1) {
                unit.repairs.pop_front();
            }
        }
        let first = unit.awaited
            && unit.generation == report.generation
            && is_healthy(report, unit.desired, self.cluster, now);
        unit.awaited &= !first;
        first.then_some(FirstHealthy { unit: report.unit, generation: report.generation, at: now })
    }

    /// Sets the metrics of the services that keep failing or are fought over now.
    pub(crate) fn measure(&self, now: Duration) {
        let mut known = self.known();
        let known = &mut *known;
        let (mut failing, mut fought) = (BTreeSet::new(), BTreeSet::new());
        for unit in known.units.values_mut() {
            if unit.failing_since.is_some_and(|since| now.saturating_sub(since) >= FAILING) {
                failing.insert(unit.labels.clone());
            }
            unit.repairs.retain(|repair| now.saturating_sub(*repair) <= FIGHT);
            if unit.repairs.len() > REPAIRS {
                fought.insert(unit.labels.clone());
            }
        }
        show(&self.metrics.service_failing, &mut known.failing, failing);
        show(&self.metrics.service_fought, &mut known.fought, fought);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows exactly these services, at most a hundred. Those that stay are not touched, so that an
/// alert that waits for some minutes does not start again.
fn show(
    family: &Family<OfService, Gauge>,
    shown: &mut BTreeSet<OfService>,
    now: BTreeSet<OfService>,
) {
    shown.retain(|service| {
        let stays = now.contains(service);
        if !stays {
            family.remove(service);
        }
        stays
    });
    for service in now {
        if shown.len() >= MOST {
            return;
        }
        family.get_or_create(&service).set(1);
        shown.insert(service);
    }
}

fn labels(order: &Order) -> OfService {
    let (service, name) = match (&order.body, order.unit) {
        (Body::Service(body), Unit::Service(id)) => (id.to_string(), body.object_name.clone()),
        (Body::Service(_) | Body::Project, _) => (String::new(), order.namespace.clone()),
    };
    OfService { org: order.org.to_string(), project: order.project.to_string(), service, name }
}

const fn is_failing(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed { .. }
        | Outcome::Refused { .. }
        | Outcome::Outdated { .. }
        | Outcome::Broken { .. } => true,
        Outcome::Converged
        | Outcome::Waiting { .. }
        | Outcome::Deferred { .. }
        | Outcome::Locked { .. }
        | Outcome::Frozen { .. }
        | Outcome::Blocked { .. } => false,
    }
}

/// The object of a change that came from outside Trueup, and was reverted.
pub(crate) const fn changed_externally(change: &ObjectChange) -> Option<&ResourceKey> {
    match change {
        ObjectChange::DeletedExternally { key } | ObjectChange::ModifiedExternally { key, .. } => {
            Some(key)
        }
        ObjectChange::Created { .. }
        | ObjectChange::Updated { .. }
        | ObjectChange::Removed { .. } => None,
    }
}

/// Whether the status of this report is healthy. The previous status decides nothing about that.
fn is_healthy(report: &Report, desired: DesiredState, cluster: ClusterId, now: Timestamp) -> bool {
    let Some(observation) = report.observation.clone() else { return false };
    let inputs = Inputs {
        desired,
        generation: report.generation,
        cluster,
        previous: Status::accepted(now),
        observation,
        outcome: report.outcome.clone(),
        absent: false,
    };
    project(&inputs, now).health == Health::Healthy
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use trueup_model::drift::DriftPolicy;
    use trueup_model::key::Kind;
    use trueup_model::observation::{Observation, Sighting};
    use trueup_model::project::Project;

    use super::*;

    fn order(generation: i64) -> Order {
        Order::of_project(&Project {
            id: "prj_01h455vb4pex5vsknk084sn02q".parse().unwrap(),
            org: "org_01h455vb4pex5vsknk084sn02q".parse().unwrap(),
            name: "shop".parse().unwrap(),
            cluster: "cls_01h455vb4pex5vsknk084sn02q".parse().unwrap(),
            namespace: "shop-1".to_owned(),
            generation,
            drift: DriftPolicy::default(),
        })
    }

    fn wake(order: &Order, lane: Lane) -> Claimed {
        Claimed {
            unit: order.unit,
            org: order.org,
            cluster: "cls_01h455vb4pex5vsknk084sn02q".parse().unwrap(),
            lane,
            seq: 1,
            attempts: 0,
            poison: 0,
            fresh: false,
            trace: None,
        }
    }

    fn namespace() -> ResourceKey {
        ResourceKey::new(Kind::Namespace, "", "shop-1")
    }

    fn report(order: &Order, outcome: Outcome, changes: Vec<ObjectChange>) -> Report {
        let seen = Sighting {
            key: namespace(),
            uid: "1".to_owned(),
            resource_version: "1".to_owned(),
            terminating: false,
            bound: None,
            route: None,
            certificate: None,
        };
        let observation = Observation {
            generation: order.generation,
            applied: outcome == Outcome::Converged,
            objects: vec![seen],
            workload: None,
            pods: Vec::new(),
            missing: Vec::new(),
            divergences: Vec::new(),
            as_of: Timestamp::UNIX_EPOCH,
        };
        Report {
            unit: order.unit,
            org: order.org,
            generation: order.generation,
            observation: Some(observation),
            outcome,
            changes,
            receipt: None,
            survey: None,
        }
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A meter that knows an order of generation one, and what it exports.
    fn meter(lane: Lane) -> (ServiceMeter, Registry) {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let meter = ServiceMeter::new(metrics, "cls_01h455vb4pex5vsknk084sn02q".parse().unwrap());
        meter.ordered(&wake(&order(1), lane), &order(1));
        (meter, registry)
    }

    fn shows(registry: &Registry, metric: &str) -> bool {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text.contains(&format!("{metric}{{org=\"org_01h455vb4pex5vsknk084sn02q\""))
    }

    #[test]
    fn only_a_service_that_keeps_failing_is_named() {
        let (meter, registry) = meter(Lane::UserChange);
        let now = Timestamp::UNIX_EPOCH;
        let failed = |why: &str| report(&order(1), Outcome::Failed { why: why.to_owned() }, vec![]);
        meter.reported(&failed("one"), now, s(100));
        meter.reported(&failed("another"), now, s(120));
        meter.measure(s(129));
        assert!(!shows(&registry, "trueup_service_failing"));
        meter.measure(s(130));
        assert!(shows(&registry, "trueup_service_failing"));
        meter.reported(&report(&order(1), Outcome::Converged, vec![]), now, s(140));
        meter.measure(s(141));
        assert!(!shows(&registry, "trueup_service_failing"));
    }

    #[test]
    fn a_service_is_fought_over_after_more_than_five_repairs_in_ten_minutes() {
        let (meter, registry) = meter(Lane::UserChange);
        let repaired = || {
            let gone = ObjectChange::DeletedExternally { key: namespace() };
            report(&order(1), Outcome::Converged, vec![gone])
        };
        for second in 1..=5 {
            meter.reported(&repaired(), Timestamp::UNIX_EPOCH, s(second));
        }
        meter.measure(s(10));
        assert!(!shows(&registry, "trueup_service_fought"));
        meter.reported(&repaired(), Timestamp::UNIX_EPOCH, s(11));
        meter.measure(s(12));
        assert!(shows(&registry, "trueup_service_fought"));
        meter.measure(s(602));
        assert!(!shows(&registry, "trueup_service_fought"));
    }

    #[test]
    fn only_the_first_healthy_report_of_a_requested_generation_counts() {
        let (meter, _registry) = meter(Lane::UserChange);
        let now = Timestamp::UNIX_EPOCH;
        let waiting = Outcome::Waiting { on: "its pods".to_owned() };
        assert_eq!(meter.reported(&report(&order(1), waiting, vec![]), now, s(1)), None);
        let healthy = |generation| report(&order(generation), Outcome::Converged, vec![]);
        let first = FirstHealthy { unit: order(1).unit, generation: 1, at: now };
        assert_eq!(meter.reported(&healthy(1), now, s(2)), Some(first));
        assert_eq!(meter.reported(&healthy(1), now, s(3)), None, "it was measured");
        meter.ordered(&wake(&order(1), Lane::UserChange), &order(1));
        assert_eq!(meter.reported(&healthy(1), now, s(4)), None, "it is the same generation");
        meter.ordered(&wake(&order(2), Lane::UserChange), &order(2));
        assert_eq!(meter.reported(&healthy(1), now, s(5)), None, "it is an older generation");
        assert!(meter.reported(&healthy(2), now, s(6)).is_some());
    }

    #[test]
    fn generations_from_before_a_restart_are_not_measured() {
        let (meter, _registry) = meter(Lane::Sweep);
        let healthy = report(&order(1), Outcome::Converged, vec![]);
        assert_eq!(meter.reported(&healthy, Timestamp::UNIX_EPOCH, s(1)), None);
    }

    #[test]
    fn at_most_a_hundred_services_are_named() {
        let family: Family<OfService, Gauge> = Family::default();
        let mut registry = Registry::default();
        registry.register("named", "", family.clone());
        let named = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text.matches("named{").count()
        };
        let service = |number: u32| OfService {
            org: "org".to_owned(),
            project: "prj".to_owned(),
            service: format!("svc-{number:03}"),
            name: "web".to_owned(),
        };
        let mut shown = BTreeSet::new();
        show(&family, &mut shown, (0..150).map(service).collect());
        assert_eq!(named(), MOST);
        show(&family, &mut shown, (90..150).map(service).collect());
        assert_eq!(named(), 60);
        show(&family, &mut shown, BTreeSet::new());
        assert_eq!(named(), 0);
    }
}
