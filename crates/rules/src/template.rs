//! Resolving a template: each parameter is checked and then placed into the spec by its pointer.
//!
//! Values are placed as values. Nothing is ever spliced into text, so no input can change the
//! shape of what is rendered.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use trueup_model::spec::Spec;
use trueup_model::template::{Parameter, ParameterKind, Template};

use crate::admit::Breach;

/// The spec that these parameters give, or every reason why they give none.
///
/// # Errors
/// Each breach names the parameter and what would be right.
pub fn resolve(template: &Template, given: &Map<String, Value>) -> Result<Spec, Vec<Breach>> {
    let mut breaches = unknown_parameters(template, given);
    let mut spec = template.spec.clone();
    for (name, parameter) in &template.parameters {
        let field = format!("parameters.{name}");
        let Some(value) = given.get(name).or(parameter.default.as_ref()) else {
            let message = format!("is needed: {}", parameter.description);
            breaches.push(Breach { field, message });
            continue;
        };
        if let Err(message) = check(parameter, value) {
            breaches.push(Breach { field, message });
        } else if let Some(slot) = spec.pointer_mut(&parameter.sets) {
            place(slot, value);
        } else {
            let message =
                format!("the template is broken: `{}` is not in its spec", parameter.sets);
            breaches.push(Breach { field, message });
        }
    }
    if !breaches.is_empty() {
        return Err(breaches);
    }
    serde_json::from_value(spec).map_err(|error| {
        vec![Breach {
            field: "template".to_owned(),
            message: format!("the template is broken: {error}"),
        }]
    })
}

fn unknown_parameters(template: &Template, given: &Map<String, Value>) -> Vec<Breach> {
    let known: Vec<&str> = template.parameters.keys().map(String::as_str).collect();
    given
        .keys()
        .filter(|name| !template.parameters.contains_key(*name))
        .map(|name| Breach {
            field: format!("parameters.{name}"),
            message: format!(
                "is not a parameter of {}@{}; it takes: {}",
                template.name,
                template.version,
                known.join(", ")
            ),
        })
        .collect()
}

/// A map is laid over the template's own entries; everything else replaces the slot.
fn place(slot: &mut Value, value: &Value) {
    match (slot, value) {
        (Value::Object(base), Value::Object(given)) => {
            base.extend(given.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        (slot, value) => *slot = value.clone(),
    }
}

fn check(parameter: &Parameter, value: &Value) -> Result<(), String> {
    match parameter.kind {
        ParameterKind::Integer => check_integer(parameter, value),
        ParameterKind::String => check_text(parameter, value.as_str().ok_or("must be a text")?),
        ParameterKind::Map => check_map(value),
    }
}

/// What an integer may be where its parameter sets no bound: all that a spec can hold.
const MOST: i64 = 0xFFFF_FFFF;

fn check_integer(parameter: &Parameter, value: &Value) -> Result<(), String> {
    let number = value.as_i64().ok_or("must be a whole number")?;
    let low = parameter.minimum.unwrap_or(0);
    let high = parameter.maximum.unwrap_or(MOST);
    if (low..=high).contains(&number) {
        Ok(())
    } else {
        Err(format!("must be from {low} to {high}, is {number}"))
    }
}

fn check_text(parameter: &Parameter, text: &str) -> Result<(), String> {
    let longest = parameter.max_length.unwrap_or(255);
    if text.is_empty() || text.chars().count() > longest {
        return Err(format!("must have 1 to {longest} characters"));
    }
    if text.chars().any(char::is_control) {
        return Err("must not contain control characters".to_owned());
    }
    if text.trim() != text {
        return Err("must not begin or end with a space".to_owned());
    }
    match &parameter.choices {
        Some(choices) if !choices.iter().any(|choice| choice == text) => {
            Err(format!("must be one of: {}", choices.join(", ")))
        }
        Some(_) | None => Ok(()),
    }
}

/// What one ConfigMap takes, and so what the values of a map may have together.
const MOST_TEXT: usize = 1 << 20;

/// Environment variables: names as POSIX has them, values as text.
fn check_map(value: &Value) -> Result<(), String> {
    let map: BTreeMap<&String, &Value> =
        value.as_object().ok_or("must be names with text values")?.iter().collect();
    if map.len() > 200 {
        return Err("must have at most 200 entries".to_owned());
    }
    let mut together = 0_usize;
    for (name, value) in map {
        let good = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if !good {
            return Err(format!("`{name}` is not a variable's name: use letters, digits and '_'"));
        }
        let text = value.as_str().ok_or_else(|| format!("the value of `{name}` must be a text"))?;
        if text.len() > 32_768 || text.contains('\0') {
            return Err(format!("the value of `{name}` must be at most 32 KiB and without NUL"));
        }
        together = together.saturating_add(text.len());
    }
    if together > MOST_TEXT {
        return Err("all values together must be at most 1 MiB".to_owned());
    }
    Ok(())
}
