//! Why a service is as it is, told from what is stored and from nothing else.

use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::observation::Observation;
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_model::status::{Condition, Health, Phase, Reason};
use trueup_model::why::{EventSeen, Facts, Link, LinkStep, Why};

use crate::status::aged;

/// The chain from who asked to what is waited for.
#[must_use]
pub fn explain(facts: &Facts) -> Why {
    let (shown, _) = aged(facts.status.clone(), &facts.silent);
    let waits: Vec<Link> = shown.conditions.iter().map(|one| waiting(facts, one)).collect();
    let mut links = vec![asked(facts), ordered(facts)];
    links.extend(facts.freeze.as_ref().map(frozen));
    links.extend(applied(facts));
    links.extend(observed(facts));
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
            "it is gone: every key that was ever recorded for it was read and found absent"
                .to_owned()
        }
        (_, _, Some(condition)) => {
            format!(
                "it is {} and {} because: {}",
                phase.as_str(),
                health.as_str(),
                condition.message
            )
        }
        (_, Health::Healthy, None) => {
            let pods = seen.map(pods).unwrap_or_default();
            format!(
                "it is believed healthy because the cluster carries generation {generation}{pods}"
            )
        }
        (Phase::Accepted, _, None) => {
            format!("generation {generation} is recorded and nothing was seen of it yet")
        }
        (_, _, None) => format!("it is {} and {}", phase.as_str(), health.as_str()),
    }
}

fn pods(seen: &Observation) -> String {
    match &seen.workload {
        Some(workload) if workload.runs.is_some() => " and its runs end well".to_owned(),
        Some(workload) => format!(" and {} of {} pods are ready", workload.ready, workload.wanted),
        None => String::new(),
    }
}

fn asked(facts: &Facts) -> Link {
    let asked = &facts.asked;
    let what = match facts.desired {
        DesiredState::Active => "shall run",
        DesiredState::Paused => "shall rest",
        DesiredState::Deleted => "shall be gone",
    };
    let event = facts.events.first().map(|event| event.id.to_string());
    Link {
        step: LinkStep::Asked,
        text: format!(
            "{} asked for generation {} (`{}`): it {what}",
            asked.principal, facts.generation, asked.action
        ),
        at: Some(asked.at),
        proof: std::iter::once(asked.release.to_string()).chain(event).collect(),
    }
}

/// What the loop was told, and what it made of it.
fn ordered(facts: &Facts) -> Link {
    let begun: Option<&EventSeen> =
        facts.events.iter().rev().find(|event| event.kind.starts_with("Reconcile"));
    let proof: Vec<String> = begun.iter().map(|event| event.id.to_string()).collect();
    let (text, at) = match (&facts.wake, begun) {
        (Some(wake), _) => {
            let tried = match wake.attempts {
                0 => String::new(),
                attempts => format!(", tried {attempts} times"),
            };
            let error = wake.error.as_ref().map(|error| format!(", last time: {error}"));
            let text = format!("a wake is {}{tried}{}", wake.state, error.unwrap_or_default());
            (text, Some(wake.due_at))
        }
        (None, Some(begun)) => {
            (format!("the executor holds its order; last {}", begun.kind), Some(begun.at))
        }
        (None, None) => ("the executor holds its order".to_owned(), None),
    };
    Link { step: LinkStep::Ordered, text, at, proof }
}

/// Nothing is done, and who wants it so.
fn frozen(freeze: &Freeze) -> Link {
    Link {
        step: LinkStep::Frozen,
        text: format!("{freeze}; Trueup looks at it and does nothing"),
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
            format!("the cluster carries all of generation {applied}")
        }
        Some(applied) => {
            format!("the cluster carries generation {applied}, not yet {}", facts.generation)
        }
        None => "the cluster carries no whole generation yet".to_owned(),
    };
    let text =
        format!("{} of {} recorded objects were seen; {carried}", seen.len(), facts.objects.len());
    Some(Link { step: LinkStep::Applied, text, at: None, proof: seen })
}

fn observed(facts: &Facts) -> Option<Link> {
    let evidence = facts.status.evidence.as_ref()?;
    let inputs = facts.inputs.as_ref()?;
    let outcome = match &inputs.outcome {
        Outcome::Converged => "nothing was left to write".to_owned(),
        Outcome::Waiting { on } => format!("waiting for {on}"),
        Outcome::Deferred { why } | Outcome::Locked { why } | Outcome::Frozen { why } => {
            format!("put off: {why}")
        }
        Outcome::Blocked { why } | Outcome::Outdated { why } => format!("blocked: {why}"),
        Outcome::Failed { why } | Outcome::Refused { why } | Outcome::Broken { why } => {
            format!("failed: {why}")
        }
    };
    let pods = pods(&inputs.observation);
    let simulated = if evidence.simulated { " (simulated nodes)" } else { "" };
    let text = format!("cluster {} was looked at{simulated}: {outcome}{pods}", facts.cluster);
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

/// What would unblock it: the cause's own advice, or what its reason means. What is frozen is never on
/// its way by anything that Trueup does.
fn unblock(facts: &Facts, condition: &Condition) -> String {
    if let Some(seen) = &condition.cause {
        return seen.cause.advice().to_owned();
    }
    match (condition.reason, &facts.freeze) {
        (Reason::Frozen, Some(freeze)) => {
            format!("{}: nothing is done until then", let_go(facts, freeze))
        }
        (Reason::Waiting | Reason::PodsNotReady, Some(freeze)) => {
            format!(
                "the cluster, if it does it by itself; Trueup helps only after {}",
                let_go(facts, freeze)
            )
        }
        (reason, _) => meaning(reason).to_owned(),
    }
}

/// Who lets it go, and how.
fn let_go(facts: &Facts, freeze: &Freeze) -> String {
    match freeze.scope {
        FreezeScope::Service => "somebody lets it go with `trueup unfreeze`".to_owned(),
        FreezeScope::Cluster => {
            let cluster = &facts.cluster;
            format!("an operator lets its cluster go with `trueup unfreeze --cluster {cluster}`")
        }
        FreezeScope::Platform => {
            "an operator lets the platform go with `trueup unfreeze --platform`".to_owned()
        }
    }
}

const fn meaning(reason: Reason) -> &'static str {
    match reason {
        Reason::Waiting | Reason::PodsNotReady => "time: it is on its way",
        Reason::ClusterUnreachable | Reason::Stale => "the cluster answering again",
        Reason::SecretsLocked => "the key that opens its secrets",
        Reason::Blocked => "a person: do what the message says, and it goes on by itself",
        Reason::Frozen => "time: the freeze is lifted, and it is looked at again",
        Reason::Defect => "an operator: see the log, then let it be tried again",
        Reason::Refused => "a person: the cluster refuses it as it is asked for",
        Reason::DatabaseOlder => "an operator: the database is older than the cluster",
        Reason::ClusterError => "the cluster taking the write; it is tried again by itself",
        Reason::RunFailed => "a run that ends well",
        Reason::PartMissing => "an operator: do what the message says, and it is used by itself",
    }
}
