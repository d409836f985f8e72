//! What the loops count, from the first day.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

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

/// The loops' counters. Labels are closed sets: never an id, never a message.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) calls: Family<Call, Counter>,
    pub(crate) call_seconds: Family<Verb, Histogram>,
    pub(crate) reports: Family<Ended, Counter>,
    pub(crate) reconcile_seconds: Histogram,
    pub(crate) wakes_queued: Gauge,
    pub(crate) wakes_running: Gauge,
    pub(crate) unsealed_events: Gauge,
    pub(crate) seal_lag_seconds: Gauge<f64, AtomicU64>,
    pub(crate) lease_held: Gauge,
    pub(crate) deletes_overdue: Gauge,
}

impl Metrics {
    /// Makes the counters and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let seconds = || Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0]);
        let metrics = Self {
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(seconds),
            reports: Family::default(),
            reconcile_seconds: seconds(),
            wakes_queued: Gauge::default(),
            wakes_running: Gauge::default(),
            unsealed_events: Gauge::default(),
            seal_lag_seconds: Gauge::default(),
            lease_held: Gauge::default(),
            deletes_overdue: Gauge::default(),
        };
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
            "trueup_reconcile_seconds",
            "From an order to the end of its first pass",
            m.reconcile_seconds.clone(),
        );
        registry.register("trueup_wakes_queued", "Wakes that wait", m.wakes_queued.clone());
        registry.register(
            "trueup_wakes_running",
            "Wakes that are worked on",
            m.wakes_running.clone(),
        );
        registry.register(
            "trueup_unsealed_events",
            "Events that wait for the sealer",
            m.unsealed_events.clone(),
        );
        registry.register(
            "trueup_seal_lag_seconds",
            "Age of the oldest event that waits for the sealer",
            m.seal_lag_seconds.clone(),
        );
        registry.register(
            "trueup_deletes_overdue",
            "Deletions that were asked for more than ten minutes ago and are not proved yet",
            m.deletes_overdue.clone(),
        );
        registry.register(
            "trueup_lease_held",
            "Whether this process holds its cluster's lease",
            m.lease_held.clone(),
        );
        metrics
    }
}
