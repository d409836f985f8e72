//! S24: no template and no parameter can give a pod more privileges than allowed.
//!
//! The deny list is independent of `render`: it is a second check, not a copy.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use trueup_model::order::Body;
use trueup_model::template::{Parameter, ParameterKind, Template};
use trueup_rules::admit::template;
use trueup_rules::render::Rendered;

use crate::manifests::{objects, pod_template};
use crate::{given, seed};

pub(crate) const SHIPPED: [&str; 14] = [
    "web",
    "worker",
    "cron",
    "postgres",
    "redis",
    "minecraft",
    "job",
    "gpu-job",
    "web-2",
    "worker-2",
    "cron-2",
    "postgres-2",
    "redis-2",
    "job-2",
];

/// Keys that must not appear anywhere in a pod.
const NEVER: [&str; 31] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "hostUsers",
    "hostPort",
    "hostIP",
    "hostAliases",
    "hostPath",
    "privileged",
    "procMount",
    "sysctls",
    "seLinuxOptions",
    "windowsOptions",
    "appArmorProfile",
    "nodeName",
    "nodeSelector",
    "tolerations",
    "affinity",
    "priorityClassName",
    "priority",
    "runtimeClassName",
    "ephemeralContainers",
    "initContainers",
    "lifecycle",
    "shareProcessNamespace",
    "csi",
    "nfs",
    "projected",
    "downwardAPI",
    "volumeDevices",
    "imagePullSecrets",
];

fn keys<'a>(value: &'a Value, found: &mut Vec<(&'a String, &'a Value)>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                found.push((key, value));
                keys(value, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// All violations in the pod of an object.
fn forbidden(rendered: &Rendered) -> Vec<String> {
    let Some(template) = pod_template(rendered) else { return Vec::new() };
    let pod = &template["spec"];
    let mut found = Vec::new();
    keys(pod, &mut found);
    let mut wrong: Vec<String> = found
        .iter()
        .filter(|(key, _)| NEVER.contains(&key.as_str()))
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            wrong.push(what.to_owned());
        }
    };
    must(pod["securityContext"]["runAsNonRoot"] == true, "runs as root");
    must(pod["securityContext"]["runAsUser"].as_u64() > Some(0), "runs as user 0");
    must(pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", "is unconfined");
    must(pod["serviceAccountName"] == "trueup-workload", "has another account");
    must(pod["automountServiceAccountToken"] == false, "has a token");
    must(pod["schedulerName"] == "default-scheduler", "has another scheduler");
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        let ours = volume["persistentVolumeClaim"]["claimName"]
            .as_str()
            .is_some_and(|claim| claim.starts_with("data-"));
        // Scratch space: empty, on the node's disk, and bounded.
        let scratch = volume["name"].as_str().is_some_and(|name| name.starts_with("scratch-"))
            && volume["emptyDir"].as_object().is_some_and(|it| it.len() == 1)
            && volume["emptyDir"]["sizeLimit"].is_string();
        let only = volume.as_object().is_some_and(|it| it.len() == 2);
        must((ours || scratch) && only, "has a foreign volume");
    }
    let containers = pod["containers"].as_array().expect("containers");
    must(containers.len() == 1, "has more than one container");
    for container in containers {
        let context = &container["securityContext"];
        let capabilities = &context["capabilities"];
        must(context["allowPrivilegeEscalation"] == false, "may escalate");
        must(*capabilities == json!({"drop": ["ALL"]}), "has capabilities");
        let read_only = usize::from(context["readOnlyRootFilesystem"] == true);
        let fields = context.as_object().map(|it| it.len());
        must(fields == Some(2 + read_only), "has an unexpected context");
        must(container["resources"]["limits"].is_object(), "has no limits");
        must(
            container["resources"]["limits"] == container["resources"]["requests"],
            "may use more than it pays",
        );
        must(container["env"].is_null(), "reads from the cluster");
    }
    wrong
}

/// Values for a parameter: mostly valid ones, some hostile.
fn value(parameter: &Parameter) -> BoxedStrategy<Value> {
    let hostile = prop::sample::select(vec![
        json!({"securityContext": {"privileged": true}}),
        json!([{"name": "x", "image": "y", "privileged": true}]),
        json!("x\n  hostNetwork: true"),
        json!("---\nkind: Pod"),
        json!(null),
        json!(true),
        json!(-1),
    ]);
    let low = parameter.minimum.unwrap_or(0);
    let high = parameter.maximum.unwrap_or(100);
    let good = match parameter.kind {
        ParameterKind::Integer => (low..=high).prop_map(|n| json!(n)).boxed(),
        ParameterKind::Boolean => any::<bool>().prop_map(|b| json!(b)).boxed(),
        ParameterKind::List => {
            prop::collection::vec("\\PC{0,20}", 0..4).prop_map(|list| json!(list)).boxed()
        }
        ParameterKind::Map => prop::collection::btree_map("[A-Z_]{1,8}", "\\PC{0,20}", 0..4)
            .prop_map(|map| json!(map))
            .boxed(),
        ParameterKind::String => match (&parameter.choices, parameter.sets.as_str()) {
            (Some(choices), _) => {
                prop::sample::select(choices.clone()).prop_map(|c| json!(c)).boxed()
            }
            (None, "/image") => "[a-z]{1,8}(:[a-z0-9]{1,5})?".prop_map(|t| json!(t)).boxed(),
            (None, "/schedule") => {
                "[0-5]?[0-9] \\*(/[1-9])? \\* \\* [0-6]".prop_map(|t| json!(t)).boxed()
            }
            (None, _) => "/?[a-z]{1,8}".prop_map(|t| json!(t)).boxed(),
        },
    };
    prop_oneof![9 => good, 1 => hostile].boxed()
}

fn request() -> impl Strategy<Value = (Template, Map<String, Value>)> {
    prop::sample::select(SHIPPED.to_vec()).prop_flat_map(|name| {
        let template = given::template(name);
        let values: Vec<BoxedStrategy<Option<(String, Value)>>> = template
            .parameters
            .iter()
            .map(|(name, parameter)| {
                let name = name.clone();
                let needed = parameter.default.is_none();
                let chance = if needed { 0.99 } else { 0.6 };
                prop::option::weighted(chance, value(parameter))
                    .prop_map(move |value| value.map(|value| (name.clone(), value)))
                    .boxed()
            })
            .collect();
        values.prop_map(move |given| (template.clone(), given.into_iter().flatten().collect()))
    })
}

proptest! {
    #![proptest_config(seed::cases(256))]

    #[test]
    fn no_parameter_gives_a_pod_more_privileges((template, request) in request()) {
        if let Ok(spec) = template::resolve(&template, &request) {
            let mut accepted = given::accepted(&given::template("redis"), json!({}));
            accepted.template = template.reference();
            accepted.spec = spec;
            for rendered in objects(&given::order(&accepted)) {
                prop_assert_eq!(forbidden(&rendered), Vec::<String>::new(), "{}", rendered.key);
            }
        }
    }
}

/// Each entry of the list is planted once and found.
#[test]
fn every_forbidden_field_is_found() {
    let accepted = given::accepted(&given::template("web"), json!({"image": "a"}));
    let order = given::order(&accepted);
    assert!(matches!(order.body, Body::Service(_)));
    let deployment = objects(&order).pop().expect("a workload");
    assert_eq!(forbidden(&deployment), Vec::<String>::new());
    for key in NEVER {
        for place in ["/spec/template/spec", "/spec/template/spec/containers/0"] {
            let mut planted = deployment.clone();
            planted.object.pointer_mut(place).expect("a place")[key] = json!({});
            assert!(!forbidden(&planted).is_empty(), "{key} in {place}");
        }
    }
    let twists: [(&str, Value); 6] = [
        ("/spec/template/spec/securityContext/runAsUser", json!(0)),
        ("/spec/template/spec/containers/0/securityContext/capabilities", json!({"add": ["ALL"]})),
        ("/spec/template/spec/containers/0/resources/limits", json!({})),
        ("/spec/template/spec/serviceAccountName", json!("default")),
        ("/spec/template/spec/automountServiceAccountToken", json!(true)),
        ("/spec/template/spec/schedulerName", json!("theirs")),
    ];
    for (place, value) in twists {
        let mut twisted = deployment.clone();
        *twisted.object.pointer_mut(place).expect("a place") = value;
        assert!(!forbidden(&twisted).is_empty(), "{place}");
    }
}
