//! Whether a template may be published: errors that its users would run into are reported to its
//! publisher first.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use trueup_model::spec::Spec;
use trueup_model::template::{Parameter, ParameterKind, Template};

use super::value::{self, MOST};
use super::{place, resolve};
use crate::admit::spec::is_variable;
use crate::admit::{FieldError, image};
use crate::drift;

/// How many parameters a template may have.
const MOST_PARAMETERS: usize = 50;

/// The longest summary, title or description.
const LONGEST_SENTENCE: usize = 300;

/// Every reason why this template may not be published.
///
/// Parameters may not set everything: resources (its cost), workload, generated secrets and the
/// path of its disk are fixed by the template.
#[must_use]
pub fn check(template: &Template) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut add = |field: String, message: String| errors.push(FieldError { field, message });
    if template.version == 0 {
        add("version".to_owned(), "must be at least 1".to_owned());
    }
    if template.deprecated.is_some() {
        let message = "is set by `trueup template deprecate`; leave it out";
        add("deprecated".to_owned(), message.to_owned());
    }
    if !is_sentence(&template.summary) {
        add("summary".to_owned(), sentence());
    }
    if template.parameters.len() > MOST_PARAMETERS {
        add("parameters".to_owned(), format!("must be at most {MOST_PARAMETERS}"));
    }
    for entry in template.images.iter().flat_map(|policy| &policy.allow) {
        if !image::is_pattern(entry) {
            let message = format!(
                "`{entry}` is neither a repository, such as `postgres`, nor a prefix that ends with \
                 `/`, such as `registry.example/team/`"
            );
            add("images.allow".to_owned(), message);
        }
    }
    let mut set: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, parameter) in &template.parameters {
        for message in wrong_with(name, parameter, &template.spec) {
            add(format!("parameters.{name}"), message);
        }
        if let Some(other) = set.insert(&parameter.sets, name) {
            let message = format!("sets `{}`, which `{other}` also sets; keep one", parameter.sets);
            add(format!("parameters.{name}"), message);
        }
    }
    errors.extend(drift::admit::admit(&template.drift, "drift"));
    if errors.is_empty() {
        errors.extend(wrong_with_spec(template));
    }
    errors
}

/// Every reason why a version may not come after the one before it.
///
/// Services are upgraded from version to version, and neither the workload kind nor the path of a
/// disk can change.
#[must_use]
pub fn follows(before: &Template, next: &Template) -> Vec<FieldError> {
    ["/workload", "/volume/path"]
        .into_iter()
        .filter(|place| before.spec.pointer(place) != next.spec.pointer(place))
        .map(|place| {
            let was =
                before.spec.pointer(place).map_or_else(|| "absent".to_owned(), Value::to_string);
            let message = format!(
                "`{place}` must stay {was}, as in `{}`; publish the change under another template \
                 name",
                before.reference()
            );
            FieldError::at("spec", message)
        })
        .collect()
}

fn is_sentence(text: &str) -> bool {
    (1..=LONGEST_SENTENCE).contains(&text.chars().count()) && !text.contains(char::is_control)
}

fn sentence() -> String {
    format!("must be a sentence of at most {LONGEST_SENTENCE} characters")
}

fn wrong_with(name: &str, parameter: &Parameter, spec: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let good_name = (1..=40).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && name.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    if !good_name {
        let rule = "must have a name of 1 to 40 of a-z, 0-9 and '_', a letter first";
        wrong.push(rule.to_owned());
    }
    if !is_sentence(&parameter.description) {
        wrong.push(format!("has a description that {}", sentence()));
    }
    if parameter.title.as_ref().is_some_and(|title| !is_sentence(title)) {
        wrong.push(format!("has a title that {}", sentence()));
    }
    match slot(&parameter.sets) {
        None => wrong.push(format!(
            "sets `{}`, which a parameter may not set; allowed: {}",
            parameter.sets,
            SLOTS.join(", ")
        )),
        Some(kinds) if !kinds.contains(&parameter.kind) => {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.into_str()).collect();
            wrong.push(format!("sets `{}`, which takes {}", parameter.sets, kinds.join(" or ")));
        }
        Some(_) if spec.pointer(&parameter.sets).is_none() => {
            let hint = "put a value there that the parameter replaces";
            wrong.push(format!("sets `{}`, which is not in the spec; {hint}", parameter.sets));
        }
        Some(_) => {}
    }
    wrong.extend(wrong_constraints(parameter));
    if let Some(default) = &parameter.default
        && let Err(message) = value::check(parameter, default)
    {
        wrong.push(format!("has a default that {message}"));
    }
    wrong
}

/// Constraints that can never hold, or do not apply to this type.
fn wrong_constraints(parameter: &Parameter) -> Vec<String> {
    use ParameterKind::{Integer, List, String as Text};
    let mut wrong = Vec::new();
    let only = |kinds: &[ParameterKind], set: bool| set && !kinds.contains(&parameter.kind);
    if only(&[Integer], parameter.minimum.is_some() || parameter.maximum.is_some()) {
        wrong.push("minimum and maximum are only for an integer".to_owned());
    }
    if only(&[Text, List], parameter.max_length.is_some()) {
        wrong.push("maxLength is only for a string or a list".to_owned());
    }
    if only(&[Text], parameter.choices.is_some()) {
        wrong.push("enum is only for a string".to_owned());
    }
    let (low, high) = (parameter.minimum.unwrap_or(0), parameter.maximum.unwrap_or(MOST));
    if low > high || low < 0 || high > MOST {
        wrong.push(format!("must have a minimum and a maximum in order, from 0 to {MOST}"));
    }
    if parameter.max_length.is_some_and(|length| !(1..=32_768).contains(&length)) {
        wrong.push("must have a maxLength from 1 to 32768".to_owned());
    }
    if parameter.choices.as_ref().is_some_and(|choices| choices.is_empty() || choices.len() > 100) {
        wrong.push("must have 1 to 100 choices".to_owned());
    }
    wrong
}

/// What parameters may set, as shown in errors.
const SLOTS: [&str; 14] = [
    "/image",
    "/replicas",
    "/autoscale/min, max and cpu_percent",
    "/schedule",
    "/retries",
    "/time_limit_s",
    "/command",
    "/args",
    "/variables",
    "/ports/N/port",
    "/volume/size_gib",
    "/read_only_root",
    "/scratch/N/size_mib",
    "/probe/http/path",
];

/// The types that a place accepts, if parameters may set it.
fn slot(pointer: &str) -> Option<&'static [ParameterKind]> {
    use ParameterKind::{Boolean, Integer, List, Map, String as Text};
    let index = |text: &str| text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = pointer.split('/').collect();
    match parts.as_slice() {
        ["", "image" | "schedule"] | ["", "probe", "http", "path"] => Some(&[Text]),
        ["", "replicas" | "retries" | "time_limit_s"] | ["", "volume", "size_gib"] => {
            Some(&[Integer])
        }
        ["", "autoscale", "min" | "max" | "cpu_percent"] => Some(&[Integer]),
        ["", "command" | "args"] => Some(&[List]),
        ["", "command" | "args", number] if index(number) => Some(&[Text, Integer, Boolean]),
        ["", "variables"] => Some(&[Map]),
        ["", "variables", name] if is_variable(name) => Some(&[Text, Integer, Boolean]),
        ["", "ports", number, "port"] if index(number) => Some(&[Integer]),
        ["", "read_only_root"] => Some(&[Boolean]),
        ["", "scratch", number, "size_mib"] if index(number) => Some(&[Integer]),
        _ => None,
    }
}

/// The spec must be valid with the smallest and with the largest allowed values.
fn wrong_with_spec(template: &Template) -> Vec<FieldError> {
    let mut base = template.spec.clone();
    for parameter in template.parameters.values() {
        let value = parameter.default.clone().unwrap_or_else(|| sample(template, parameter, false));
        if let Some(slot) = base.pointer_mut(&parameter.sets) {
            place(slot, &value, &parameter.sets);
        }
    }
    if let Err(error) = serde_json::from_value::<Spec>(base) {
        return vec![FieldError { field: "spec".to_owned(), message: error.to_string() }];
    }
    let mut errors = Vec::new();
    for largest in [false, true] {
        let given: Map<String, Value> = template
            .parameters
            .iter()
            .filter(|(_, parameter)| {
                parameter.default.is_none() || parameter.kind == ParameterKind::Integer
            })
            .map(|(name, parameter)| (name.clone(), sample(template, parameter, largest)))
            .collect();
        if let Err(more) = resolve(template, &given) {
            errors.extend(more.into_iter().map(|field_error| FieldError {
                field: if field_error.field == "template" {
                    "spec".to_owned()
                } else {
                    field_error.field
                },
                message: field_error.message.replace("the template is invalid: ", ""),
            }));
        }
    }
    errors.dedup();
    errors
}

/// The smallest or largest value that the parameter accepts.
fn sample(template: &Template, parameter: &Parameter, largest: bool) -> Value {
    match parameter.kind {
        ParameterKind::Integer if largest => json!(parameter.maximum.unwrap_or(MOST)),
        ParameterKind::Integer => json!(parameter.minimum.unwrap_or(0)),
        ParameterKind::Boolean => json!(largest),
        ParameterKind::List => json!([]),
        ParameterKind::Map => json!({}),
        ParameterKind::String => match (parameter.sets.as_str(), &parameter.choices) {
            (_, Some(choices)) => json!(choices.first()),
            ("/image", None) => json!(example_image(template)),
            ("/schedule", None) => json!("0 0 * * *"),
            ("/probe/http/path", None) => json!("/"),
            (_, None) => json!("x"),
        },
    }
}

/// An image that the template's policy allows.
fn example_image(template: &Template) -> String {
    let policy = template.images.as_ref();
    let mut image = match policy.and_then(|policy| policy.allow.first()) {
        Some(prefix) if prefix.ends_with('/') => format!("{prefix}example"),
        Some(repository) => repository.clone(),
        None => "example".to_owned(),
    };
    if policy.is_some_and(|policy| policy.require_digest) {
        image.push_str("@sha256:");
        image.push_str(&"0".repeat(64));
    }
    image
}
