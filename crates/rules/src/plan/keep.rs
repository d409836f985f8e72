//! Live values that a write repeats, because it would otherwise reset what others decide.

use serde_json::Value;
use trueup_model::key::Kind;
use trueup_model::order::{Order, ServiceBody};

use super::Observed;
use crate::compare::diff::FieldDifference;
use crate::compare::edit::{guard, set};
use crate::render::{self, Rendered};

/// The desired object with the live values of these fields. A field that the live object lacks is
/// left out.
pub(super) fn with_live_values(wanted: &Value, kept: &[FieldDifference<'_>]) -> Value {
    let mut object = wanted.clone();
    // Backwards: removing an entry moves only those after it.
    for FieldDifference { path, live, .. } in kept.iter().rev() {
        set(&mut object, &path.0, Some(*live).filter(|live| !live.is_null()));
    }
    object
}

/// Keeps the replicas that an autoscaler set.
///
/// The write repeats the live number and is guarded by the uid and version it was read from. So the
/// field is never dropped, which would leave one pod, and never reset to an older number. An
/// autoscaler ignores a workload with zero replicas, so the first number is set here.
pub(super) fn keep_replicas(
    order: &Order,
    body: &ServiceBody,
    observed: &Observed,
    mut workload: Rendered,
) -> Rendered {
    let Some(start) = render::starting_replicas(order, body) else {
        return workload;
    };
    let live = observed.objects.get(&workload.key);
    let current = live.and_then(|live| live["spec"]["replicas"].as_u64()).filter(|n| *n > 0);
    workload.object["spec"]["replicas"] = current.unwrap_or_else(|| u64::from(start)).into();
    if let Some(live) = live {
        guard(&mut workload.object, live);
    }
    workload
}

/// Keeps the immutable fields of a live Job. So a new version of Trueup that renders pods
/// differently leaves runs of an earlier version alone.
pub(super) fn keep_job_fields(observed: &Observed, mut workload: Rendered) -> Rendered {
    if let (Kind::Job, Some(live)) = (workload.key.kind, observed.objects.get(&workload.key)) {
        for name in ["template", "completions", "completionMode"] {
            if let Some(kept) = live["spec"].get(name) {
                workload.object["spec"][name] = kept.clone();
            }
        }
    }
    workload
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::diff::differences;
    use serde_json::json;

    #[test]
    fn live_values_replace_desired_ones_and_missing_ones_are_left_out() {
        let env = |names: &[&str]| -> Vec<Value> {
            names.iter().map(|name| json!({"name": name, "value": "1"})).collect()
        };
        let wanted = json!({"spec": {"replicas": 2, "paused": true, "args": ["a", "b"],
                                     "env": env(&["A", "B", "C"])}});
        let live = json!({"spec": {"replicas": 5, "args": ["a", "z"], "env": env(&["B"])}});
        let kept = with_live_values(&wanted, &differences(&wanted, &live));
        assert_eq!(kept, live);
    }
}
