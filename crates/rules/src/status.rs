//! Projects status from evidence alone. The same inputs always give the same bytes.

pub mod comparison;
mod diverged;
pub mod freshness;
pub mod lost;
pub mod observe;
pub(crate) mod quantity;
pub mod transition;
pub mod why;
use jiff::Timestamp;
use trueup_model::key::Kind;
use trueup_model::observation::{
    Admission, Cause, Observation, PodProblem, PodSeen, Run, Runs, Sighting, WorkloadSeen,
};
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_model::status::{
    CauseSeen, Condition, Evidence, Health, Inputs, Phase, PodCount, Reason, Reconciliation, Status,
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

/// Whether reconciliation of this generation is settled, pending or diverged.
#[must_use]
pub fn reconciliation(status: &Status, generation: i64, stale: bool) -> Reconciliation {
    match status.phase {
        Phase::Deleted => Reconciliation::Settled,
        Phase::Blocked => Reconciliation::Diverged,
        Phase::Accepted | Phase::Creating | Phase::Updating | Phase::Deleting => {
            Reconciliation::Pending
        }
        Phase::Running | Phase::Completed | Phase::Paused => {
            if status.applied_generation != Some(generation) || stale || is_uncompared(status) {
                Reconciliation::Pending
            } else if status.conditions.is_empty() {
                Reconciliation::Settled
            } else {
                Reconciliation::Diverged
            }
        }
    }
}

/// Whether the live state was not compared, so that a divergence is not known.
fn is_uncompared(status: &Status) -> bool {
    status.conditions.iter().any(|condition| {
        matches!(
            condition.reason,
            Reason::ClusterUnreachable | Reason::SecretsLocked | Reason::Defect
        )
    })
}

/// The status to show when watches that it depends on are silent: health Unknown, and the last
/// known health.
#[must_use]
pub fn aged(status: Status, silent: &[Kind]) -> (Status, Option<Health>) {
    let is_final = status.phase == Phase::Deleted;
    if silent.is_empty() || is_final || status.evidence.is_none() {
        return (status, None);
    }
    let last_known = Some(status.health).filter(|health| *health != Health::Unknown);
    let mut conditions = status.conditions;
    conditions.push(Condition {
        reason: Reason::Stale,
        message: format!(
            "no recent watch events for {}; this is the last known state",
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
    if is_down_while_frozen(inputs) {
        return Phase::Blocked;
    }
    match inputs.desired {
        DesiredState::Deleted => Phase::Deleting,
        DesiredState::Paused if applied == Some(inputs.generation) && is_idle(inputs) => {
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

/// Whether a service ran, has no pods any more, and a freeze prevents the repair.
fn is_down_while_frozen(inputs: &Inputs) -> bool {
    is_frozen(inputs) && inputs.previous.applied_generation.is_some() && !has_pods(inputs)
}

/// Whether a freeze prevents writes for an active unit.
fn is_frozen(inputs: &Inputs) -> bool {
    matches!(inputs.outcome, Outcome::Frozen { .. }) && inputs.desired == DesiredState::Active
}

/// Whether a service's workload has ready pods, or needs none. A project has no workload.
fn has_pods(inputs: &Inputs) -> bool {
    match &inputs.observation.workload {
        Some(workload) => workload.runs.is_some() || workload.ready > 0 || workload.wanted == 0,
        None => is_complete(&inputs.observation),
    }
}

/// Whether it runs as desired, or did in this generation and only its pods changed since.
fn serves(inputs: &Inputs) -> bool {
    let ran = inputs.previous.phase == Phase::Running
        && inputs.previous.applied_generation == Some(inputs.generation);
    ran || is_complete(&inputs.observation) || runs(&inputs.observation).is_some()
}

/// The runs of a cron or a job.
fn runs(seen: &Observation) -> Option<&Runs> {
    seen.workload.as_ref()?.runs.as_ref()
}

/// Whether its only run is over, successful or not.
fn has_ended(inputs: &Inputs) -> bool {
    runs(&inputs.observation).is_some_and(|runs| {
        !runs.repeats && matches!(runs.last, Run::Succeeded | Run::Failed { .. })
    })
}

/// Whether nothing runs any more, by the workload and by its pods. A cron lets its active run end.
fn is_idle(inputs: &Inputs) -> bool {
    let seen = &inputs.observation;
    let still = runs(seen).map_or_else(|| is_complete(seen), |runs| runs.last != Run::Active);
    still && seen.pods.iter().all(|pod| pod.ended.is_some())
}

/// Whether every pod is of the newest revision and ready.
///
/// Ready pods alone are not enough: during a rollout, those of the old revision count too. Only a
/// project has no workload; it is complete when its namespace exists.
fn is_complete(seen: &Observation) -> bool {
    match &seen.workload {
        Some(WorkloadSeen { runs: Some(runs), .. }) => match runs.last {
            Run::Waiting | Run::Active => runs.repeats,
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
        // Blocked hides the phase before it, but not the applied generation.
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
        // A blocked change does not stop pods that already serve.
        Phase::Blocked if ready > 0 => Health::Degraded,
        Phase::Blocked => Health::Error,
        Phase::Paused => Health::Healthy,
        // Nothing is left that could have a health.
        Phase::Deleted => Health::Unknown,
        Phase::Completed => Health::Healthy,
        Phase::Running if is_complete(&inputs.observation) => Health::Healthy,
        Phase::Running if ready > 0 && ready < wanted => Health::Degraded,
        Phase::Running | Phase::Creating | Phase::Updating
            if pods_in_trouble || (is_frozen(inputs) && ready < wanted) =>
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

/// Health by the last run: a failed cron runs again on schedule, a job has only one run.
const fn run_health(runs: &Runs, pods_in_trouble: bool) -> Health {
    match (&runs.last, runs.repeats) {
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
        .chain(inputs.observation.objects.iter().filter_map(refused_host))
        .chain(diverged::conditions(inputs))
        .chain(inputs.observation.missing.iter().map(|it| Condition {
            reason: Reason::PartMissing,
            message: it.sentence(),
            cause: None,
        }))
        .collect();
    conditions.sort_by_key(|condition| condition.reason);
    conditions
}

/// The condition for a host that a controller does not route.
fn refused_host(seen: &Sighting) -> Option<Condition> {
    let route = seen.route.as_ref().filter(|_| !seen.terminating)?;
    match &route.admission {
        Admission::Pending | Admission::Unanswered { .. } | Admission::Admitted => None,
        Admission::Refused(_) => {
            let why = observe::route_message(seen).unwrap_or_default();
            let message = format!("{}: {why}", route.host);
            Some(Condition { reason: Reason::HostRefused, message, cause: None })
        }
    }
}

/// Pods with problems. Ended pods count only for a run that did not succeed: pods of earlier runs
/// and evicted pods are kept for inspection.
///
/// Once every wanted pod is ready, any other pod is being stopped, and its problem is of the past.
/// Only an eviction is still named: it says why pods were replaced.
fn troubles(seen: &Observation) -> impl Iterator<Item = (&PodSeen, &PodProblem)> {
    let counts = match runs(seen) {
        None => false,
        Some(Runs { repeats: true, last, .. }) => matches!(last, Run::Failed { .. }),
        Some(Runs { repeats: false, last, .. }) => *last != Run::Succeeded,
    };
    let recovered = is_recovered(seen);
    seen.pods
        .iter()
        .filter(move |pod| counts || pod.ended.is_none())
        .filter_map(|pod| Some((pod, pod.problem.as_ref()?)))
        .filter(move |(_, problem)| !recovered || problem.cause == Cause::Evicted)
}

/// Whether a workload that serves has every wanted pod: ready, and of the newest revision.
fn is_recovered(seen: &Observation) -> bool {
    seen.workload.as_ref().is_some_and(|workload| workload.runs.is_none()) && is_complete(seen)
}

/// Why the workload itself makes no progress.
fn stuck(seen: &Observation) -> Option<&PodProblem> {
    seen.workload.as_ref()?.stuck.as_ref().filter(|_| !is_recovered(seen))
}

/// Whether there is a problem that does not pass by itself.
fn is_troubled(seen: &Observation) -> bool {
    let lasting = |problem: &PodProblem| !problem.cause.is_transient();
    troubles(seen).any(|(_, problem)| lasting(problem)) || stuck(seen).is_some_and(lasting)
}

/// The most important problem: pods that are not created, then lasting problems, then the rest.
///
/// A slow start is explained by the problem of a pod, if there is one.
fn trouble(seen: &Observation) -> Option<(String, CauseSeen)> {
    let worst = troubles(seen).min_by_key(|(_, problem)| problem.cause.is_transient());
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

/// The condition for a failed run, or for a pause that waits for the active run.
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
            let message = "waiting for the active run to end".to_owned();
            Some(Condition { reason: Reason::Waiting, message, cause: None })
        }
        (Run::Waiting | Run::Active | Run::Succeeded | Run::Failed { .. }, _) => None,
    }
}

/// Added to what is missing while a freeze applies.
const NOT_REPAIRED: &str = "not repaired while frozen";

/// The condition for the worst problem of its pods, or for missing pods.
fn pod_condition(inputs: &Inputs) -> Option<Condition> {
    let (observation, reason) = (&inputs.observation, Reason::PodsNotReady);
    // Problems of terminating pods would suggest that others replace them.
    if observation.workload.is_none() && is_down_while_frozen(inputs) {
        let message = format!("the workload and its pods are gone; {NOT_REPAIRED}");
        return Some(Condition { reason, message, cause: None });
    }
    if let Some((message, cause)) = trouble(observation) {
        return Some(Condition { reason, message, cause: Some(cause) });
    }
    let workload = observation.workload.as_ref().filter(|workload| workload.runs.is_none())?;
    let is_short = is_frozen(inputs) && workload.ready < workload.wanted;
    ((observation.applied || is_short) && !is_complete(observation)).then(|| {
        let message = if is_short {
            format!("{} of {} pods are ready; {NOT_REPAIRED}", workload.ready, workload.wanted)
        } else if !workload.current {
            "the cluster has not observed the newest change yet".to_owned()
        } else if workload.wanted == 0 {
            "pods are still stopping".to_owned()
        } else if workload.ready >= workload.wanted {
            "pods of the previous generation are still being replaced".to_owned()
        } else {
            format!("{} of {} pods are ready", workload.ready, workload.wanted)
        };
        Condition { reason, message, cause: None }
    })
}

/// The observed workload; of two, the one that is not terminating.
fn workload(seen: &Observation) -> Option<&Sighting> {
    seen.objects
        .iter()
        .filter(|seen| seen.key.kind.is_workload())
        .min_by_key(|seen| seen.terminating)
}

fn evidence(inputs: &Inputs) -> Evidence {
    let workload = workload(&inputs.observation);
    let counted = inputs.observation.workload.as_ref().filter(|seen| seen.runs.is_none());
    Evidence {
        cluster: inputs.cluster,
        uid: workload.map(|seen| seen.uid.clone()),
        resource_version: workload.map(|seen| seen.resource_version.clone()),
        observed_at: inputs.observation.as_of,
        simulated: inputs.observation.pods.iter().any(|pod| pod.simulated),
        pods: counted.map(|seen| PodCount { ready: seen.ready, wanted: seen.wanted }),
    }
}
