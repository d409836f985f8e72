//! What people see, computed from evidence alone. The same inputs always give the same bytes.

pub mod freshness;
pub mod lost;
pub mod observe;
pub(crate) mod quantity;
pub mod transition;
pub mod why;
use jiff::Timestamp;
use trueup_model::key::Kind;
use trueup_model::observation::{
    Cause, Observation, PodProblem, PodSeen, Run, Runs, Sighting, WorkloadSeen,
};
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_model::status::{
    CauseSeen, Condition, Evidence, Health, Inputs, Phase, Reason, Reconciliation, Status,
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
        Phase::Running | Phase::Completed | Phase::Paused => {
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
        matches!(
            condition.reason,
            Reason::ClusterUnreachable | Reason::SecretsLocked | Reason::Defect
        )
    })
}

/// What a status says when the watches of these kinds, which it leans on, are silent: Unknown, with the last known value beside it.
#[must_use]
pub fn aged(status: Status, silent: &[Kind]) -> (Status, Option<Health>) {
    let settled_for_good = status.phase == Phase::Deleted;
    if silent.is_empty() || settled_for_good || status.evidence.is_none() {
        return (status, None);
    }
    let last_known = Some(status.health).filter(|health| *health != Health::Unknown);
    let mut conditions = status.conditions;
    conditions.push(Condition {
        reason: Reason::Stale,
        message: format!(
            "nothing was heard of {} for a while; this is what was seen last",
            silent.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(" and ")
        ),
        cause: None,
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
    if matches!(inputs.outcome, Outcome::Blocked { .. } | Outcome::Outdated { .. }) {
        return Phase::Blocked;
    }
    if is_let_down(inputs) {
        return Phase::Blocked;
    }
    match inputs.desired {
        DesiredState::Deleted => Phase::Deleting,
        DesiredState::Paused if applied == Some(inputs.generation) && rests(inputs) => {
            Phase::Paused
        }
        DesiredState::Active if applied == Some(inputs.generation) && has_ended(inputs) => {
            Phase::Completed
        }
        DesiredState::Active if applied == Some(inputs.generation) && serves(inputs) => {
            Phase::Running
        }
        DesiredState::Paused | DesiredState::Active => underway(inputs, applied),
    }
}

/// It ran, nothing of it does any more, and a freeze forbids to repair that: a person has to act.
fn is_let_down(inputs: &Inputs) -> bool {
    is_held(inputs) && inputs.previous.applied_generation.is_some() && !has_pods(inputs)
}

/// A freeze holds back what there is to do for something that shall run.
fn is_held(inputs: &Inputs) -> bool {
    matches!(inputs.outcome, Outcome::Frozen { .. }) && inputs.desired == DesiredState::Active
}

/// Whether anything of a service's workload is left. A project has none, and misses none.
fn has_pods(inputs: &Inputs) -> bool {
    match &inputs.observation.workload {
        Some(workload) => workload.runs.is_some() || workload.ready > 0 || workload.wanted == 0,
        None => is_complete(&inputs.observation),
    }
}

/// It runs as promised, or did and only its pods changed since.
fn serves(inputs: &Inputs) -> bool {
    let ran = inputs.previous.phase == Phase::Running
        && inputs.previous.applied_generation == Some(inputs.generation);
    ran || is_complete(&inputs.observation) || runs(&inputs.observation).is_some()
}

/// How the runs of a cron or a job stand.
fn runs(seen: &Observation) -> Option<&Runs> {
    seen.workload.as_ref()?.runs.as_ref()
}

/// Its one run is over, well or not.
fn has_ended(inputs: &Inputs) -> bool {
    runs(&inputs.observation).is_some_and(|runs| {
        !runs.idempotency_keys && matches!(runs.last, Run::Succeeded | Run::Failed { .. })
    })
}

/// Nothing runs any more: the workload says so, and no pod contradicts it. A cron lets a run that
/// is under way end.
fn rests(inputs: &Inputs) -> bool {
    let seen = &inputs.observation;
    let still = runs(seen).map_or_else(|| is_complete(seen), |runs| runs.last != Run::Active);
    still && seen.pods.iter().all(|pod| pod.ended.is_some())
}

/// Every pod is of the newest revision and ready.
///
/// Ready pods alone prove nothing: in the middle of a roll the old revision's are counted too. No
/// workload proves less: only a project has none, and its namespace is what there is to see of it.
fn is_complete(seen: &Observation) -> bool {
    match &seen.workload {
        Some(WorkloadSeen { runs: Some(runs), .. }) => match runs.last {
            Run::Waiting | Run::Active => runs.idempotency_keys,
            Run::Succeeded => true,
            Run::Failed { .. } => false,
        },
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
        Phase::Running | Phase::Updating | Phase::Completed | Phase::Paused => true,
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
    if matches!(inputs.outcome, Outcome::Deferred { .. } | Outcome::Broken { .. })
        || phase == Phase::Accepted
    {
        return Health::Unknown;
    }
    let pods_in_trouble = is_troubled(&inputs.observation);
    if let (Phase::Running | Phase::Completed, Some(runs)) = (phase, runs(&inputs.observation)) {
        return run_health(runs, pods_in_trouble);
    }
    let workload = inputs.observation.workload.as_ref();
    let (ready, wanted) = workload.map_or((0, 0), |seen| (seen.ready, seen.wanted));
    match phase {
        // What blocks a change does not stop the pods that serve already.
        Phase::Blocked if ready > 0 => Health::Degraded,
        Phase::Blocked => Health::Error,
        Phase::Paused => Health::Healthy,
        // Nothing is left that could be well or ill.
        Phase::Deleted => Health::Unknown,
        Phase::Completed => Health::Healthy,
        Phase::Running if is_complete(&inputs.observation) => Health::Healthy,
        Phase::Running if ready > 0 && ready < wanted => Health::Degraded,
        Phase::Running | Phase::Creating | Phase::Updating
            if pods_in_trouble || (is_held(inputs) && ready < wanted) =>
        {
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

/// A cron that fails once tries again by the clock; a job has only the one run.
const fn run_health(runs: &Runs, pods_in_trouble: bool) -> Health {
    match (&runs.last, runs.idempotency_keys) {
        (Run::Failed { .. }, true) => Health::Degraded,
        (Run::Failed { .. }, false) => Health::Error,
        (Run::Waiting | Run::Active, true) if pods_in_trouble => Health::Degraded,
        (Run::Waiting | Run::Active, false) if pods_in_trouble => Health::Error,
        (Run::Waiting | Run::Active, true) | (Run::Succeeded, _) => Health::Healthy,
        (Run::Waiting | Run::Active, false) => Health::Progressing,
    }
}

fn conditions(inputs: &Inputs) -> Vec<Condition> {
    let from_outcome = match &inputs.outcome {
        Outcome::Converged => None,
        Outcome::Waiting { on } => Some((Reason::Waiting, format!("waiting for {on}"))),
        Outcome::Deferred { why } => Some((Reason::ClusterUnreachable, why.clone())),
        Outcome::Locked { why } => Some((Reason::SecretsLocked, why.clone())),
        Outcome::Frozen { why } => Some((Reason::Frozen, why.clone())),
        Outcome::Broken { why } => Some((Reason::Defect, why.clone())),
        Outcome::Blocked { why } => Some((Reason::Blocked, why.clone())),
        Outcome::Outdated { why } => Some((Reason::DatabaseOlder, why.clone())),
        Outcome::Refused { why } => Some((Reason::Refused, why.clone())),
        Outcome::Failed { why } => Some((Reason::ClusterError, why.clone())),
    };
    let from_outcome =
        from_outcome.map(|(reason, message)| Condition { reason, message, cause: None });
    let mut conditions: Vec<Condition> = from_outcome
        .into_iter()
        .chain(run_condition(inputs).or_else(|| pod_condition(inputs)))
        .chain(inputs.observation.missing.iter().map(|it| Condition {
            reason: Reason::PartMissing,
            message: it.sentence(),
            cause: None,
        }))
        .collect();
    conditions.sort_by_key(|condition| condition.reason);
    conditions
}

/// Pods in trouble. What a pod that has ended says matters only for a run that did not end well:
/// pods of earlier runs, and those that were evicted, are kept for people to look at.
fn troubles(seen: &Observation) -> impl Iterator<Item = (&PodSeen, &PodProblem)> {
    let counts = match runs(seen) {
        None => false,
        Some(Runs { idempotency_keys: true, last, .. }) => matches!(last, Run::Failed { .. }),
        Some(Runs { idempotency_keys: false, last, .. }) => *last != Run::Succeeded,
    };
    seen.pods
        .iter()
        .filter(move |pod| counts || pod.ended.is_none())
        .filter_map(|pod| Some((pod, pod.problem.as_ref()?)))
}

/// Why the workload itself gets no further.
fn stuck(seen: &Observation) -> Option<&PodProblem> {
    seen.workload.as_ref()?.stuck.as_ref()
}

/// Whether something is wrong that does not pass by itself.
fn is_troubled(seen: &Observation) -> bool {
    let lasting = |problem: &PodProblem| !problem.cause.is_passing();
    troubles(seen).any(|(_, problem)| lasting(problem)) || stuck(seen).is_some_and(lasting)
}

/// The trouble that matters most: that pods are not made at all, then what lasts, then the rest. A
/// start that takes too long has its reason in a pod, if any pod says one.
fn trouble(seen: &Observation) -> Option<(String, CauseSeen)> {
    let worst = troubles(seen).min_by_key(|(_, problem)| problem.cause.is_passing());
    let more = troubles(seen).count().saturating_sub(1);
    let of_pod = worst.map(|(pod, problem)| {
        let others = if more > 0 { format!(" (and {more} more)") } else { String::new() };
        let message =
            format!("pod {}{others}: {}; {}", pod.name, words(problem), problem.cause.advice());
        let object = format!("{}/{}", Kind::Pod, pod.name);
        (message, CauseSeen { cause: problem.cause, object, uid: Some(pod.uid.clone()) })
    });
    let Some(stuck) = stuck(seen) else { return of_pod };
    match of_pod {
        Some((message, culprit)) if stuck.cause == Cause::SlowStart => {
            Some((format!("{}; {message}", words(stuck)), culprit))
        }
        Some(_) | None => {
            let workload = workload(seen);
            let object = workload.map(|seen| format!("{}/{}", seen.key.kind, seen.key.name));
            let culprit = CauseSeen {
                cause: stuck.cause,
                object: object.unwrap_or_default(),
                uid: workload.map(|seen| seen.uid.clone()),
            };
            Some((format!("{}; {}", words(stuck), stuck.cause.advice()), culprit))
        }
    }
}

fn words(problem: &PodProblem) -> &str {
    if problem.detail.is_empty() { "no detail given" } else { &problem.detail }
}

/// That the last run failed, or that a pause waits for one to end.
fn run_condition(inputs: &Inputs) -> Option<Condition> {
    let runs = runs(&inputs.observation)?;
    match (&runs.last, inputs.desired) {
        (Run::Failed { why }, DesiredState::Active) => {
            let why = if why.is_empty() { "the run failed" } else { why };
            let (more, cause) = trouble(&inputs.observation).unzip();
            let more = more.unwrap_or_else(|| Cause::Exited.advice().to_owned());
            Some(Condition { reason: Reason::RunFailed, message: format!("{why}; {more}"), cause })
        }
        (Run::Active, DesiredState::Paused) => {
            let message = "waiting for the run that is under way to end".to_owned();
            Some(Condition { reason: Reason::Waiting, message, cause: None })
        }
        (Run::Waiting | Run::Active | Run::Succeeded | Run::Failed { .. }, _) => None,
    }
}

/// What is true of whatever is missing while a freeze holds.
const NOTHING_DONE: &str = "Trueup does nothing about it while it is frozen";

/// The worst trouble there is, or how many pods are still missing.
fn pod_condition(inputs: &Inputs) -> Option<Condition> {
    let (observation, reason) = (&inputs.observation, Reason::PodsNotReady);
    // What the last pods say on their way out would promise others in their place.
    if observation.workload.is_none() && is_let_down(inputs) {
        let message = format!("what makes its pods is gone, and its pods with it; {NOTHING_DONE}");
        return Some(Condition { reason, message, cause: None });
    }
    if let Some((message, cause)) = trouble(observation) {
        return Some(Condition { reason, message, cause: Some(cause) });
    }
    let workload = observation.workload.as_ref().filter(|workload| workload.runs.is_none())?;
    let is_short = is_held(inputs) && workload.ready < workload.wanted;
    ((observation.applied || is_short) && !is_complete(observation)).then(|| {
        let message = if is_short {
            format!("{} of {} pods are ready; {NOTHING_DONE}", workload.ready, workload.wanted)
        } else if !workload.current {
            "the cluster has not taken up the newest change yet".to_owned()
        } else if workload.wanted == 0 {
            "pods are still stopping".to_owned()
        } else if workload.ready >= workload.wanted {
            "pods of the generation before are still being replaced".to_owned()
        } else {
            format!("{} of {} pods are ready", workload.ready, workload.wanted)
        };
        Condition { reason, message, cause: None }
    })
}

/// The workload that was seen; the one that stays, where one goes and one comes.
fn workload(seen: &Observation) -> Option<&Sighting> {
    seen.objects
        .iter()
        .filter(|seen| seen.key.kind.is_workload())
        .min_by_key(|seen| seen.terminating)
}

fn evidence(inputs: &Inputs) -> Evidence {
    let workload = workload(&inputs.observation);
    Evidence {
        cluster: inputs.cluster,
        uid: workload.map(|seen| seen.uid.clone()),
        resource_version: workload.map(|seen| seen.resource_version.clone()),
        observed_at: inputs.observation.as_of,
        simulated: inputs.observation.pods.iter().any(|pod| pod.simulated),
    }
}
