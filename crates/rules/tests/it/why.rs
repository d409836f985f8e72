//! `why` explains every state of a service.

use std::collections::BTreeMap;

use serde_json::json;
use trueup_model::drift::{Divergence, DivergenceClass, DivergenceState};
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::id::{ConflictId, DivergenceId};
use trueup_model::key::Kind;
use trueup_model::observation::Cause;
use trueup_model::report::Outcome;
use trueup_model::service::DesiredState;
use trueup_model::status::{Inputs, Phase, Status};
use trueup_model::why::{Asked, DivergenceSeen, EventSeen, Facts, LinkStep, WakeSeen};
use trueup_rules::status::project;
use trueup_rules::status::why::explain;
use uuid::Uuid;

use crate::given::at;
use crate::projection::{edited, inputs, newer, pods, ran, seen, stuck, troubled, unreachable};

fn facts(inputs: Inputs) -> Facts {
    let status = project(&inputs, at(9));
    let event = |number: u128, kind: &str| EventSeen {
        id: trueup_model::EventId::from_uuid(Uuid::from_u128(number)),
        kind: kind.to_owned(),
        at: at(2),
    };
    let objects =
        inputs.observation.objects.iter().map(|one| (one.key.clone(), Some(one.uid.clone())));
    Facts {
        desired: inputs.desired,
        generation: inputs.generation,
        cluster: "local".to_owned(),
        asked: Asked {
            release: trueup_model::id::ReleaseId::from_uuid(Uuid::from_u128(1)),
            action: "declare".to_owned(),
            principal: "owner".to_owned(),
            at: at(1),
        },
        wake: None,
        events: vec![event(2, "ServiceQueued"), event(3, "ReconcileStarted")],
        objects: objects.collect(),
        status,
        inputs: Some(inputs),
        silent: Vec::new(),
        freeze: None,
        divergences: Vec::new(),
    }
}

fn explained(facts: &Facts) -> String {
    let why = explain(facts);
    let mut text = format!("{}\n", why.answer);
    for link in why.links {
        let step = serde_json::to_value(link.step).unwrap();
        let at = link.at.map(|at| format!(" at {at}")).unwrap_or_default();
        let step = step.as_str().unwrap_or_default();
        text.push_str(&format!("  {step}: {}{at} {:?}\n", link.text, link.proof));
    }
    text.push_str(&format!("  unblock: {:?}\n", why.unblock));
    text
}

fn freeze(scope: FreezeScope) -> Freeze {
    Freeze { scope, by: "an operator".to_owned(), why: "an audit".to_owned(), since: at(1) }
}

/// A frozen service without pods, for each scope of the freeze.
fn of_frozen() -> Vec<(&'static str, Facts)> {
    let without_pods = |outcome: Outcome| {
        let mut lost = inputs(Phase::Running);
        ran(&mut lost);
        seen(&mut lost, pods(0, 2));
        lost.observation.applied = outcome == Outcome::Converged;
        lost.outcome = outcome;
        lost
    };
    let frozen = |scope| {
        let freeze = freeze(scope);
        let why = format!("{freeze}; Deployment/shop/web waits");
        Facts { freeze: Some(freeze), ..facts(without_pods(Outcome::Frozen { why })) }
    };
    let nothing_to_write = Facts {
        freeze: Some(freeze(FreezeScope::Platform)),
        ..facts(without_pods(Outcome::Converged))
    };
    vec![
        ("8 frozen", frozen(FreezeScope::Service)),
        ("8 frozen with its cluster", frozen(FreezeScope::Cluster)),
        ("8 frozen, nothing to write", nothing_to_write),
        ("8 just unfrozen", Facts { freeze: None, ..frozen(FreezeScope::Service) }),
    ]
}

#[test]
fn a_frozen_service_is_never_explained_as_in_progress() {
    for (name, facts) in of_frozen().into_iter().filter(|(_, facts)| facts.freeze.is_some()) {
        let text = explained(&facts);
        assert!(!text.contains("in progress"), "{name}: {text}");
        assert!(text.contains("by an operator: an audit"), "{name}: {text}");
        assert!(text.contains("`trueup unfreeze"), "{name}: {text}");
    }
}

#[test]
fn each_state_has_its_chain() {
    let mut cases: BTreeMap<&str, Facts> = BTreeMap::new();
    cases.insert("1 healthy", facts(inputs(Phase::Running)));
    let mut broken = inputs(Phase::Creating);
    seen(&mut broken, pods(0, 2));
    broken.observation.pods.push(troubled(Cause::ImageMissing, "container app: not found"));
    cases.insert("2 no image", facts(broken));
    let mut blocked = inputs(Phase::Running);
    newer(&mut blocked);
    blocked.outcome = stuck();
    cases.insert("3 blocked", facts(blocked));
    let mut lost = inputs(Phase::Running);
    lost.outcome = unreachable();
    cases.insert("4 unreachable", facts(lost));
    cases.insert("5 silent", Facts { silent: vec![Kind::Pod], ..facts(inputs(Phase::Running)) });
    let wake = WakeSeen {
        state: "queued".to_owned(),
        due_at: at(3),
        attempts: 2,
        error: Some("a pass broke".to_owned()),
    };
    let queued = Facts {
        inputs: None,
        events: Vec::new(),
        objects: Vec::new(),
        status: Status::accepted(at(1)),
        wake: Some(wake),
        ..facts(inputs(Phase::Accepted))
    };
    cases.insert("6 only recorded", queued);
    let mut gone = inputs(Phase::Deleting);
    gone.desired = DesiredState::Deleted;
    gone.absent = true;
    gone.outcome = Outcome::Converged;
    cases.insert("7 gone", facts(gone));
    cases.extend(of_frozen());
    let text: String =
        cases.iter().map(|(name, facts)| format!("{name}: {}", explained(facts))).collect();
    insta::assert_snapshot!(text);
}

#[test]
fn an_unhealthy_service_always_has_an_unblock_advice() {
    for cause in Cause::ALL {
        let mut given = inputs(Phase::Creating);
        seen(&mut given, pods(0, 2));
        given.observation.pods.push(troubled(cause, "the detail"));
        let why = explain(&facts(given));
        assert_eq!(why.unblock.as_deref(), Some(cause.advice()));
        assert!(why.answer.contains("the detail"), "{}", why.answer);
    }
}

/// The sentence about one difference, with its evidence.
fn about(divergence: Divergence, facts: Facts) -> (String, Vec<String>) {
    let conflict = divergence.state == DivergenceState::InConflict;
    let seen = DivergenceSeen {
        id: DivergenceId::from_uuid(Uuid::from_u128(7)),
        expires_at: (divergence.state == DivergenceState::Proposed).then(|| at(60)),
        conflict: conflict.then(|| ConflictId::from_uuid(Uuid::from_u128(8))),
        divergence,
        since: at(3),
    };
    let mut links = explain(&Facts { divergences: vec![seen], ..facts }).links;
    links.retain(|link| link.step == LinkStep::Diverged);
    let link = links.pop().expect("a link");
    assert_eq!((links.len(), link.at), (0, Some(at(3))));
    (link.text, link.proof)
}

#[test]
fn each_standing_difference_is_explained_with_what_to_do() {
    const ID: &str = "dvg_00000000000000000000000007";
    const CONFLICT: &str = "cft_00000000000000000000000008";
    let changed = "kubectl-edit changed spec.replicas of Deployment/shop/web from 2 to 5";
    let table = [
        (DivergenceState::Open, format!("{changed}; it will be reverted")),
        (DivergenceState::Ignored, format!("{changed}; it is left alone, as decided")),
        (
            DivergenceState::Proposed,
            format!(
                "{changed}; its adoption is proposed until 2030-01-01T00:01:00Z: `trueup drift adopt \
                 {ID}` makes the value the desired one, `trueup drift reject {ID}` does not"
            ),
        ),
        (
            DivergenceState::InConflict,
            format!(
                "{changed}; it is not enforced until you decide: `trueup conflicts settle {CONFLICT} \
                 ours`, `ignore` or `adopt`"
            ),
        ),
    ];
    for (state, expected) in table {
        let (text, proof) = about(edited(state), facts(inputs(Phase::Running)));
        assert_eq!(text, expected);
        assert_eq!(proof[0], ID);
    }
    let frozen =
        || Facts { freeze: Some(freeze(FreezeScope::Service)), ..facts(inputs(Phase::Running)) };
    let (text, _) = about(edited(DivergenceState::Open), frozen());
    assert_eq!(text, format!("{changed}; it is not reverted while frozen"));
}

#[test]
fn differences_are_explained_by_their_class_and_without_long_or_secret_values() {
    let open = || edited(DivergenceState::Open);
    let secret = trueup_model::key::ResourceKey::new(Kind::Secret, "shop", "web-secret");
    let table = [
        (
            Divergence { class: DivergenceClass::Deleted, field: String::new(), ..open() },
            "kubectl-edit deleted Deployment/shop/web; it will be reverted",
        ),
        (
            Divergence { class: DivergenceClass::Regressed, live: json!(1), ..open() },
            "the service became worse without a change: 1 instead of 2; this ends when it is healthy \
             again",
        ),
        (
            Divergence { live: json!("x".repeat(100)), by: None, ..open() },
            "another writer changed spec.replicas of Deployment/shop/web; it will be reverted",
        ),
        (
            Divergence { key: secret, field: "data.A".to_owned(), ..open() },
            "kubectl-edit changed data.A of Secret/shop/web-secret; it will be reverted",
        ),
        (
            Divergence { wanted: json!(null), ..open() },
            "kubectl-edit changed spec.replicas of Deployment/shop/web from nothing to 5; it will be \
             reverted",
        ),
    ];
    for (divergence, expected) in table {
        assert_eq!(about(divergence, facts(inputs(Phase::Running))).0, expected);
    }
}

#[test]
fn a_decision_that_is_waited_for_is_the_advice() {
    let table = [
        (DivergenceState::InConflict, "`trueup conflicts settle`"),
        (DivergenceState::Proposed, "`trueup drift adopt`"),
        (DivergenceState::Open, "reverted automatically"),
    ];
    for (state, expected) in table {
        let mut given = inputs(Phase::Running);
        given.observation.divergences.push(edited(state));
        let advice = explain(&facts(given)).unblock.expect("an advice");
        assert!(advice.contains(expected), "{advice}");
    }
    let mut given = inputs(Phase::Running);
    given.observation.divergences.push(edited(DivergenceState::Ignored));
    assert_eq!(explain(&facts(given)).unblock, None);
}
