//! What a service costs by its plan and desired state. Charging observed usage is not done here.

use trueup_model::money::Money;
use trueup_model::plan::Plan;
use trueup_model::service::DesiredState;
use trueup_model::spec::Spec;

use crate::active_hours::WEEK;

/// A cent, in millionths of the unit.
const CENT: i128 = 10_000;
/// Hours in a month, as prices are usually quoted: 365 × 24 ÷ 12.
pub const HOURS_PER_MONTH: i64 = 730;

/// The hourly price of running pods and of disks. With autoscaling, this is the maximum.
#[must_use]
pub fn hourly(spec: &Spec, desired: DesiredState, plan: &Plan) -> Money {
    let running = match desired {
        DesiredState::Active => i64::from(spec.most_replicas()),
        DesiredState::Paused | DesiredState::Deleted => 0,
    };
    let disk_gib = match desired {
        DesiredState::Active | DesiredState::Paused => {
            let size = spec.volume.as_ref().map_or(0, |volume| i64::from(volume.size_gib));
            size.saturating_mul(i64::from(spec.most_replicas()))
        }
        DesiredState::Deleted => 0,
    };
    plan.hourly.times(running).plus(plan.disk_gib_hourly_micros.saturating_mul(disk_gib))
}

/// The monthly price.
#[must_use]
pub const fn monthly(hourly: Money) -> Money {
    hourly.times(HOURS_PER_MONTH)
}

/// What a service with active hours costs per month, and how much less that is than without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduled {
    /// The monthly price.
    pub monthly: Money,
    /// What the hours save.
    pub saved: Money,
}

/// The monthly price of a service that runs so many minutes of each week.
#[must_use]
pub fn scheduled(spec: &Spec, minutes_per_week: u32, plan: &Plan) -> Scheduled {
    let always = monthly(hourly(spec, DesiredState::Active, plan));
    let paused = monthly(hourly(spec, DesiredState::Paused, plan));
    let off = i128::from(WEEK.saturating_sub(minutes_per_week));
    let less = i128::from(always.micros).saturating_sub(i128::from(paused.micros));
    // To the cent: an estimate of a month is no more exact than that.
    let saved = less.saturating_mul(off) / i128::from(WEEK) / CENT * CENT;
    let saved = i64::try_from(saved).unwrap_or(i64::MAX);
    Scheduled {
        monthly: always.plus(saved.saturating_neg()),
        saved: Money { micros: saved, ..always },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_paused_service_pays_only_for_its_disk() {
        let plan: Plan = serde_json::from_value(json!({
            "name": "small", "summary": "", "resources": {"cpu_millis": 250, "memory_mib": 256},
            "hourly": {"micros": 6000, "currency": "EUR"}, "disk_gib_hourly_micros": 100,
        }))
        .unwrap();
        let spec: Spec = serde_json::from_value(json!({
            "workload": "stateful_set", "image": "a", "replicas": 3, "ports": [],
            "resources": {"cpu_millis": 250, "memory_mib": 256},
            "volume": {"size_gib": 10, "path": "/data"},
        }))
        .unwrap();
        let table = [
            (DesiredState::Active, 3 * 6000 + 30 * 100),
            (DesiredState::Paused, 30 * 100),
            (DesiredState::Deleted, 0),
        ];
        for (desired, micros) in table {
            assert_eq!(hourly(&spec, desired, &plan).micros, micros, "{desired:?}");
        }
        assert_eq!(monthly(hourly(&spec, DesiredState::Paused, &plan)).micros, 3000 * 730);
        // A third of the week: the pods cost a third, the disks all of it.
        let scheduled = scheduled(&spec, 7 * 24 * 60 / 3, &plan);
        assert_eq!(scheduled.monthly.micros, (6000 + 3000) * 730);
        assert_eq!(scheduled.saved.micros, 12_000 * 730);
    }
}
