//! Checks a run without faults, because plans are compared with it.
//!
//! It uses a model of the desired state: whenever the desired state is the same again, the cluster
//! must be the same, too.

use std::collections::BTreeMap;

use super::learn::Reference;
use super::stage::{Stage, compare, without_generations, without_identity};
use super::workload::WorkloadStep;

/// The desired state after a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Desired {
    project_is_gone: bool,
    /// By service: shape, hosts, and whether it is paused.
    services: BTreeMap<usize, (String, Vec<&'static str>, bool)>,
}

/// Everything that is wrong about a reference.
///
/// `project` is the stage with a project and no service, `nothing` that of an unused cluster.
#[must_use]
pub fn unsound(reference: &Reference, project: &Stage, nothing: &Stage) -> Vec<String> {
    let mut wrong = reference.story.wrong.clone();
    let (steps, stages) = (&reference.workload.steps, &reference.story.stages);
    if steps.len() != stages.len() {
        wrong.push(format!("O7: {} steps, but {} stages", steps.len(), stages.len()));
    }
    let unstable = reference.unstable.iter();
    wrong.extend(unstable.map(|what| format!("O1: two runs without faults differ: {what}")));
    let gone = Desired { project_is_gone: true, ..Desired::default() };
    let mut desired = Desired::default();
    let mut seen: BTreeMap<Desired, &Stage> =
        BTreeMap::from([(desired.clone(), project), (gone, nothing)]);
    let mut before: Option<&Stage> = None;
    for (number, (step, stage)) in steps.iter().zip(stages).enumerate() {
        let is_request = desired.apply(0, step);
        if matches!(step, WorkloadStep::Hasty(_)) {
            continue;
        }
        let found = match (is_request, before) {
            // A foreign change: everything must be restored, generations included.
            (false, Some(before)) => compare(&without_identity(before), &without_identity(stage)),
            _ => match seen.get(&desired) {
                Some(same) => compare(&without_generations(same), &without_generations(stage)),
                None => Vec::new(),
            },
        };
        let describe = |what: &String| format!("O1: after step {number}, {step:?}, {what}");
        wrong.extend(found.iter().map(describe));
        seen.entry(desired.clone()).or_insert(stage);
        before = Some(stage);
    }
    wrong
}

impl Desired {
    /// Applies a step for this service; returns whether it is a user request.
    fn apply(&mut self, service: usize, step: &WorkloadStep) -> bool {
        match step {
            WorkloadStep::Neighbour(step) => return self.apply(1, step),
            WorkloadStep::Hasty(step) => return self.apply(service, step),
            WorkloadStep::Declare(shape) => {
                let hosts = self.services.get(&service).map(|(_, hosts, _)| hosts.clone());
                let desired = (format!("{shape:?}"), hosts.unwrap_or_default(), false);
                self.services.insert(service, desired);
            }
            WorkloadStep::Pause | WorkloadStep::Resume => {
                if let Some((_, _, paused)) = self.services.get_mut(&service) {
                    *paused = matches!(step, WorkloadStep::Pause);
                }
            }
            WorkloadStep::Route(hosts) => {
                if let Some((_, routed, paused)) = self.services.get_mut(&service) {
                    *routed = hosts.to_vec();
                    *paused = false;
                }
            }
            WorkloadStep::Delete => _ = self.services.remove(&service),
            WorkloadStep::DeleteProject => {
                *self = Self { project_is_gone: true, ..Self::default() }
            }
            WorkloadStep::Rest
            | WorkloadStep::ForeignDelete(_)
            | WorkloadStep::ForeignEdit(..)
            | WorkloadStep::ForeignAdd(..)
            | WorkloadStep::ForeignDeleteNamespace => {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::learn::{learn_alone, learn_bare};
    use super::super::workload::Workload;
    use super::*;

    #[test]
    fn reference_with_leftovers_or_partial_repair_is_unsound() {
        let (project, nothing) = learn_bare();
        let mut reference = learn_alone(Workload::named("storm-web").expect("a workload"));
        let wrong = unsound(&reference, &project, &nothing);
        assert!(wrong.is_empty(), "{wrong:#?}");
        let sound = reference.clone();
        let steps = reference.workload.steps.len();
        let mut objects = reference.story.stages[0].iter();
        let (key, object) = objects.find(|(key, _)| key.ends_with("-config")).expect("an object");
        let (key, object) = (key.clone(), object.clone());
        reference.story.stages[steps - 1].insert(key.clone(), object);
        let wrong = unsound(&reference, &project, &nothing);
        assert!(wrong.len() == 1 && wrong[0].contains("is left over"), "{wrong:#?}");

        let mut reference = sound.clone();
        reference.story.stages[1].get_mut(&key).expect("an object")["metadata"]["labels"] =
            serde_json::json!({});
        let wrong = unsound(&reference, &project, &nothing);
        assert!(wrong.iter().any(|what| what.contains("after step 1")), "{wrong:#?}");

        let mut reference = sound;
        reference.story.stages.pop();
        let wrong = unsound(&reference, &project, &nothing);
        assert!(wrong.len() == 1 && wrong[0].starts_with("O7"), "{wrong:#?}");
    }
}
