//! What is decided about a field that differs: single decisions, policies, fights.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use trueup_model::drift::{
    AdoptMode, DivergenceState, DriftOrder, DriftPolicy, DriftRule, FIGHT_WINDOW, FieldDecision,
    FieldRef, Verdict,
};
use trueup_model::key::{Kind, ResourceKey};
use trueup_rules::drift::decide::{
    Handling, adopt_mode, covers, decide, may_keep, may_keep_any, verdict,
};

use crate::given::at;

const IMAGE: &str = "spec.template.spec.containers.main.image";

fn key(kind: Kind) -> ResourceKey {
    ResourceKey::new(kind, "shop", "web")
}

fn field(path: &str) -> FieldRef {
    FieldRef { key: key(Kind::Deployment), field: path.to_owned() }
}

fn rule(kind: Option<Kind>, path: Option<&str>, verdict: Verdict) -> DriftRule {
    DriftRule { kind, path: path.map(str::to_owned), verdict }
}

fn rules(rules: Vec<DriftRule>) -> DriftPolicy {
    DriftPolicy { rules, ..DriftPolicy::default() }
}

fn all(verdict: Verdict, adopt: Option<AdoptMode>) -> DriftPolicy {
    DriftPolicy { verdict: Some(verdict), adopt, rules: Vec::new() }
}

fn under(policies: Vec<DriftPolicy>) -> DriftOrder {
    DriftOrder { policies, ..DriftOrder::default() }
}

const fn revert(verdict: Verdict) -> Handling {
    Handling::Revert { verdict }
}

const fn keep(verdict: Verdict, state: DivergenceState) -> Handling {
    Handling::Keep { verdict, state }
}

#[test]
fn a_path_covers_itself_and_what_is_inside() {
    for (path, inner, expected) in [
        ("spec.replicas", "spec.replicas", true),
        ("spec.template", "spec.template.spec.dnsPolicy", true),
        ("spec.replicas", "spec.replicasMore", false),
        ("spec.replicas", "spec", false),
        ("spec.replicas", "", false),
        ("", "", true),
        ("", "spec.replicas", false),
    ] {
        assert_eq!(covers(path, inner), expected, "{path:?} {inner:?}");
    }
}

#[test]
fn the_nearest_rule_of_the_first_policy_with_an_answer_counts() {
    use Verdict::{Adopt, Enforce, Ignore};
    let nearest = rules(vec![
        rule(None, Some("spec"), Enforce),
        rule(None, Some("spec.template"), Ignore),
        rule(Some(Kind::Deployment), Some("spec.template"), Adopt),
        rule(Some(Kind::Service), Some("spec.template.spec"), Enforce),
        rule(Some(Kind::Deployment), None, Ignore),
    ]);
    let twice = rules(vec![rule(None, Some("spec"), Adopt), rule(None, Some("spec"), Ignore)]);
    let about_data = rules(vec![rule(None, Some("data"), Adopt)]);
    let table = [
        ("no policy", vec![], "spec.replicas", Enforce),
        ("nothing said", vec![DriftPolicy::default()], "spec.replicas", Enforce),
        ("longest path, then kind", vec![nearest.clone()], IMAGE, Adopt),
        ("shorter path", vec![nearest.clone()], "spec.replicas", Enforce),
        ("kind alone", vec![nearest.clone()], "data.KEY", Ignore),
        ("the first of two equal rules", vec![twice], "spec.replicas", Adopt),
        ("first policy", vec![all(Ignore, None), nearest], IMAGE, Ignore),
        (
            "a rule before its policy",
            vec![DriftPolicy {
                verdict: Some(Ignore),
                ..rules(vec![rule(None, Some("spec"), Adopt)])
            }],
            "spec.replicas",
            Adopt,
        ),
        ("no answer, so the next one", vec![about_data, all(Ignore, None)], IMAGE, Ignore),
    ];
    for (what, policies, path, expected) in table {
        assert_eq!(verdict(&policies, &field(path)), expected, "{what}");
    }
}

#[test]
fn the_first_policy_that_says_how_decides_how_values_are_adopted() {
    let says = |adopt| DriftPolicy { adopt, ..DriftPolicy::default() };
    let (keep, automatic) = (says(Some(AdoptMode::Keep)), says(Some(AdoptMode::Automatic)));
    assert_eq!(adopt_mode(&[]), AdoptMode::Propose);
    assert_eq!(adopt_mode(&[says(None), keep, automatic]), AdoptMode::Keep);
}

#[test]
fn a_verdict_reverts_or_keeps() {
    use DivergenceState::{Ignored, Proposed};
    use Verdict::{Adopt, Enforce, Ignore};
    let table = [
        (all(Enforce, None), revert(Enforce)),
        (all(Ignore, None), keep(Ignore, Ignored)),
        (all(Adopt, None), revert(Adopt)),
        (all(Adopt, Some(AdoptMode::Propose)), revert(Adopt)),
        (all(Adopt, Some(AdoptMode::Keep)), keep(Adopt, Proposed)),
        (all(Adopt, Some(AdoptMode::Automatic)), keep(Adopt, Proposed)),
    ];
    for (policy, expected) in table {
        let found = decide(&under(vec![policy.clone()]), &field("spec.replicas"), at(0));
        assert_eq!(found, expected, "{policy:?}");
    }
}

#[test]
fn a_decision_about_a_field_comes_before_the_policies() {
    use DivergenceState::{Ignored, InConflict, Proposed};
    use Verdict::{Adopt, Enforce, Ignore};
    let (past, later) = (at(50), at(150));
    let table = [
        (FieldDecision::InConflict, keep(Enforce, InConflict)),
        (FieldDecision::Proposed { until: later }, keep(Adopt, Proposed)),
        (FieldDecision::Proposed { until: past }, revert(Enforce)),
        (FieldDecision::Ignore { until: None }, keep(Ignore, Ignored)),
        (FieldDecision::Ignore { until: Some(later) }, keep(Ignore, Ignored)),
        (FieldDecision::Ignore { until: Some(past) }, revert(Enforce)),
        (FieldDecision::Enforce { until: None }, revert(Enforce)),
    ];
    for (decision, expected) in table {
        for decided_at in ["spec.strategy.type", "spec.strategy", "spec"] {
            let fields = BTreeMap::from([(field(decided_at), decision)]);
            let drift = DriftOrder { fields, ..DriftOrder::default() };
            let found = decide(&drift, &field("spec.strategy.type"), at(100));
            assert_eq!(found, expected, "{decision:?} at {decided_at}");
            assert_eq!(decide(&drift, &field("metadata.labels.x"), at(100)), revert(Enforce));
        }
    }
    // The nearest one counts; an expired one does not.
    let drift = |until| DriftOrder {
        fields: BTreeMap::from([
            (field("spec"), FieldDecision::InConflict),
            (field("spec.replicas"), FieldDecision::Ignore { until }),
        ]),
        ..DriftOrder::default()
    };
    let replicas = field("spec.replicas");
    assert_eq!(decide(&drift(None), &replicas, at(100)), keep(Ignore, Ignored));
    assert_eq!(decide(&drift(Some(past)), &replicas, at(100)), keep(Enforce, InConflict));
}

#[test]
fn three_rounds_within_ten_minutes_are_a_fight() {
    use DivergenceState::{Ignored, InConflict};
    use Verdict::{Adopt, Enforce, Ignore};
    let now = at(10_000);
    let ago = |seconds: i64| now.checked_sub(SignedDuration::from_secs(seconds)).expect("a time");
    let fought = |policy: DriftPolicy, path: &str, rounds: &[i64]| DriftOrder {
        rounds: BTreeMap::from([(field(path), rounds.iter().map(|it| ago(*it)).collect())]),
        ..under(vec![policy])
    };
    let window = FIGHT_WINDOW.as_secs();
    let replicas = "spec.replicas";
    let automatic = all(Adopt, Some(AdoptMode::Automatic));
    let table = [
        ("two rounds", all(Enforce, None), replicas, vec![2, 1], revert(Enforce)),
        ("three", all(Enforce, None), replicas, vec![window - 1, 2, 1], keep(Enforce, InConflict)),
        ("one is too long ago", all(Enforce, None), replicas, vec![window, 2, 1], revert(Enforce)),
        ("of another field", all(Enforce, None), "spec.paused", vec![3, 2, 1], revert(Enforce)),
        ("of a parent", all(Enforce, None), "spec", vec![3, 2, 1], keep(Enforce, InConflict)),
        ("proposed", all(Adopt, None), replicas, vec![3, 2, 1], keep(Adopt, InConflict)),
        ("adopted", automatic, replicas, vec![3, 2, 1], keep(Adopt, InConflict)),
        ("ignored", all(Ignore, None), replicas, vec![3, 2, 1], keep(Ignore, Ignored)),
    ];
    for (what, policy, path, rounds, expected) in table {
        let drift = fought(policy, path, &rounds);
        assert_eq!(decide(&drift, &field(replicas), now), expected, "{what}");
    }
    let mut settled = fought(all(Enforce, None), replicas, &[3, 2, 1]);
    settled.fields.insert(field(replicas), FieldDecision::Enforce { until: None });
    assert_eq!(decide(&settled, &field(replicas), now), revert(Enforce), "rounds are not counted");
}

/// Neither a policy nor a decision nor a fight gives an object or a project away.
#[test]
fn ownership_isolation_and_security_are_always_enforced() {
    let now = at(0);
    let of = |kind, path: &str| FieldRef { key: key(kind), field: path.to_owned() };
    let pod = "spec.template.spec";
    for it in [
        of(Kind::Deployment, ""),
        of(Kind::Deployment, "metadata.annotations.trueup.dev/proof"),
        of(Kind::Deployment, "metadata.labels.trueup.dev/generation"),
        of(Kind::Deployment, "metadata.labels.app.kubernetes.io/managed-by"),
        of(Kind::Service, "metadata.ownerReferences.web-anchor-1"),
        of(Kind::ConfigMap, "metadata.finalizers"),
        of(Kind::NetworkPolicy, "spec.ingress"),
        of(Kind::RoleBinding, "subjects"),
        of(Kind::Deployment, &format!("{pod}.containers.main.securityContext.privileged")),
        of(Kind::Deployment, &format!("{pod}.hostNetwork")),
    ] {
        let drift = DriftOrder {
            fields: BTreeMap::from([(it.clone(), FieldDecision::Ignore { until: None })]),
            rounds: BTreeMap::from([(it.clone(), vec![now; 9])]),
            ..under(vec![all(Verdict::Ignore, None)])
        };
        assert_eq!(decide(&drift, &it, now), revert(Verdict::Enforce), "{it}");
    }
}

#[test]
fn only_objects_whose_values_may_be_kept_are_written_with_care() {
    use Verdict::{Adopt, Enforce, Ignore};
    let about = |kind, verdict| rules(vec![rule(kind, None, verdict)]);
    let adopts = |mode| DriftPolicy { adopt: Some(mode), ..about(None, Adopt) };
    let deployment = key(Kind::Deployment);
    let table = [
        (under(vec![]), false),
        (under(vec![all(Enforce, None)]), false),
        (under(vec![all(Ignore, None)]), true),
        (under(vec![about(Some(Kind::Deployment), Ignore)]), true),
        (under(vec![about(Some(Kind::Service), Ignore)]), false),
        (under(vec![adopts(AdoptMode::Propose)]), false),
        (under(vec![adopts(AdoptMode::Automatic)]), true),
        (
            DriftOrder {
                fields: BTreeMap::from([(field("spec"), FieldDecision::InConflict)]),
                ..DriftOrder::default()
            },
            true,
        ),
        (
            DriftOrder {
                rounds: BTreeMap::from([(field("spec"), vec![Timestamp::UNIX_EPOCH])]),
                ..DriftOrder::default()
            },
            true,
        ),
    ];
    for (drift, expected) in table {
        assert_eq!(may_keep(&drift, &deployment), expected, "{drift:?}");
        assert!(!expected || may_keep_any(&drift), "{drift:?}");
    }
    assert!(!may_keep_any(&under(vec![all(Enforce, None)])));
}
