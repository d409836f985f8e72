//! User text is only ever a leaf: it never changes the tree around it (S23).

use proptest::prelude::*;
use serde_json::{Value, json};
use trueup_model::key::Kind;
use trueup_model::order::{Body, Order};
use trueup_model::spec::Probe;
use trueup_rules::render::names;

use crate::forbidden::SHIPPED;
use crate::manifests::{objects, pod_template};
use crate::{given, seed};

/// Not part of any name or label that we write.
const MARK: &str = "zq9";

fn hostile() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "a\n  hostNetwork: true",
        "---\nkind: Namespace",
        "{{ .Values.secret }}",
        "${HOME} $(HOME) %s",
        "\"},\"privileged\":true,{\"",
        "&anchor *anchor <<: *anchor",
        "!!python/object/apply:os.system",
        "yes",
        "null",
        "1e3",
        "0x1F",
        "\u{0}\u{7f}\u{202e}",
        "',=in (a,b)",
        "../../etc/passwd",
        "",
    ]);
    let text = prop_oneof![known.prop_map(str::to_owned), any::<String>()];
    text.prop_map(|text| format!("{text}{MARK}"))
}

/// A service with this text in every field that takes user text.
fn with_text(template: &str, text: &str) -> Order {
    let mut request = json!({"image": "plain"});
    if template.starts_with("cron") {
        request["schedule"] = json!("@daily");
    }
    let accepted = given::accepted(&given::template(template), request);
    let mut order = given::order(&accepted);
    if let Body::Service(body) = &mut order.body {
        let spec = &mut body.spec;
        spec.image = text.to_owned();
        spec.args = vec![text.to_owned()];
        spec.command = vec![text.to_owned(), text.to_owned()];
        spec.schedule = spec.schedule.take().map(|_| text.to_owned());
        spec.variables.insert("GREETING".to_owned(), text.to_owned());
        spec.probe = Some(Probe::Http { path: text.to_owned() });
        if let Some(volume) = &mut spec.volume {
            volume.path = text.to_owned();
        }
    }
    order
}

/// Every label that an object of a service may have.
const OUR_KEYS: [&str; 6] = [
    names::MANAGED_BY,
    names::ORG_LABEL,
    names::PROJECT_LABEL,
    names::SERVICE_LABEL,
    names::TEMPLATE_LABEL,
    names::POD_LABEL,
];

/// A DNS label as RFC 1123 has it.
fn is_dns(text: &str) -> bool {
    let inner = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    inner && (1..=63).contains(&text.len()) && !text.starts_with('-') && !text.ends_with('-')
}

/// What Kubernetes takes as the value of a label.
fn is_label(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && edge(text.chars().next())
        && edge(text.chars().last())
}

/// Keys, types and lengths, without the values of leaves.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Bool(_) => json!("a truth"),
        Value::Number(_) => json!("a number"),
        Value::String(_) => json!("a text"),
        Value::Array(list) => list.iter().map(shape).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
    }
}

/// The paths of leaves that carry the mark; no key may.
fn marked(value: &Value, path: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) if text.contains(MARK) => found.push((path.to_owned(), text.clone())),
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                marked(value, &format!("{path}/{index}"), found);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                assert!(!key.contains(MARK), "{path} has a key {key:?}");
                marked(value, &format!("{path}/{key}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

proptest! {
    #![proptest_config(seed::cases(64))]

    #[test]
    fn user_text_never_changes_the_shape_of_objects(
        text in hostile(),
        template in prop::sample::select(SHIPPED.to_vec()),
    ) {
        let plain = objects(&with_text(template, "plain"));
        let hostile = objects(&with_text(template, &text));
        prop_assert_eq!(plain.len(), hostile.len());
        for (plain, hostile) in plain.iter().zip(&hostile) {
            // The name of a Job is a digest of its spec.
            if plain.key.kind != Kind::Job {
                prop_assert_eq!(&plain.key, &hostile.key);
            }
            prop_assert_eq!(shape(&plain.object), shape(&hostile.object));
        }
    }

    #[test]
    fn a_hostile_text_appears_unchanged_and_only_in_its_fields(text in hostile()) {
        let mut found = Vec::new();
        for rendered in objects(&with_text("minecraft", &text)) {
            marked(&rendered.object, rendered.key.kind.as_str(), &mut found);
        }
        found.sort();
        let pod = "StatefulSet/spec/template/spec/containers/0";
        let expected: Vec<(String, String)> = [
            "ConfigMap/data/GREETING".to_owned(),
            format!("{pod}/args/0"),
            format!("{pod}/command/0"),
            format!("{pod}/command/1"),
            format!("{pod}/image"),
            format!("{pod}/readinessProbe/httpGet/path"),
            format!("{pod}/volumeMounts/0/mountPath"),
        ]
        .into_iter()
        .map(|path| (path, text.clone()))
        .collect();
        prop_assert_eq!(found, expected);
    }

    /// S20, S22: whatever is said, names, labels and annotations stay ours and stay in bounds.
    #[test]
    fn user_text_never_reaches_names_labels_or_selectors(
        text in hostile(),
        template in prop::sample::select(SHIPPED.to_vec()),
    ) {
        for rendered in objects(&with_text(template, &text)) {
            let (object, key) = (&rendered.object, &rendered.key);
            prop_assert!(is_dns(&key.name) && is_dns(&key.namespace), "{}", key);
            let mut metadata = vec![&object["metadata"]];
            metadata.extend(pod_template(&rendered).map(|pod| &pod["metadata"]));
            metadata.push(&object["spec"]["jobTemplate"]["metadata"]);
            for one in metadata {
                for (name, value) in one["labels"].as_object().into_iter().flatten() {
                    prop_assert!(OUR_KEYS.contains(&name.as_str()), "{key} has the label {name}");
                    prop_assert!(value.as_str().is_some_and(is_label), "{key} {name}={value}");
                }
                for (name, value) in one["annotations"].as_object().into_iter().flatten() {
                    prop_assert!(name.starts_with("trueup.dev/"), "{key} has {name}");
                    prop_assert!(!value.to_string().contains(MARK), "{key} {name}={value}");
                }
            }
            let selectors = [&object["spec"]["selector"], &object["spec"]["selector"]["matchLabels"]];
            for selector in selectors {
                prop_assert!(!selector.to_string().contains(MARK), "{key}: {selector}");
            }
        }
    }

    #[test]
    fn admission_keeps_a_text_unchanged_or_refuses_it(text in hostile()) {
        let template = given::template("web");
        let request = given::parameters(json!({"image": text, "variables": {"GREETING": text}}));
        match trueup_rules::admit::template::resolve(&template, &request) {
            Ok(spec) => {
                prop_assert_eq!(&spec.image, &text);
                prop_assert_eq!(&spec.variables["GREETING"], &text);
            }
            Err(errors) => {
                for field_error in errors {
                    let ours = ["parameters.image", "parameters.variables"];
                    prop_assert!(ours.contains(&field_error.field.as_str()), "{:?}", field_error);
                }
            }
        }
    }
}
