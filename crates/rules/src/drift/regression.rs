//! Regressions: a healthy service that became worse without a change of its desired state.
//!
//! It is a divergence like any other, with its own start, end and price, but no writer is known and
//! nothing can be reverted: Kubernetes repairs pods, and the status says what keeps them away.

use serde_json::Value;
use trueup_model::drift::{Divergence, DivergenceClass, DivergenceState, Verdict};
use trueup_model::service::DesiredState;
use trueup_model::status::{Health, Inputs, Status};

/// The field of a regression.
pub const FIELD: &str = "status";

/// What a new status means for a regression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Regression {
    /// It begins, or goes on with these values.
    Stands(Box<Divergence>),
    /// It ended like this.
    Ended(DivergenceState),
}

/// What this status, projected from these inputs, means; `open` is whether a regression stands.
/// `None` if nothing begins, changes or ends: also while the health is unknown.
///
/// It begins only if no other divergence of the workload stands, which would explain it and has a
/// price of its own.
#[must_use]
pub fn regression(inputs: &Inputs, status: &Status, open: bool) -> Option<Regression> {
    let same_generation = inputs.desired == DesiredState::Active
        && status.applied_generation == Some(inputs.generation)
        && inputs.previous.applied_generation == Some(inputs.generation);
    if !same_generation {
        return open.then_some(Regression::Ended(DivergenceState::Superseded));
    }
    match status.health {
        Health::Healthy => open.then_some(Regression::Ended(DivergenceState::Restored)),
        Health::Degraded | Health::Error => {
            let begins = inputs.previous.health == Health::Healthy && !is_explained(inputs);
            if !open && !begins {
                return None;
            }
            divergence(inputs, status).map(|divergence| Regression::Stands(Box::new(divergence)))
        }
        Health::Progressing | Health::Unknown => None,
    }
}

/// Whether another writer changed or deleted the workload.
fn is_explained(inputs: &Inputs) -> bool {
    inputs.observation.divergences.iter().any(|one| one.key.kind.is_workload())
}

/// The regression with the pods that should be ready and those that are; without such numbers, with
/// the health.
fn divergence(inputs: &Inputs, status: &Status) -> Option<Divergence> {
    let seen = &inputs.observation;
    let workload =
        seen.objects.iter().find(|one| one.key.kind.is_workload() && !one.terminating)?;
    let pods = seen.workload.as_ref().filter(|pods| pods.runs.is_none());
    let (wanted, live) = match pods {
        Some(pods) => (Value::from(pods.wanted), Value::from(pods.ready)),
        None => (Value::from(Health::Healthy.into_str()), Value::from(status.health.into_str())),
    };
    Some(Divergence {
        key: workload.key.clone(),
        field: FIELD.to_owned(),
        class: DivergenceClass::Regressed,
        wanted,
        live,
        by: None,
        verdict: Verdict::Enforce,
        state: DivergenceState::Open,
    })
}
