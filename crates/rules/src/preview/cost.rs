//! What a service costs by its plan and desired state. Charging observed usage is not done here.

use trueup_model::money::Money;
use trueup_model::plan::Plan;
use trueup_model::service::DesiredState;
use trueup_model::spec::Spec;

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
    }
}
