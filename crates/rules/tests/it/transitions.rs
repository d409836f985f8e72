//! Transitions: with every level observed, and with missed ones.

use serde_json::{Value, json};
use trueup_model::key::Kind;
use trueup_model::transition::{Belongs, Level, StateChange, What};
use trueup_rules::status::transition::{snapshot, steps};

fn level(kind: Kind, object: &Value) -> Level {
    snapshot(kind, object).expect("this kind should have transitions").level
}

fn pod(status: &Value) -> Value {
    json!({
        "metadata": { "uid": "u", "name": "web-1", "namespace": "shop", "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": { "trueup.dev/name": "web" } },
        "spec": { "nodeName": status["node"], "containers": [
            { "name": "app", "resources": { "requests": { "cpu": "250m", "memory": "64Mi", "nvidia.com/gpu": "1" } } },
            { "name": "side", "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } } ],
            "initContainers": [{ "name": "first", "resources": { "requests": { "cpu": "2" } } }] },
        "status": status["status"],
    })
}

/// The versions of a pod, as its watch delivers them.
fn life() -> Vec<Value> {
    let condition = |name: &str, holds: &str, at: &str| json!({ "type": name, "status": holds, "lastTransitionTime": at });
    let scheduled = condition("PodScheduled", "True", "2026-01-01T00:00:01Z");
    let running = |since: &str, restarts: u32, last: Value| {
        json!([{ "name": "app", "restartCount": restarts, "lastState": last,
            "state": { "running": { "startedAt": since } } }])
    };
    let end = json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled",
        "startedAt": "2026-01-01T00:00:03Z", "finishedAt": "2026-01-01T00:01:00Z" } });
    let ended = json!([{ "name": "app", "restartCount": 0, "state": end }]);
    let status = |containers: &Value, ready: &str, at: &str| {
        json!({ "phase": "Running", "startTime": "2026-01-01T00:00:02Z",
            "conditions": [scheduled, condition("Ready", ready, at)], "containerStatuses": containers })
    };
    let first = running("2026-01-01T00:00:03Z", 0, json!({}));
    let again = running("2026-01-01T00:01:05Z", 1, end);
    let mut life = vec![
        pod(&json!({ "status": { "phase": "Pending" } })),
        pod(&json!({ "node": "n1", "status": { "phase": "Pending", "conditions": [scheduled] } })),
        pod(&json!({ "node": "n1", "status": status(&first, "True", "2026-01-01T00:00:04Z") })),
        pod(&json!({ "node": "n1", "status": status(&ended, "False", "2026-01-01T00:01:01Z") })),
        pod(&json!({ "node": "n1", "status": status(&again, "True", "2026-01-01T00:01:06Z") })),
    ];
    let mut last = life[4].clone();
    last["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:02:30Z");
    last["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    life.push(last);
    life
}

fn lines(steps: &[StateChange]) -> Vec<String> {
    steps
        .iter()
        .map(|StateChange { what, at }| {
            let at = at.map_or_else(|| "-".to_owned(), |at| at.strftime("%M:%S").to_string());
            format!("{at} {}", serde_json::to_string(what).unwrap())
        })
        .collect()
}

#[test]
fn a_life_is_told_step_by_step_with_the_clusters_own_times() {
    let mut before: Option<Level> = None;
    let mut all = Vec::new();
    for object in life() {
        let now = level(Kind::Pod, &object);
        all.extend(steps(before.as_ref(), &now));
        assert!(steps(Some(&now), &now).is_empty(), "the same level should give no change");
        before = Some(now);
    }
    insta::assert_snapshot!(lines(&all).join("\n"));
}

/// The cluster's times have whole seconds: a container can end and start again within one.
#[test]
fn restart_within_one_second_is_an_end_and_a_start() {
    let status = |restarts: u32, last: &Value| {
        pod(&json!({ "node": "n1", "status": { "phase": "Running", "containerStatuses": [
            { "name": "app", "restartCount": restarts, "lastState": last,
              "state": { "running": { "startedAt": "2026-01-01T00:00:03Z" } } }] } }))
    };
    let end = json!({ "terminated": { "exitCode": 1, "startedAt": "2026-01-01T00:00:03Z",
        "finishedAt": "2026-01-01T00:00:03Z" } });
    let before = level(Kind::Pod, &status(0, &json!({})));
    let changes = steps(Some(&before), &level(Kind::Pod, &status(1, &end)));
    let kinds: Vec<bool> =
        changes.iter().map(|one| matches!(one.what, What::ContainerStarted { .. })).collect();
    assert_eq!(kinds, [false, true], "{changes:?}");
}

/// Missed versions lose only what the cluster does not keep, and nothing is duplicated.
#[test]
fn missed_levels_lose_changes_but_duplicate_none() {
    let life = life();
    for skipped in 0..(1_u32 << life.len()) {
        let mut before: Option<Level> = None;
        let mut all: Vec<StateChange> = Vec::new();
        for (number, object) in life.iter().enumerate() {
            if skipped & (1 << number) == 0 {
                let now = level(Kind::Pod, object);
                all.extend(steps(before.as_ref(), &now));
                before = Some(now);
            }
        }
        // Readiness changes back and forth; everything else happens once per timestamp.
        let comes_and_goes = |what: &What| matches!(what, What::Ready | What::Unready { .. });
        let mut once: Vec<String> = all
            .iter()
            .filter(|step| !comes_and_goes(&step.what))
            .map(|step| format!("{step:?}"))
            .collect();
        let count = once.len();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), count, "{:#?}", lines(&all));
        if let (Some(Level::Pod(last)), Some(Level::Pod(seen))) =
            (before, life.last().map(|object| level(Kind::Pod, object)))
            && last == seen
        {
            let has = |wanted: fn(&What) -> bool| all.iter().any(|step| wanted(&step.what));
            assert!(has(|what| matches!(what, What::Appeared)));
            assert!(has(|what| matches!(what, What::Scheduled { .. })));
            assert!(has(
                |what| matches!(what, What::ContainerEnded { end, .. } if end.code == 137)
            ));
            assert!(has(|what| matches!(what, What::Deleting)));
        }
    }
}

#[test]
fn disks_and_nodes_have_lives_too() {
    let claim = |phase: &str, size: &str| {
        json!({ "metadata": { "uid": "c", "name": "data-0", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "volumeName": "pv-1" }, "status": { "phase": phase, "capacity": { "storage": size } } })
    };
    let volume = |phase: &str| {
        json!({ "metadata": { "uid": "v", "name": "pv-1", "creationTimestamp": "2026-01-01T00:00:01Z" },
            "spec": { "capacity": { "storage": "1Gi" }, "claimRef": { "namespace": "shop", "name": "data-0", "uid": "c" } },
            "status": { "phase": phase, "lastPhaseTransitionTime": "2026-01-01T00:00:09Z" } })
    };
    let node = |ready: &str, cpu: &str| {
        json!({ "metadata": { "uid": "n", "name": "n1", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "trueup.dev/node-class": "simulated", "kubernetes.io/arch": "amd64", "other": "x" } },
            "status": { "capacity": { "cpu": cpu, "memory": "1Gi" }, "conditions": [
                { "type": "Ready", "status": ready, "reason": "Because", "lastTransitionTime": "2026-01-01T00:00:05Z" }] } })
    };
    let mut all = String::new();
    for (kind, objects) in [
        (
            Kind::PersistentVolumeClaim,
            vec![claim("Pending", "0"), claim("Bound", "1Gi"), claim("Bound", "2Gi")],
        ),
        (Kind::PersistentVolume, vec![volume("Available"), volume("Bound"), volume("Released")]),
        (
            Kind::Node,
            vec![node("False", "4"), node("True", "4"), node("Unknown", "4"), node("True", "8")],
        ),
    ] {
        let mut before: Option<Level> = None;
        for object in objects {
            let now = level(kind, &object);
            for line in lines(&steps(before.as_ref(), &now)) {
                all.push_str(&format!("{kind} {line}\n"));
            }
            before = Some(now);
        }
    }
    insta::assert_snapshot!(all);
}

#[test]
fn ownership_is_read_from_the_object() {
    let belongs = |kind, object: Value| snapshot(kind, &object).map(|snapshot| snapshot.belongs);
    let claim = Belongs::Claim { namespace: "shop".to_owned(), name: "data-0".to_owned() };
    let at = json!({ "namespace": "shop", "name": "data-0" });
    assert_eq!(
        belongs(Kind::PersistentVolumeClaim, json!({ "metadata": at })),
        Some(claim.clone())
    );
    assert_eq!(belongs(Kind::PersistentVolume, json!({ "spec": { "claimRef": at } })), Some(claim));
    assert_eq!(belongs(Kind::PersistentVolume, json!({})), Some(Belongs::Others));
    assert_eq!(belongs(Kind::Node, json!({})), Some(Belongs::Platform));
    assert_eq!(belongs(Kind::Pod, json!({})), Some(Belongs::Others));
    assert_eq!(belongs(Kind::ConfigMap, json!({})), None);
}
