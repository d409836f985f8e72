//! `docs/state-machines.md`: every phase and the edges between them, found by walking the
//! projection.
//!
//! The walk starts with an accepted service and gives the projection every possible observation. An
//! edge that is missing on the page, or that no walk takes, is a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use trueup_model::observation::{Cause, Ended, PodSeen, Run, Runs, WorkloadSeen};
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_model::status::{Health, Inputs, Phase, Status};
use trueup_rules::status::{project, reconciliation};

use crate::given::at;
use crate::projection::{inputs, pods, troubled};

/// The part of a status that decides about the next one, and the desired state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    phase: &'static str,
    /// The newest generation that was fully applied: none, an older one, this one.
    applied: Option<bool>,
    desired: &'static str,
}

const GENERATION: i64 = 5;

fn outcomes() -> Vec<Outcome> {
    let why = || "why".to_owned();
    vec![
        Outcome::Converged,
        Outcome::Waiting { on: why() },
        Outcome::Deferred { why: why() },
        Outcome::Locked { why: why() },
        Outcome::Frozen { why: why() },
        Outcome::Broken { why: why() },
        Outcome::Blocked { why: why() },
        Outcome::Failed { why: why() },
        Outcome::Refused { why: why() },
        Outcome::Outdated { why: why() },
    ]
}

fn workloads() -> Vec<Option<WorkloadSeen>> {
    let run = |repeats, last| {
        let runs = Some(Runs { repeats, last, job: None });
        Some(WorkloadSeen { current: true, runs, ..WorkloadSeen::default() })
    };
    let mut all =
        vec![None, Some(pods(2, 2)), Some(pods(1, 2)), Some(pods(0, 2)), Some(pods(0, 0))];
    all.push(Some(WorkloadSeen { current: false, ..pods(2, 2) }));
    for repeats in [true, false] {
        all.extend([Run::Waiting, Run::Active, Run::Succeeded].map(|last| run(repeats, last)));
        all.push(run(repeats, Run::Failed { why: "why".to_owned() }));
    }
    all
}

fn pod_lists() -> Vec<Vec<PodSeen>> {
    let well = PodSeen { ready: true, problem: None, ..troubled(Cause::Exited, "") };
    let ended = PodSeen { ended: Some(Ended::Badly), ..troubled(Cause::Exited, "") };
    vec![
        Vec::new(),
        vec![well],
        vec![troubled(Cause::CrashLoop, "it says so")],
        vec![troubled(Cause::Readiness, "it says so")],
        vec![ended],
    ]
}

/// Every possible observation of a service, for one desired state.
fn observations(desired: DesiredState) -> Vec<Inputs> {
    let mut all = Vec::new();
    for outcome in outcomes() {
        for workload in workloads() {
            for pods in pod_lists() {
                for (objects, absent) in [(true, false), (false, false), (false, true)] {
                    let is_gone =
                        absent && desired == DesiredState::Deleted && outcome == Outcome::Converged;
                    if absent != is_gone {
                        continue;
                    }
                    let mut one = inputs(Phase::Accepted);
                    one.desired = desired;
                    one.generation = GENERATION;
                    one.observation.generation = GENERATION;
                    one.observation.applied = outcome == Outcome::Converged
                        && desired != DesiredState::Deleted
                        && objects;
                    if !objects {
                        one.observation.objects.clear();
                    }
                    one.observation.workload = workload.clone().filter(|_| objects);
                    one.observation.pods.clone_from(&pods);
                    one.outcome = outcome.clone();
                    one.absent = absent;
                    all.push(one);
                }
            }
        }
    }
    all
}

const fn desired(word: &str) -> DesiredState {
    match word.as_bytes() {
        b"active" => DesiredState::Active,
        b"paused" => DesiredState::Paused,
        _ => DesiredState::Deleted,
    }
}

/// Edges between phases, and what each phase shows.
#[derive(Default)]
struct Walked {
    edges: BTreeSet<(&'static str, &'static str)>,
    health: BTreeMap<&'static str, BTreeSet<&'static str>>,
    reconciliation: BTreeMap<&'static str, BTreeSet<String>>,
}

fn walk() -> Walked {
    let start = Place { phase: Phase::Accepted.into_str(), applied: None, desired: "active" };
    let mut walked = Walked::default();
    let mut seen = BTreeSet::from([start]);
    let mut next = vec![(start, Phase::Accepted)];
    let all: BTreeMap<&str, Vec<Inputs>> =
        ["active", "paused", "deleted"].map(|word| (word, observations(desired(word)))).into();
    while let Some((place, phase)) = next.pop() {
        // The same generation continues, or a newer one is accepted. None follows a deletion.
        let requests: &[(&str, bool)] = match place.desired {
            "deleted" => &[("deleted", false)],
            "paused" => &[("paused", false), ("paused", true), ("active", true), ("deleted", true)],
            _ => &[("active", false), ("active", true), ("paused", true), ("deleted", true)],
        };
        for (wanted, is_newer) in requests {
            for given in &all[wanted] {
                let applied = place
                    .applied
                    .map(|current| if current && !is_newer { GENERATION } else { GENERATION - 1 });
                let previous =
                    Status { phase, applied_generation: applied, ..Status::accepted(at(0)) };
                let status = project(&Inputs { previous, ..given.clone() }, at(9));
                let to = status.phase.into_str();
                walked.edges.insert((place.phase, to));
                walked.health.entry(to).or_default().insert(status.health.into_str());
                for stale in [false, true] {
                    let word =
                        serde_json::to_value(reconciliation(&status, GENERATION, stale)).unwrap();
                    let word = word.as_str().unwrap_or_default().to_owned();
                    walked.reconciliation.entry(to).or_default().insert(word);
                }
                let applied = status.applied_generation.map(|applied| applied == GENERATION);
                let reached = Place { phase: to, applied, desired: wanted };
                // Deleted is final: the store accepts no report after it.
                if status.phase != Phase::Deleted && seen.insert(reached) {
                    next.push((reached, status.phase));
                }
            }
        }
    }
    walked
}

fn page() -> String {
    let walked = walk();
    let mut page = "# State machines\n\n\
        Generated by walking `rules::status::project` from an accepted service through every possible observation; do not\n\
        edit. After a change: `TRUEUP_UPDATE=1 cargo test -p trueup-rules --test it machines`.\n\n\
        ## Phases of a service\n\n```mermaid\nstateDiagram-v2\n    [*] --> accepted\n"
        .to_owned();
    for (from, to) in walked.edges.iter().filter(|(from, to)| from != to) {
        page.push_str(&format!("    {from} --> {to}\n"));
    }
    page.push_str("    deleted --> [*]\n```\n\n");
    page.push_str(
        "## What each phase can show\n\n| phase | health | reconciliation |\n|---|---|---|\n",
    );
    for (phase, healths) in &walked.health {
        let healths: Vec<&str> = healths.iter().copied().collect();
        let settled: Vec<&str> = walked.reconciliation[phase].iter().map(String::as_str).collect();
        page.push_str(&format!("| {phase} | {} | {} |\n", healths.join(", "), settled.join(", ")));
    }
    page.push_str(
        "\nHealth is *unknown* in every phase but deleted when the watches that it depends on are silent; that is decided\n\
         on read, and the last known health is shown beside it.\n",
    );
    page
}

#[test]
fn the_page_matches_the_projection() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/state-machines.md");
    let page = page();
    if std::env::var_os("TRUEUP_UPDATE").is_some() {
        fs::write(&file, &page).unwrap();
    }
    let stored = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(stored, page, "run this test with TRUEUP_UPDATE=1 to update docs/state-machines.md");
}

/// Invariants of the state machine.
#[test]
fn only_some_phases_can_be_healthy_and_deleted_is_final() {
    let walked = walk();
    let healthy: Vec<&str> = walked
        .health
        .iter()
        .filter(|(_, healths)| healths.contains(Health::Healthy.into_str()))
        .map(|(phase, _)| *phase)
        .collect();
    assert_eq!(healthy, ["completed", "paused", "running"], "only these can be healthy");
    assert!(walked.edges.iter().all(|(from, _)| *from != Phase::Deleted.into_str()));
    assert!(walked.edges.contains(&("deleting", "deleted")));
    assert_eq!(walked.health.len(), 9, "every phase is reached: {:?}", walked.health.keys());
}
