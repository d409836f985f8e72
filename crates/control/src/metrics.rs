//! What the loops count, from the first day.

use std::sync::atomic::AtomicU64;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use trueup_model::wake::{Lane, WakeState};
use trueup_store::LaneLoad;

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

/// The loops' counters. Labels are closed sets: never an id, never a message.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) calls: Family<Call, Counter>,
    pub(crate) call_seconds: Family<Verb, Histogram>,
    pub(crate) reports: Family<Ended, Counter>,
    pub(crate) reconcile_seconds: Histogram,
    pub(crate) wakes: Family<Waiting, Gauge>,
    pub(crate) wake_age_seconds: Family<InLane, Gauge<f64, AtomicU64>>,
    pub(crate) unsealed_events: Gauge,
    pub(crate) seal_lag_seconds: Gauge<f64, AtomicU64>,
    pub(crate) lease_held: Gauge,
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
            wakes: Family::default(),
            wake_age_seconds: Family::default(),
            unsealed_events: Gauge::default(),
            seal_lag_seconds: Gauge::default(),
            lease_held: Gauge::default(),
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
        registry.register(
            "trueup_wakes",
            "Wakes by lane and state: queued, running or dead",
            m.wakes.clone(),
        );
        registry.register(
            "trueup_wake_age_seconds",
            "For how long the oldest wake of a lane has been due",
            m.wake_age_seconds.clone(),
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
            "trueup_lease_held",
            "Whether this process holds its cluster's lease",
            m.lease_held.clone(),
        );
        metrics
    }
    /// Notes how much waits in each lane, and for how long.
    pub(crate) fn wakes(&self, loads: &[LaneLoad], now: Timestamp) {
        for lane in Lane::ALL {
            let load = loads.iter().find(|load| load.lane == lane);
            let count = |of: fn(&LaneLoad) -> i64| load.map_or(0, of);
            let states = [
                (WakeState::Queued, count(|load| load.queued)),
                (WakeState::Running, count(|load| load.running)),
                (WakeState::Dead, count(|load| load.dead)),
            ];
            let lane = lane.as_str();
            for (state, count) in states {
                let of = Waiting { lane, state: state.as_str() };
                self.wakes.get_or_create(&of).set(count);
            }
            let oldest = load.and_then(|load| load.oldest_due);
            let age = oldest.map_or(0.0, |due| now.duration_since(due).as_secs_f64().max(0.0));
            self.wake_age_seconds.get_or_create(&InLane { lane }).set(age);
        }
    }
}
