//! Whether a run without faults is right by itself: plans are judged against it, so it must not be judged
//! against itself.
//!
//! The measure is a model of what was asked: whenever the same is asked for again, the same must stand there.

use std::collections::BTreeMap;

use super::learn::Reference;
use super::stage::{Stage, compare, without_generations, without_identity};
use super::workload::WorkloadStep;

/// What is asked for at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    project_is_gone: bool,
    /// By service: the shape, the hosts, and whether it is paused.
    services: BTreeMap<usize, (String, Vec<&'static str>, bool)>,
}

/// Everything that is wrong about a reference.
///
/// `project` is the stage with a project and no service, `nothing` that of a cluster which was never used.
#[must_use]
pub fn unsound(reference: &Reference, project: &Stage, nothing: &Stage) -> Vec<String> {
    let mut wrong = reference.story.wrong.clone();
    let (steps, stages) = (&reference.workload.steps, &reference.story.stages);
    if steps.len() != stages.len() {
        wrong.push(format!("O7: {} steps, and {} stages", steps.len(), stages.len()));
    }
    let unstable = reference.unstable.iter();
    wrong.extend(unstable.map(|what| format!("O1: between two runs without a fault {what}")));
    let gone = Asked { project_is_gone: true, ..Asked::default() };
    let mut asked = Asked::default();
    let mut seen: BTreeMap<Asked, &Stage> =
        BTreeMap::from([(asked.clone(), project), (gone, nothing)]);
    let mut before: Option<&Stage> = None;
    for (number, (step, stage)) in steps.iter().zip(stages).enumerate() {
        let is_asked = asked.take(0, step);
        if matches!(step, WorkloadStep::Hasty(_)) {
            continue;
        }
        let found = match (is_asked, before) {
            // Others did something: everything is as it was, to the last generation.
            (false, Some(before)) => compare(&without_identity(before), &without_identity(stage)),
            _ => match seen.get(&asked) {
                Some(same) => compare(&without_generations(same), &without_generations(stage)),
                None => Vec::new(),
            },
        };
        let told = |what: &String| format!("O1: after step {number}, {step:?}, {what}");
        wrong.extend(found.iter().map(told));
        seen.entry(asked.clone()).or_insert(stage);
        before = Some(stage);
    }
    wrong
}

impl Asked {
    /// Takes a step of this service; says whether it asks for anything.
    fn take(&mut self, service: usize, step: &WorkloadStep) -> bool {
        match step {
            WorkloadStep::Beside(step) => return self.take(1, step),
            WorkloadStep::Hasty(step) => return self.take(service, step),
            WorkloadStep::Declare(shape) => {
                let hosts = self.services.get(&service).map(|(_, hosts, _)| hosts.clone());
                let asked = (format!("{shape:?}"), hosts.unwrap_or_default(), false);
                self.services.insert(service, asked);
            }
            WorkloadStep::Pause | WorkloadStep::Resume => {
                if let Some((_, _, paused)) = self.services.get_mut(&service) {
                    *paused = matches!(step, WorkloadStep::Pause);
                }
            }
            WorkloadStep::Lead(hosts) => {
                if let Some((_, led, paused)) = self.services.get_mut(&service) {
                    *led = hosts.to_vec();
                    *paused = false;
                }
            }
            WorkloadStep::Delete => _ = self.services.remove(&service),
            WorkloadStep::DeleteProject => {
                *self = Self { project_is_gone: true, ..Self::default() }
            }
            WorkloadStep::Rest
            | WorkloadStep::Lose(_)
            | WorkloadStep::Edit(..)
            | WorkloadStep::Add(..)
            | WorkloadStep::LoseNamespace => {
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
    fn reference_that_leaves_something_behind_or_repairs_half_is_unsound() {
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
        reference.story.stages[1].get_mut(&key).expect("it should stand")["metadata"]["labels"] =
            serde_json::json!({});
        let wrong = unsound(&reference, &project, &nothing);
        assert!(wrong.iter().any(|what| what.contains("after step 1")), "{wrong:#?}");

        let mut reference = sound;
        reference.story.stages.pop();
        let wrong = unsound(&reference, &project, &nothing);
        assert!(wrong.len() == 1 && wrong[0].starts_with("O7"), "{wrong:#?}");
    }
}
