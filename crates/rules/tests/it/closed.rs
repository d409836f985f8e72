//! Open paths keep additions of other writers; closed paths do not.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use trueup_model::drift::{Divergence, DivergenceState};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::report::{ObjectChange, Outcome};
use trueup_rules::plan::Action;
use trueup_rules::render::names;

use crate::world::World;
use crate::{given, seed};

/// A running service, fully applied.
pub(crate) fn running(template: &str) -> World {
    let mut parameters = json!({"image": "image:0"});
    if template == "cron" {
        parameters["schedule"] = json!("@hourly");
    }
    let mut world = match template {
        "project" => World::project(),
        _ => World::service(given::template(template), parameters),
    };
    world.reconcile();
    world
}

pub(crate) fn key_of(world: &World, kind: Kind) -> ResourceKey {
    let found = world
        .server
        .objects
        .keys()
        .find(|key| key.kind == kind && names::anchor_ordinal(&key.name, &key.name).is_none());
    found.expect("an object of this kind").clone()
}

/// Sets a value at a pointer, creating missing parents; `-` appends to a list.
pub(crate) fn put(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/");
        let index = step.parse::<usize>().ok().filter(|_| !place.is_object());
        place = match (step.as_str(), index) {
            ("-", _) => {
                if !place.is_array() {
                    *place = json!([]);
                }
                let list = place.as_array_mut().expect("a list");
                list.push(Value::Null);
                list.last_mut().expect("an entry")
            }
            (_, Some(index)) => &mut place[index],
            (name, None) => &mut place[name],
        };
    }
    *place = value;
}

const CONTAINER: &str = "/spec/template/spec/containers/0";
const CRON_POD: &str = "/spec/jobTemplate/spec/template/spec";

/// Template, kind, pointer and value of an addition.
type Addition = (&'static str, Kind, String, Value);

/// Additions to closed paths.
fn inside() -> Vec<Addition> {
    let mut all = inside_deployments();
    all.extend(inside_others());
    all
}

fn miner() -> Value {
    json!({"name": "miner", "image": "miner:1"})
}

fn inside_deployments() -> Vec<Addition> {
    let deployment = |place: &str, value| ("web", Kind::Deployment, place.to_owned(), value);
    let container = |place: &str, value| deployment(&format!("{CONTAINER}{place}"), value);
    vec![
        deployment("/spec/template/spec/containers/-", miner()),
        deployment("/spec/template/spec/initContainers/-", miner()),
        deployment(
            "/spec/template/spec/volumes/-",
            json!({"name": "host", "hostPath": {"path": "/"}}),
        ),
        deployment("/spec/template/spec/hostNetwork", json!(true)),
        deployment("/spec/template/spec/hostPID", json!(true)),
        deployment("/spec/template/spec/nodeSelector/trueup.dev~1node-class", json!("gpu")),
        deployment("/spec/template/spec/nodeName", json!("gpu-1")),
        deployment("/spec/template/spec/affinity", json!({"podAntiAffinity": {"x": [1]}})),
        deployment("/spec/template/spec/dnsConfig", json!({"nameservers": ["10.0.0.1"]})),
        deployment("/spec/template/spec/readinessGates", json!([{"conditionType": "x"}])),
        deployment("/spec/template/spec/activeDeadlineSeconds", json!(60)),
        deployment("/spec/template/spec/shareProcessNamespace", json!(true)),
        deployment("/spec/template/spec/securityContext/sysctls", json!([{"name": "x"}])),
        deployment("/spec/paused", json!(true)),
        deployment("/spec/minReadySeconds", json!(5)),
        deployment("/spec/template/metadata/annotations/trueup.dev~1other", json!("x")),
        container("/env/-", json!({"name": "LD_PRELOAD", "value": "evil.so"})),
        container("/envFrom/-", json!({"secretRef": {"name": "others"}})),
        container("/command", json!(["sh"])),
        container("/args", json!(["-c", "true"])),
        container("/ports/-", json!({"containerPort": 22, "protocol": "TCP"})),
        container("/volumeMounts/-", json!({"name": "host", "mountPath": "/host"})),
        container("/lifecycle", json!({"postStart": {"exec": {"command": ["sh"]}}})),
        container("/livenessProbe", json!({"exec": {"command": ["false"]}})),
        container("/readinessProbe/initialDelaySeconds", json!(600)),
        container("/readinessProbe/httpGet/host", json!("example.com")),
        container("/workingDir", json!("/tmp")),
        container("/ports/0/hostPort", json!(80)),
        container("/securityContext/readOnlyRootFilesystem", json!(true)),
        container("/securityContext/privileged", json!(true)),
        container("/securityContext/capabilities/add", json!(["SYS_ADMIN"])),
        container("/resources/limits/ephemeral-storage", json!("1Gi")),
    ]
}

fn inside_others() -> Vec<Addition> {
    let service = |place: &str, value| ("web", Kind::Service, place.to_owned(), value);
    let project = |kind, place: &str, value| ("project", kind, place.to_owned(), value);
    let cron = |place: &str, value| ("cron", Kind::CronJob, format!("{CRON_POD}{place}"), value);
    vec![
        service("/spec/selector/app", json!("other")),
        service("/spec/ports/-", json!({"name": "ssh", "port": 22})),
        service("/spec/externalIPs", json!(["10.0.0.1"])),
        service("/spec/publishNotReadyAddresses", json!(true)),
        service("/spec/trafficDistribution", json!("PreferClose")),
        service("/metadata/labels/trueup.dev~1other", json!("x")),
        service(
            "/metadata/ownerReferences/-",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}),
        ),
        ("web", Kind::ConfigMap, "/data/EXTRA".to_owned(), json!("1")),
        ("web", Kind::ConfigMap, "/binaryData".to_owned(), json!({"x": "eA=="})),
        (
            "minecraft",
            Kind::PersistentVolumeClaim,
            "/metadata/ownerReferences/-".to_owned(),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}),
        ),
        (
            "minecraft",
            Kind::StatefulSet,
            format!("{CONTAINER}/env/-"),
            json!({"name": "A", "value": "b"}),
        ),
        ("minecraft", Kind::StatefulSet, "/spec/minReadySeconds".to_owned(), json!(5)),
        ("minecraft", Kind::StatefulSet, "/spec/ordinals".to_owned(), json!({"start": 7})),
        (
            "minecraft",
            Kind::StatefulSet,
            format!("{CONTAINER}/volumeMounts/0/readOnly"),
            json!(true),
        ),
        ("minecraft", Kind::StatefulSet, format!("{CONTAINER}/volumeMounts/0/subPath"), json!("x")),
        ("postgres", Kind::Secret, "/data/EXTRA".to_owned(), json!("eA==")),
        ("gpu-job", Kind::Job, "/spec/ttlSecondsAfterFinished".to_owned(), json!(1)),
        (
            "cron",
            Kind::CronJob,
            "/spec/jobTemplate/spec/ttlSecondsAfterFinished".to_owned(),
            json!(1),
        ),
        cron("/containers/-", miner()),
        cron("/containers/0/env/-", json!({"name": "A", "value": "b"})),
        project(Kind::NetworkPolicy, "/spec/ingress", json!([{}])),
        project(
            Kind::RoleBinding,
            "/subjects/-",
            json!({"kind": "User", "name": "other", "apiGroup": "rbac.authorization.k8s.io"}),
        ),
        project(Kind::ResourceQuota, "/spec/hard/count~1pods", json!("1")),
        project(Kind::ResourceQuota, "/spec/scopes", json!(["BestEffort"])),
        project(Kind::LimitRange, "/spec/limits/0/max", json!({"cpu": "9"})),
        project(
            Kind::Namespace,
            "/metadata/labels/pod-security.kubernetes.io~1enforce-version",
            json!("v1.20"),
        ),
    ]
}

/// Additions to open paths.
fn outside() -> Vec<Addition> {
    let deployment = |place: &str, value| ("web", Kind::Deployment, place.to_owned(), value);
    let container = |place: &str, value| deployment(&format!("{CONTAINER}{place}"), value);
    vec![
        deployment("/metadata/labels/team", json!("red")),
        deployment("/metadata/annotations/deployment.kubernetes.io~1revision", json!("3")),
        deployment(
            "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt",
            json!("now"),
        ),
        deployment("/spec/revisionHistoryLimit", json!(3)),
        deployment("/spec/template/spec/priorityClassName", json!("high")),
        deployment("/spec/template/spec/tolerations", json!([{"key": "spot"}])),
        deployment("/spec/template/spec/nodeSelector/disk", json!("fast")),
        deployment("/spec/template/spec/terminationGracePeriodSeconds", json!(30)),
        deployment("/spec/template/spec/schedulerName", json!("default-scheduler")),
        deployment("/spec/paused", json!(false)),
        container("/resizePolicy", json!([{"resourceName": "cpu"}])),
        deployment("/status", json!({"replicas": 9})),
        ("web", Kind::Service, "/spec/clusterIP".to_owned(), json!("10.0.0.9")),
        ("web", Kind::Service, "/spec/sessionAffinity".to_owned(), json!("None")),
        ("web", Kind::Service, "/spec/type".to_owned(), json!("ClusterIP")),
        ("web", Kind::Service, "/spec/ports/0/nodePort".to_owned(), json!(0)),
        ("web", Kind::Service, "/metadata/finalizers/-".to_owned(), json!("cloud/load-balancer")),
        ("web", Kind::ConfigMap, "/metadata/annotations/x".to_owned(), json!("y")),
        ("minecraft", Kind::PersistentVolumeClaim, "/spec/volumeName".to_owned(), json!("pv-1")),
        (
            "minecraft",
            Kind::StatefulSet,
            "/spec/updateStrategy/rollingUpdate/maxUnavailable".to_owned(),
            json!(1),
        ),
        (
            "project",
            Kind::Namespace,
            "/metadata/labels/kubernetes.io~1metadata.name".to_owned(),
            json!("x"),
        ),
        ("project", Kind::ServiceAccount, "/imagePullSecrets".to_owned(), json!([{"name": "x"}])),
        (
            "cron",
            Kind::CronJob,
            "/spec/jobTemplate/spec/podReplacementPolicy".to_owned(),
            json!("Failed"),
        ),
    ]
}

proptest! {
    #![proptest_config(seed::cases(96))]

    #[test]
    fn f45_additions_to_open_paths_never_cause_a_write(
        first in select(outside()),
        more in prop::collection::vec(any::<Index>(), 0..6),
    ) {
        let mut world = running(first.0);
        let all = outside();
        let fitting: Vec<_> = all.iter().filter(|one| one.0 == first.0).collect();
        let more = more.iter().map(|index| fitting[index.index(fitting.len())]);
        for (_, kind, place, value) in std::iter::once(&first).chain(more) {
            let key = key_of(&world, *kind);
            world.server.edit(&key, |live| put(live, place, value.clone()));
        }
        let plan = world.plan();
        prop_assert_eq!(plan.actions, []);
        prop_assert_eq!(plan.outcome, Outcome::Converged);
    }

    #[test]
    fn f45_additions_to_closed_paths_are_removed_by_one_write(
        first in select(inside()),
        more in prop::collection::vec(any::<Index>(), 0..4),
    ) {
        let mut world = running(first.0);
        let all = inside();
        let fitting: Vec<_> = all.iter().filter(|it| (it.0, it.1) == (first.0, first.1)).collect();
        let more = more.iter().map(|index| fitting[index.index(fitting.len())]);
        let key = key_of(&world, first.1);
        for (_, _, place, value) in std::iter::once(&first).chain(more) {
            world.server.edit(&key, |live| put(live, place, value.clone()));
        }
        let pass = world.reconcile();
        prop_assert_eq!(pass.rounds.len(), 1, "{:?}", pass);
        prop_assert_eq!(pass.rounds[0].len(), 1, "{:?}", pass);
        prop_assert!(matches!(pass.rounds[0][0], Action::Prune { .. }), "{:?}", pass);
        prop_assert_eq!(pass.outcome, Outcome::Converged);
        prop_assert_eq!(world.plan().actions, []);
    }
}

#[test]
fn every_addition_to_a_closed_path_is_removed_and_named() {
    for (template, kind, place, value) in inside() {
        let mut world = running(template);
        let key = key_of(&world, kind);
        let before = world.server.objects[&key].clone();
        world.server.edit(&key, |live| put(live, &place, value.clone()));
        let plan = world.plan();
        let [Action::Prune { change: ObjectChange::ModifiedExternally { fields, .. }, .. }] =
            plan.actions.as_slice()
        else {
            unreachable!("{kind} {place} should be pruned, got {plan:?}")
        };
        let named = place.trim_start_matches('/').replace("~1", "/");
        let first = named.split('/').next().unwrap_or_default();
        let [Divergence { field, state, .. }] = fields.as_slice() else {
            unreachable!("{kind} {place} is one addition, not {fields:?}")
        };
        assert!(field.starts_with(first), "{place} was called {field}");
        assert_eq!(*state, DivergenceState::Reverted);
        world.reconcile();
        for part in ["spec", "data", "binaryData", "subjects"] {
            let after = without_empty(world.server.objects[&key][part].clone());
            assert_eq!(after, without_empty(before[part].clone()), "{kind} {place}");
        }
    }
}

/// Without empty maps, which a server does not keep.
fn without_empty(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        *fields = std::mem::take(fields)
            .into_iter()
            .map(|(name, field)| (name, without_empty(field)))
            .filter(|(_, field)| *field != json!({}))
            .collect();
    }
    value
}

#[test]
fn on_an_older_generation_only_values_of_known_managers_are_pruned() {
    let mut world = running("web");
    let key = key_of(&world, Kind::Deployment);
    world.server.edit(&key, |live| {
        put(live, &format!("{CONTAINER}/env/-"), json!({"name": "THEIRS", "value": "1"}));
        live["metadata"]["managedFields"] = json!([{"manager": "kubectl-edit", "fieldsV1": {
            "f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {
                "f:env": {"k:{\"name\":\"THEIRS\"}": {".": {}}}}}}}}}}]);
    });
    world.change(given::parameters(json!({"image": "image:1"}))).expect("an allowed change");
    let pass = world.reconcile();
    let changes: Vec<_> = pass
        .rounds
        .iter()
        .flatten()
        .filter_map(|action| match action {
            Action::Prune { change, .. } => Some(change.clone()),
            Action::Apply { change, .. } => Some(change.clone()),
            Action::Delete { .. } | Action::ReleaseAnchor { .. } | Action::VerifyAbsence => None,
        })
        .filter(|change| format!("{change:?}").contains("Deployment"))
        .collect();
    let [ObjectChange::ModifiedExternally { fields, .. }, ObjectChange::Updated { .. }] =
        changes.as_slice()
    else {
        unreachable!("a prune and an update, not {changes:?}")
    };
    let fields: Vec<_> = fields.iter().map(|one| (one.field.as_str(), one.by.as_deref())).collect();
    let field = "spec.template.spec.containers.main.env.THEIRS";
    assert_eq!(fields, [(field, Some("kubectl-edit"))]);
}

#[test]
fn an_unsigned_stamp_of_an_older_version_is_signed_as_an_update() {
    let mut world = running("web");
    let key = key_of(&world, Kind::Service);
    world.server.edit(&key, |live| {
        let stamp = &mut live["metadata"]["annotations"][names::DIGEST_ANNOTATION];
        let plain = stamp.as_str().and_then(|it| it.split('.').next()).expect("a stamp").to_owned();
        *stamp = json!(plain);
    });
    let plan = world.plan();
    assert!(
        matches!(&plan.actions[..], [Action::Apply { change: ObjectChange::Updated { .. }, .. }]),
        "{plan:?}"
    );
}
