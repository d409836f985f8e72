//! What drift costs: pods that run and are not sold, or are sold and do not run.

use serde_json::Value;
use trueup_model::drift::{Divergence, DivergenceClass};
use trueup_model::key::Kind;
use trueup_model::money::Money;
use trueup_model::plan::Plan;
use trueup_model::spec::Spec;

/// The price of a divergence per hour: its pods by the rate of the plan. Fields other than the
/// number of pods cost nothing.
///
/// Of an autoscaled workload that was deleted, the maximum is counted, as it is for quota and price.
#[must_use]
pub fn hourly(spec: &Spec, plan: &Plan, divergence: &Divergence) -> Money {
    plan.hourly.times(pods(spec, divergence))
}

fn pods(spec: &Spec, divergence: &Divergence) -> i64 {
    let Divergence { key, field, class, wanted, live, .. } = divergence;
    match class {
        DivergenceClass::Deleted if key.kind.is_workload() => i64::from(spec.most_replicas()),
        DivergenceClass::Regressed => match (wanted.as_i64(), live.as_i64()) {
            (Some(wanted), Some(ready)) => wanted.saturating_sub(ready).max(0),
            (None, _) | (_, None) => 0,
        },
        DivergenceClass::Edited | DivergenceClass::ForeignWriter
            if matches!(key.kind, Kind::Deployment | Kind::StatefulSet)
                && field == "spec.replicas" =>
        {
            count(live).saturating_sub(count(wanted)).saturating_abs()
        }
        DivergenceClass::Deleted
        | DivergenceClass::Edited
        | DivergenceClass::ForeignWriter
        | DivergenceClass::Extra
        | DivergenceClass::BrokenProof => 0,
    }
}

/// A number of pods; Kubernetes runs one where none is stated.
fn count(replicas: &Value) -> i64 {
    replicas.as_i64().unwrap_or(1)
}

/// What an orphan would be sold for per hour, by the last spec and plan of the service on its label:
/// a workload all its pods, a claim its disk, everything else nothing.
///
/// The object itself names no plan, and a sweep reads metadata only. Without a record of the
/// service, or without a plan, the price is not known.
#[must_use]
pub fn finding_hourly(kind: Kind, spec: &Spec, plan: &Plan) -> Money {
    let nothing = plan.hourly.times(0);
    if kind.is_workload() {
        plan.hourly.times(i64::from(spec.most_replicas()))
    } else if kind == Kind::PersistentVolumeClaim {
        let size = spec.volume.as_ref().map_or(0, |volume| i64::from(volume.size_gib));
        nothing.plus(plan.disk_gib_hourly_micros.saturating_mul(size))
    } else {
        nothing
    }
}
