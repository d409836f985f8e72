//! Checks one value against its parameter; errors say what is allowed.

use std::collections::BTreeMap;

use serde_json::Value;
use trueup_model::template::{Parameter, ParameterKind};

use crate::admit::spec::is_variable;
use crate::admit::variable::MOST_IN_SPEC;

/// The largest integer if the parameter sets no maximum: the most a spec can hold.
pub(super) const MOST: i64 = 0xFFFF_FFFF;

/// The longest string if the parameter sets no maximum length.
pub(super) const LONGEST: usize = 255;

/// How many items a list may have.
pub(super) const MOST_ITEMS: usize = 100;

/// How many names a map may have.
pub(super) const MOST_NAMES: usize = 200;

/// Whether a parameter accepts a value.
pub(super) fn check(parameter: &Parameter, value: &Value) -> Result<(), String> {
    match parameter.kind {
        ParameterKind::Integer => check_integer(parameter, value),
        ParameterKind::String => check_text(parameter, value.as_str().ok_or("must be a string")?),
        ParameterKind::Boolean => {
            if value.is_boolean() {
                Ok(())
            } else {
                Err("must be true or false".to_owned())
            }
        }
        ParameterKind::List => check_list(parameter, value),
        ParameterKind::Map => check_map(value),
    }
}

fn check_integer(parameter: &Parameter, value: &Value) -> Result<(), String> {
    let number = value.as_i64().ok_or("must be an integer")?;
    let low = parameter.minimum.unwrap_or(0);
    let high = parameter.maximum.unwrap_or(MOST);
    if (low..=high).contains(&number) {
        Ok(())
    } else {
        Err(format!("must be from {low} to {high}, is {number}"))
    }
}

fn check_text(parameter: &Parameter, text: &str) -> Result<(), String> {
    let longest = parameter.max_length.unwrap_or(LONGEST);
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

/// Words of a command: any text, because a word may be a script.
fn check_list(parameter: &Parameter, value: &Value) -> Result<(), String> {
    let list = value.as_array().ok_or("must be a list of strings")?;
    if list.len() > MOST_ITEMS {
        return Err(format!("must have at most {MOST_ITEMS} items"));
    }
    let longest = parameter.max_length.unwrap_or(LONGEST);
    for (number, value) in (1..).zip(list) {
        let number: usize = number;
        let text = value.as_str().ok_or_else(|| format!("item {number} must be a string"))?;
        if text.chars().count() > longest || text.contains('\0') {
            return Err(format!("item {number} must have at most {longest} characters and no NUL"));
        }
    }
    Ok(())
}

/// Environment variables: POSIX names with string values.
fn check_map(value: &Value) -> Result<(), String> {
    let map: BTreeMap<&String, &Value> =
        value.as_object().ok_or("must be a map of names to strings")?.iter().collect();
    if map.len() > MOST_NAMES {
        return Err(format!("must have at most {MOST_NAMES} entries"));
    }
    let mut together = 0_usize;
    for (name, value) in map {
        if !is_variable(name) {
            return Err(format!(
                "`{name}` is not a valid variable name: use letters, digits and '_'"
            ));
        }
        let text =
            value.as_str().ok_or_else(|| format!("the value of `{name}` must be a string"))?;
        if text.len() > 32_768 || text.contains('\0') {
            return Err(format!("the value of `{name}` must be at most 32 KiB and without NUL"));
        }
        together = together.saturating_add(text.len());
    }
    if together > MOST_IN_SPEC {
        return Err("all values together must be at most 512 KiB".to_owned());
    }
    Ok(())
}
