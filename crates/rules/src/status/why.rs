//! Explains the state of a service, from stored data alone.

mod diverged;

use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::observation::Observation;
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_model::status::{Condition, Health, Phase, Reason};
use trueup_model::why::{EventSeen, Facts, Link, LinkStep, Why};

use crate::status::aged;

/// The chain of causes, from the request to what is waited for.
#[must_use]
pub fn explain(facts: &Facts) -> Why {
    let (shown, _) = aged(facts.status.clone(), &facts.silent);
    let waits: Vec<Link> = shown.conditions.iter().map(|one| waiting(facts, one)).collect();
    let mut links = vec![asked(facts), ordered(facts)];
    links.extend(facts.freeze.as_ref().map(frozen));
    links.extend(applied(facts));
    links.extend(observed(facts));
    links.extend(facts.divergences.iter().map(|seen| diverged::link(seen, facts.freeze.is_some())));
    let unblock = shown.conditions.first().map(|first| unblock(facts, first));
    let answer = answer(facts, shown.phase, shown.health, shown.conditions.first());
    links.extend(waits);
    Why { answer, links, unblock }
}

fn answer(facts: &Facts, phase: Phase, health: Health, first: Option<&Condition>) -> String {
    let generation = facts.generation;
    let seen = facts.inputs.as_ref().map(|inputs| &inputs.observation);
    match (phase, health, first) {
        (Phase::Deleted, _, _) => {
            "the service is deleted: every recorded key was read and found absent".to_owned()
        }
        (_, _, Some(condition)) => {
            let message = &condition.message;
            format!("the service is {} and {}: {message}", phase.into_str(), health.into_str())
        }
        (_, Health::Healthy, None) => {
            let pods = seen.map(pods).unwrap_or_default();
            format!("the service is healthy: generation {generation} is applied{pods}")
        }
        (Phase::Accepted, _, None) => {
            format!("generation {generation} is recorded; nothing was observed yet")
        }
        (_, _, None) => format!("the service is {} and {}", phase.into_str(), health.into_str()),
    }
}

fn pods(seen: &Observation) -> String {
    match &seen.workload {
        Some(workload) if workload.runs.is_some() => " and its runs succeed".to_owned(),
        Some(workload) if workload.wanted == 0 => ", with no pods, as declared".to_owned(),
        Some(workload) => format!(" and {} of {} pods are ready", workload.ready, workload.wanted),
        None => String::new(),
    }
}

fn asked(facts: &Facts) -> Link {
    let asked = &facts.asked;
    let what = match facts.desired {
        DesiredState::Active => "running",
        DesiredState::Paused => "paused",
        DesiredState::Deleted => "deleted",
    };
    let event = facts.events.first().map(|event| event.id.to_string());
    Link {
        step: LinkStep::Asked,
        text: format!(
            "{} requested generation {} (`{}`): desired state {what}",
            asked.principal, facts.generation, asked.action
        ),
        at: Some(asked.at),
        proof: std::iter::once(asked.release.to_string()).chain(event).collect(),
    }
}

/// The wake that is queued, or the order that the executor has.
fn ordered(facts: &Facts) -> Link {
    let begun: Option<&EventSeen> =
        facts.events.iter().rev().find(|event| event.kind.starts_with("Reconcile"));
    let proof: Vec<String> = begun.iter().map(|event| event.id.to_string()).collect();
    let (text, at) = match (&facts.wake, begun) {
        (Some(wake), _) => {
            let tried = match wake.attempts {
                0 => String::new(),
                attempts => format!(", {attempts} attempts"),
            };
            let error = wake.error.as_ref().map(|error| format!(", last error: {error}"));
            let text = format!("a wake is {}{tried}{}", wake.state, error.unwrap_or_default());
            (text, Some(wake.due_at))
        }
        (None, Some(begun)) => {
            (format!("the executor has the order; last event {}", begun.kind), Some(begun.at))
        }
        (None, None) => ("the executor has the order".to_owned(), None),
    };
    Link { step: LinkStep::Ordered, text, at, proof }
}

/// The freeze, with who set it and why.
fn frozen(freeze: &Freeze) -> Link {
    Link {
        step: LinkStep::Frozen,
        text: format!("{freeze}; Trueup observes the service and writes nothing"),
        at: Some(freeze.since),
        proof: Vec::new(),
    }
}

fn applied(facts: &Facts) -> Option<Link> {
    let inputs = facts.inputs.as_ref()?;
    let seen: Vec<String> = inputs
        .observation
        .objects
        .iter()
        .map(|one| {
            format!("{}/{} {}@{}", one.key.kind, one.key.name, one.uid, one.resource_version)
        })
        .collect();
    let carried = match facts.status.applied_generation {
        Some(applied) if applied == facts.generation => {
            format!("generation {applied} is fully applied")
        }
        Some(applied) => {
            format!("generation {applied} is applied, {} not yet", facts.generation)
        }
        None => "no generation is fully applied yet".to_owned(),
    };
    let text =
        format!("observed {} of {} recorded objects; {carried}", seen.len(), facts.objects.len());
    Some(Link { step: LinkStep::Applied, text, at: None, proof: seen })
}

fn observed(facts: &Facts) -> Option<Link> {
    let evidence = facts.status.evidence.as_ref()?;
    let inputs = facts.inputs.as_ref()?;
    let outcome = match &inputs.outcome {
        Outcome::Converged => "nothing to write".to_owned(),
        Outcome::Waiting { on } => format!("waiting for {on}"),
        Outcome::Deferred { why } | Outcome::Locked { why } | Outcome::Frozen { why } => {
            format!("deferred: {why}")
        }
        Outcome::Blocked { why } | Outcome::Outdated { why } => format!("blocked: {why}"),
        Outcome::Failed { why } | Outcome::Refused { why } | Outcome::Broken { why } => {
            format!("failed: {why}")
        }
    };
    let pods = pods(&inputs.observation);
    let simulated = if evidence.simulated { " (simulated nodes)" } else { "" };
    let text = format!("observed cluster {}{simulated}: {outcome}{pods}", facts.cluster);
    let version = evidence.resource_version.as_deref().unwrap_or("?");
    let proof = evidence.uid.iter().map(|uid| format!("{uid}@{version}")).collect();
    Some(Link { step: LinkStep::Observed, text, at: Some(evidence.observed_at), proof })
}

fn waiting(facts: &Facts, condition: &Condition) -> Link {
    let proof = condition.cause.iter().map(|seen| match &seen.uid {
        Some(uid) => format!("{} {uid}", seen.object),
        None => seen.object.clone(),
    });
    Link {
        step: LinkStep::Waiting,
        text: condition.message.clone(),
        at: Some(facts.status.since),
        proof: proof.collect(),
    }
}

/// What would unblock the service: the advice for the cause, or for the reason. While frozen,
/// Trueup makes no progress on its own.
fn unblock(facts: &Facts, condition: &Condition) -> String {
    if let Some(seen) = &condition.cause {
        return seen.cause.advice().to_owned();
    }
    match (condition.reason, &facts.freeze) {
        (Reason::Frozen, Some(freeze)) => {
            format!("{}; nothing is written until then", unfreeze(facts, freeze))
        }
        (Reason::ExternallyModified, Some(freeze)) => {
            format!("{}; the change is reverted then", unfreeze(facts, freeze))
        }
        (Reason::Waiting | Reason::PodsNotReady, Some(freeze)) => {
            format!("the cluster may recover by itself; for repairs, {}", unfreeze(facts, freeze))
        }
        (reason, _) => meaning(reason).to_owned(),
    }
}

/// Who has to lift the freeze, and how.
fn unfreeze(facts: &Facts, freeze: &Freeze) -> String {
    match freeze.scope {
        FreezeScope::Service => "run `trueup unfreeze`".to_owned(),
        FreezeScope::Cluster => {
            let cluster = &facts.cluster;
            format!("an operator must run `trueup unfreeze --cluster {cluster}`")
        }
        FreezeScope::Platform => "an operator must run `trueup unfreeze --platform`".to_owned(),
    }
}

const fn meaning(reason: Reason) -> &'static str {
    match reason {
        Reason::Waiting | Reason::PodsNotReady => "wait: the change is in progress",
        Reason::ClusterUnreachable | Reason::Stale => "wait until the cluster is reachable again",
        Reason::SecretsLocked => {
            "operator action required: restore the key that decrypts its secrets"
        }
        Reason::Blocked => "action required: follow the message; the service then continues",
        Reason::Frozen => "wait: the freeze was lifted and the next pass is due",
        Reason::Defect => "operator action required: check the log, then requeue the wake",
        Reason::Refused => "action required: the cluster rejects the spec; change it",
        Reason::DatabaseOlder => "operator action required: the database is older than the cluster",
        Reason::ClusterError => "wait: the write is retried automatically",
        Reason::RunFailed => "a run that succeeds",
        Reason::HostRefused => {
            "operator action required: follow the message; the host is then routed"
        }
        Reason::InConflict => {
            "action required: decide with `trueup conflicts settle`; `trueup conflicts` lists the ids"
        }
        Reason::AdoptionProposed => {
            "action required: keep the value with `trueup drift adopt` or revert it with `trueup \
             drift reject`; `trueup drift` lists the ids"
        }
        Reason::ExternallyModified => {
            "wait: the change is reverted automatically; `trueup drift` shows it"
        }
        Reason::PartMissing => {
            "operator action required: follow the message; the feature is then used"
        }
    }
}
