//! The metrics of the loops.

use std::sync::atomic::AtomicU64;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use trueup_model::cluster::Freshness;
use trueup_model::key::Kind;
use trueup_model::report::ObjectChange;
use trueup_model::wake::{Lane, WakeState};
use trueup_store::LaneLoad;

use crate::repair_times::RepairTimes;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Call {
    pub(crate) verb: &'static str,
    pub(crate) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Ended {
    pub(crate) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Verb {
    pub(crate) verb: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Waiting {
    pub(crate) lane: &'static str,
    pub(crate) state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct InLane {
    pub(crate) lane: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfClass {
    pub(crate) class: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfKind {
    pub(crate) kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ByCause {
    pub(crate) cause: &'static str,
}

/// A service, by its ids and the name of its objects; without a service, the project itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(crate) struct OfService {
    pub(crate) org: String,
    pub(crate) project: String,
    pub(crate) service: String,
    pub(crate) name: String,
}

/// The metrics of the loops. Labels are closed sets, never a message. Ids are the labels only of
/// services in trouble, and of at most a hundred (`service_meter`).
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) calls: Family<Call, Counter>,
    pub(crate) call_seconds: Family<Verb, Histogram>,
    pub(crate) reports: Family<Ended, Counter>,
    pub(crate) reconcile_seconds: Family<ByCause, Histogram>,
    pub(crate) accept_to_healthy_seconds: Histogram,
    pub(crate) service_failing: Family<OfService, Gauge>,
    pub(crate) service_fought: Family<OfService, Gauge>,
    pub(crate) repair_times: RepairTimes,
    pub(crate) wakes: Family<Waiting, Gauge>,
    pub(crate) wake_age_seconds: Family<InLane, Gauge<f64, AtomicU64>>,
    pub(crate) unsealed_events: Gauge,
    pub(crate) seal_lag_seconds: Gauge<f64, AtomicU64>,
    pub(crate) lease_held: Gauge,
    pub(crate) drift: Family<OfClass, Counter>,
    pub(crate) watch_starts: Family<OfKind, Counter>,
    pub(crate) watch_age_seconds: Family<OfKind, Gauge<f64, AtomicU64>>,
    pub(crate) silent_kinds: Gauge,
    pub(crate) cluster_reachable: Gauge,
    pub(crate) deletes_overdue: Gauge,
    pub(crate) usage_silent_seconds: Gauge<f64, AtomicU64>,
    pub(crate) capacity_unexplained_days: Gauge,
    pub(crate) previews: Family<Ended, Counter>,
    pub(crate) domain_checks: Family<Ended, Counter>,
}

impl Metrics {
    /// Creates the metrics and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let seconds = || Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0]);
        let metrics = Self {
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(seconds),
            reports: Family::default(),
            reconcile_seconds: Family::new_with_constructor(seconds),
            accept_to_healthy_seconds: Histogram::new([
                0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0,
            ]),
            service_failing: Family::default(),
            service_fought: Family::default(),
            repair_times: RepairTimes::default(),
            wakes: Family::default(),
            wake_age_seconds: Family::default(),
            unsealed_events: Gauge::default(),
            seal_lag_seconds: Gauge::default(),
            lease_held: Gauge::default(),
            drift: Family::default(),
            watch_starts: Family::default(),
            watch_age_seconds: Family::default(),
            silent_kinds: Gauge::default(),
            cluster_reachable: Gauge::default(),
            deletes_overdue: Gauge::default(),
            usage_silent_seconds: Gauge::default(),
            capacity_unexplained_days: Gauge::default(),
            previews: Family::default(),
            domain_checks: Family::default(),
        };
        metrics.register_observed(registry);
        metrics.register_services(registry);
        let m = &metrics;
        registry.register(
            "trueup_cluster_calls",
            "Calls to the cluster by verb and outcome",
            m.calls.clone(),
        );
        registry.register(
            "trueup_cluster_call_seconds",
            "Duration of calls to the cluster",
            m.call_seconds.clone(),
        );
        registry.register("trueup_reports", "Reports of executors by outcome", m.reports.clone());
        registry.register(
            "trueup_wakes",
            "Wakes by lane and state: queued, running or dead",
            m.wakes.clone(),
        );
        registry.register(
            "trueup_wake_age_seconds",
            "Time since the oldest wake of a lane became due",
            m.wake_age_seconds.clone(),
        );
        registry.register(
            "trueup_unsealed_events",
            "Events that are not sealed yet",
            m.unsealed_events.clone(),
        );
        registry.register(
            "trueup_seal_lag_seconds",
            "Age of the oldest event that is not sealed yet",
            m.seal_lag_seconds.clone(),
        );
        registry.register(
            "trueup_lease_held",
            "Whether this process holds its cluster's lease",
            m.lease_held.clone(),
        );
        metrics
    }

    /// Registers what is observed of clusters and DNS, and the state of deletions and previews.
    fn register_observed(&self, registry: &mut Registry) {
        registry.register(
            "trueup_domain_checks",
            "DNS checks for domain verification, by outcome",
            self.domain_checks.clone(),
        );
        registry.register(
            "trueup_deletes_overdue",
            "Deletions requested more than ten minutes ago whose absence is not verified",
            self.deletes_overdue.clone(),
        );
        registry.register(
            "trueup_usage_silent_seconds",
            "Seconds since the most silent source of usage was heard; measured by the lease holder",
            self.usage_silent_seconds.clone(),
        );
        registry.register(
            "trueup_capacity_unexplained_days",
            "Recent days on which more was used than the nodes had; measured by the lease holder",
            self.capacity_unexplained_days.clone(),
        );
        registry.register(
            "trueup_drift",
            "Changes to owned objects from outside Trueup, by class: deleted or modified",
            self.drift.clone(),
        );
        registry.register(
            "trueup_watch_starts",
            "Watches started, by kind",
            self.watch_starts.clone(),
        );
        registry.register(
            "trueup_watch_age_seconds",
            "Seconds since the last watch event, by kind",
            self.watch_age_seconds.clone(),
        );
        registry.register(
            "trueup_preview_requests",
            "Exact previews by result: filled, failed or void",
            self.previews.clone(),
        );
        registry.register(
            "trueup_silent_kinds",
            "Kinds whose watch is stale, so that statuses that depend on them are unknown",
            self.silent_kinds.clone(),
        );
        registry.register(
            "trueup_cluster_reachable",
            "Whether the cluster answers; measured by the process that holds its lease",
            self.cluster_reachable.clone(),
        );
    }

    /// Registers what is measured of single services.
    fn register_services(&self, registry: &mut Registry) {
        registry.register(
            "trueup_reconcile_seconds",
            "Time of a reconciliation by cause: for a user's request from its order to the end of \
             the first pass, for a repair from the change that was noticed, or from its order",
            self.reconcile_seconds.clone(),
        );
        registry.register(
            "trueup_accept_to_healthy_seconds",
            "Time from the acceptance of a generation to its first healthy status",
            self.accept_to_healthy_seconds.clone(),
        );
        registry.register(
            "trueup_service_failing",
            "Services whose reconciliation failed more than five times in a row; at most 100",
            self.service_failing.clone(),
        );
        registry.register(
            "trueup_service_fought",
            "Services with more than five repaired changes from outside in ten minutes; at most 100",
            self.service_fought.clone(),
        );
    }

    /// Counts the changes of a report that came from outside Trueup.
    pub(crate) fn drift(&self, changes: &[ObjectChange]) {
        for change in changes {
            let class = match change {
                ObjectChange::DeletedExternally { .. } => "deleted",
                ObjectChange::ModifiedExternally { .. } => "modified",
                ObjectChange::Created { .. }
                | ObjectChange::Updated { .. }
                | ObjectChange::Removed { .. } => {
                    continue;
                }
            };
            self.drift.get_or_create(&OfClass { class }).inc();
        }
    }

    /// Sets the age of each kind's watch.
    pub(crate) fn watches(&self, freshness: &Freshness, now: Timestamp) {
        for (kind, heard) in &freshness.heard {
            let age = now.duration_since(*heard).as_secs_f64().max(0.0);
            self.watch_age_seconds.get_or_create(&OfKind { kind: kind.as_str() }).set(age);
        }
        let silent = freshness.silent(&Kind::WATCHED, now).len();
        self.silent_kinds.set(i64::try_from(silent).unwrap_or(i64::MAX));
    }

    /// Resets the metrics that only the lease holder reports.
    pub(crate) fn stand_by(&self) {
        self.lease_held.set(0);
        self.watch_age_seconds.clear();
        self.service_failing.clear();
        self.service_fought.clear();
        self.silent_kinds.set(0);
        self.cluster_reachable.set(0);
    }

    /// Sets the number of wakes in each lane, and the age of the oldest.
    pub(crate) fn wakes(&self, loads: &[LaneLoad], now: Timestamp) {
        for lane in Lane::ALL {
            let load = loads.iter().find(|load| load.lane == lane);
            let count = |of: fn(&LaneLoad) -> i64| load.map_or(0, of);
            let states = [
                (WakeState::Queued, count(|load| load.queued)),
                (WakeState::Running, count(|load| load.running)),
                (WakeState::Dead, count(|load| load.dead)),
            ];
            let lane = lane.into_str();
            for (state, count) in states {
                let of = Waiting { lane, state: state.into_str() };
                self.wakes.get_or_create(&of).set(count);
            }
            let oldest = load.and_then(|load| load.oldest_due);
            let age = oldest.map_or(0.0, |due| now.duration_since(due).as_secs_f64().max(0.0));
            self.wake_age_seconds.get_or_create(&InLane { lane }).set(age);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prometheus_client::encoding::text::encode;
    use trueup_model::key::ResourceKey;

    use super::*;

    const ALERTS: &str = include_str!("../../../deploy/alerts.yaml");

    /// The names of Trueup's metrics in a text, without the suffixes of Prometheus.
    fn names(text: &str) -> BTreeSet<String> {
        text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .filter(|word| word.starts_with("trueup_"))
            .map(|word| {
                let suffixes = ["_total", "_bucket", "_count", "_sum"];
                suffixes.iter().find_map(|it| word.strip_suffix(it)).unwrap_or(word).to_owned()
            })
            .collect()
    }

    fn encoded(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn every_metric_used_by_an_alert_exists() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        // A family is not exported before one of its metrics is set.
        metrics.wakes(&[], Timestamp::UNIX_EPOCH);
        metrics.watches(&Freshness::all_at(Timestamp::UNIX_EPOCH), Timestamp::UNIX_EPOCH);
        let key = ResourceKey::new(Kind::ConfigMap, "shop", "web");
        metrics.drift(&[ObjectChange::DeletedExternally { key }]);
        metrics.calls.get_or_create(&Call { verb: "get", outcome: "ok" }).inc();
        metrics.call_seconds.get_or_create(&Verb { verb: "get" }).observe(0.1);
        metrics.reports.get_or_create(&Ended { outcome: "failed" }).inc();
        let service = || OfService {
            org: "org".to_owned(),
            project: "prj".to_owned(),
            service: "svc".to_owned(),
            name: "web".to_owned(),
        };
        metrics.service_failing.get_or_create(&service()).set(1);
        metrics.service_fought.get_or_create(&service()).set(1);
        let unknown: Vec<String> =
            names(ALERTS).difference(&names(&encoded(&registry))).cloned().collect();
        assert!(unknown.is_empty(), "unknown metrics: {unknown:?}");
    }

    #[test]
    fn every_alert_has_expression_severity_summary_and_description() {
        let alerts: Vec<&str> = ALERTS.split("- alert: ").skip(1).collect();
        assert!(alerts.len() >= 8, "{}", alerts.len());
        for alert in alerts {
            for part in ["expr: ", "severity: ", "summary: ", "description: "] {
                assert_eq!(alert.matches(part).count(), 1, "{part} of {alert}");
            }
        }
    }

    #[test]
    fn standby_process_reports_only_the_work_queue() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.lease_held.set(1);
        metrics.cluster_reachable.set(1);
        metrics.wakes(&[], Timestamp::UNIX_EPOCH);
        let late = Timestamp::from_second(1_000).unwrap();
        metrics.watches(&Freshness::all_at(Timestamp::UNIX_EPOCH), late);
        metrics.stand_by();
        let text = encoded(&registry);
        assert!(text.contains("trueup_lease_held 0\n"), "{text}");
        assert!(text.contains("trueup_silent_kinds 0\n"), "{text}");
        assert!(text.contains("trueup_cluster_reachable 0\n"), "{text}");
        assert!(!text.contains("trueup_watch_age_seconds{"), "{text}");
        // F50: if no process holds the lease, standby processes still report the age of waiting
        // work.
        assert!(text.contains("trueup_wake_age_seconds{"), "{text}");
    }

    #[test]
    fn only_external_changes_count_as_drift() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let key = ResourceKey::new(Kind::ConfigMap, "shop", "web");
        metrics.drift(&[
            ObjectChange::Created { key: key.clone() },
            ObjectChange::DeletedExternally { key: key.clone() },
            ObjectChange::ModifiedExternally { key, fields: Vec::new() },
        ]);
        let text = encoded(&registry);
        assert!(text.contains("trueup_drift_total{class=\"deleted\"} 1"), "{text}");
        assert!(text.contains("trueup_drift_total{class=\"modified\"} 1"), "{text}");
    }

    #[test]
    fn kind_with_a_stale_watch_counts_as_silent() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut freshness = Freshness::all_at(at(1_000));
        freshness.heard.insert(Kind::Pod, at(900));
        metrics.watches(&freshness, at(1_001));
        let text = encoded(&registry);
        assert!(text.contains("trueup_silent_kinds 1\n"), "{text}");
        assert!(text.contains("trueup_watch_age_seconds{kind=\"Pod\"} 101.0"), "{text}");
    }
}
