//! What people see, computed from evidence alone. The same inputs always give the same bytes.

use jiff::Timestamp;
use trueup_model::key::Kind;
use trueup_model::observation::{Observation, PodSeen};
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_model::status::{
    Condition, Evidence, Health, Inputs, Phase, Reason, Reconciliation, Status,
};

/// The status that these inputs prove at this time.
#[must_use]
pub fn project(inputs: &Inputs, as_of: Timestamp) -> Status {
    let applied_generation = applied_generation(inputs);
    let phase = phase(inputs, applied_generation);
    let previous = &inputs.previous;
    Status {
        phase,
        since: if phase == previous.phase { previous.since } else { as_of },
        health: health(inputs, phase),
        conditions: conditions(inputs),
        applied_generation,
        evidence: (inputs.observation.generation > 0).then(|| evidence(inputs)),
    }
}

/// Whether a status is the end of the story for what is promised now.
#[must_use]
pub fn reconciliation(status: &Status, generation: i64, stale: bool) -> Reconciliation {
    match status.phase {
        Phase::Deleted => Reconciliation::Settled,
        Phase::Blocked => Reconciliation::Diverged,
        Phase::Accepted | Phase::Creating | Phase::Updating | Phase::Deleting => {
            Reconciliation::Pending
        }
        Phase::Running | Phase::Paused => {
            if status.applied_generation != Some(generation) || stale || unheard(status) {
                Reconciliation::Pending
            } else if status.conditions.is_empty() {
                Reconciliation::Settled
            } else {
                Reconciliation::Diverged
            }
        }
    }
}

/// Nothing was compared with the cluster: that reality differs would be a guess.
fn unheard(status: &Status) -> bool {
    status.conditions.iter().any(|condition| {
        matches!(condition.reason, Reason::ClusterUnreachable | Reason::SecretsLocked)
    })
}

/// What a status says when its evidence is too old: Unknown, with the last known value beside it.
#[must_use]
pub fn aged(status: Status, stale: bool) -> (Status, Option<Health>) {
    let settled_for_good = status.phase == Phase::Deleted;
    if !stale || settled_for_good || status.evidence.is_none() {
        return (status, None);
    }
    let last_known = Some(status.health).filter(|health| *health != Health::Unknown);
    let mut conditions = status.conditions;
    conditions.push(Condition {
        reason: Reason::Stale,
        message: "the cluster has not been heard for a while; this is what was seen last"
            .to_owned(),
    });
    (Status { health: Health::Unknown, conditions, ..status }, last_known)
}

fn applied_generation(inputs: &Inputs) -> Option<i64> {
    if inputs.observation.applied {
        Some(inputs.observation.generation)
    } else {
        inputs.previous.applied_generation
    }
}

fn phase(inputs: &Inputs, applied: Option<i64>) -> Phase {
    if inputs.absent {
        return Phase::Deleted;
    }
    if matches!(inputs.outcome, Outcome::Blocked { .. }) {
        return Phase::Blocked;
    }
    match inputs.desired {
        DesiredState::Deleted => Phase::Deleting,
        DesiredState::Paused if applied == Some(inputs.generation) && rests(inputs) => {
            Phase::Paused
        }
        DesiredState::Active if applied == Some(inputs.generation) && serves(inputs) => {
            Phase::Running
        }
        DesiredState::Paused | DesiredState::Active => underway(inputs, applied),
    }
}

/// It runs as promised, or did and only its pods changed since.
fn serves(inputs: &Inputs) -> bool {
    let ran = inputs.previous.phase == Phase::Running
        && inputs.previous.applied_generation == Some(inputs.generation);
    ran || is_complete(&inputs.observation)
}

/// Nothing runs any more: the workload says so, and no pod contradicts it.
fn rests(inputs: &Inputs) -> bool {
    is_complete(&inputs.observation) && inputs.observation.pods.is_empty()
}

/// Every pod is of the newest revision and ready.
///
/// Ready pods alone prove nothing: in the middle of a roll the old revision's are counted too. No
/// workload proves less: only a project has none, and its namespace is what there is to see of it.
fn is_complete(seen: &Observation) -> bool {
    match &seen.workload {
        Some(pods) => pods.current && [pods.existing, pods.updated, pods.ready] == [pods.wanted; 3],
        None => seen
            .objects
            .iter()
            .any(|object| object.key.kind == Kind::Namespace && !object.terminating),
    }
}

fn underway(inputs: &Inputs, applied: Option<i64>) -> Phase {
    let nothing_yet = applied.is_none() && inputs.observation.objects.is_empty();
    let ran_before = match inputs.previous.phase {
        Phase::Running | Phase::Updating | Phase::Paused => true,
        // Blocked hides what was before it; a generation that was carried whole does not.
        Phase::Blocked => inputs.previous.applied_generation.is_some(),
        Phase::Accepted | Phase::Creating | Phase::Deleting | Phase::Deleted => false,
    };
    if nothing_yet {
        Phase::Accepted
    } else if ran_before {
        Phase::Updating
    } else {
        Phase::Creating
    }
}

fn health(inputs: &Inputs, phase: Phase) -> Health {
    if matches!(inputs.outcome, Outcome::Deferred { .. }) || phase == Phase::Accepted {
        return Health::Unknown;
    }
    let in_trouble = |pod: &PodSeen| pod.problem.as_ref().is_some_and(|it| !it.cause.is_passing());
    let pods_in_trouble = inputs.observation.pods.iter().any(in_trouble);
    let workload = inputs.observation.workload.as_ref();
    let (ready, wanted) = workload.map_or((0, 0), |seen| (seen.ready, seen.wanted));
    match phase {
        // What blocks a change does not stop the pods that serve already.
        Phase::Blocked if ready > 0 => Health::Degraded,
        Phase::Blocked => Health::Error,
        Phase::Paused => Health::Healthy,
        // Nothing is left that could be well or ill.
        Phase::Deleted => Health::Unknown,
        Phase::Running if is_complete(&inputs.observation) => Health::Healthy,
        Phase::Running if ready > 0 && ready < wanted => Health::Degraded,
        Phase::Running | Phase::Creating | Phase::Updating if pods_in_trouble => {
            if ready > 0 {
                Health::Degraded
            } else {
                Health::Error
            }
        }
        Phase::Running | Phase::Creating | Phase::Updating | Phase::Deleting | Phase::Accepted => {
            Health::Progressing
        }
    }
}

fn conditions(inputs: &Inputs) -> Vec<Condition> {
    let from_outcome = match &inputs.outcome {
        Outcome::Converged => None,
        Outcome::Waiting { on } => Some((Reason::Waiting, format!("waiting for {on}"))),
        Outcome::Deferred { why } => Some((Reason::ClusterUnreachable, why.clone())),
        Outcome::Locked { why } => Some((Reason::SecretsLocked, why.clone())),
        Outcome::Blocked { why } => Some((Reason::Blocked, why.clone())),
        Outcome::Failed { why } => Some((Reason::ClusterError, why.clone())),
    };
    let mut conditions: Vec<Condition> = from_outcome
        .into_iter()
        .chain(pod_condition(&inputs.observation))
        .map(|(reason, message)| Condition { reason, message })
        .collect();
    conditions.sort_by_key(|condition| condition.reason);
    conditions
}

/// The first trouble of any pod, or how many are still missing.
fn pod_condition(observation: &Observation) -> Option<(Reason, String)> {
    let troubled = observation.pods.iter().find_map(|pod| Some((pod, pod.problem.as_ref()?)));
    if let Some((pod, problem)) = troubled {
        let said = if problem.detail.is_empty() { "no detail given" } else { &problem.detail };
        let message = format!("pod {}: {said}; {}", pod.name, problem.cause.advice());
        return Some((Reason::PodsNotReady, message));
    }
    let workload = observation.workload.as_ref()?;
    (observation.applied && !is_complete(observation)).then(|| {
        let message = if !workload.current {
            "the cluster has not taken up the newest change yet".to_owned()
        } else if workload.wanted == 0 {
            "pods are still stopping".to_owned()
        } else if workload.ready >= workload.wanted {
            "pods of the generation before are still being replaced".to_owned()
        } else {
            format!("{} of {} pods are ready", workload.ready, workload.wanted)
        };
        (Reason::PodsNotReady, message)
    })
}

fn evidence(inputs: &Inputs) -> Evidence {
    let workload = inputs
        .observation
        .objects
        .iter()
        .find(|seen| matches!(seen.key.kind, Kind::Deployment | Kind::StatefulSet));
    Evidence {
        cluster: inputs.cluster,
        uid: workload.map(|seen| seen.uid.clone()),
        resource_version: workload.map(|seen| seen.resource_version.clone()),
        observed_at: inputs.observation.as_of,
        simulated: inputs.observation.pods.iter().any(|pod| pod.simulated),
    }
}
