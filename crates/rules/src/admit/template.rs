//! Resolving a template: each parameter is checked and then placed into the spec by its pointer.
//!
//! Values are placed as JSON values. Nothing is spliced into text, so no input can change the shape
//! of what is rendered.

mod publish;
mod schema;
mod value;

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use trueup_model::spec::Spec;
use trueup_model::template::Template;

use crate::admit::spec::Fault;
use crate::admit::{FieldError, image, spec};

pub use publish::{check, follows};
pub use schema::schema;

/// Resolves parameters to a spec, or returns every error.
///
/// # Errors
/// Each error names the parameter and what is allowed.
pub fn resolve(template: &Template, given: &Map<String, Value>) -> Result<Spec, Vec<FieldError>> {
    let mut errors = unknown_parameters(template, given);
    let mut base = template.spec.clone();
    let mut placed: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, parameter) in &template.parameters {
        let field = format!("parameters.{name}");
        let Some(value) = given.get(name).or(parameter.default.as_ref()) else {
            let message = format!("is required: {}", parameter.description);
            errors.push(FieldError { field, message });
            continue;
        };
        if let Err(message) = value::check(parameter, value) {
            errors.push(FieldError { field, message });
        } else if let Some(slot) = base.pointer_mut(&parameter.sets) {
            place(slot, value, &parameter.sets);
            placed.insert(&parameter.sets, name);
        } else {
            let message =
                format!("the template is invalid: `{}` is not in its spec", parameter.sets);
            errors.push(FieldError { field, message });
        }
    }
    let spec = match typed(base) {
        Ok(spec) => spec,
        Err(error) => {
            errors.push(broken(&error.to_string()));
            return Err(errors);
        }
    };
    errors.extend(
        faults(template, &spec)
            .into_iter()
            .filter_map(|fault| {
                match parameter_of(&placed, &fault.place) {
                    Some(name) => Some(FieldError {
                        field: format!("parameters.{name}"),
                        message: fault.message,
                    }),
                    // A fault where a missing or refused parameter would be is not the template's.
                    None if !errors.is_empty() => None,
                    None => Some(broken(&format!("`{}` {}", fault.place, fault.message))),
                }
            })
            .collect::<Vec<_>>(),
    );
    if errors.is_empty() { Ok(spec) } else { Err(errors) }
}

/// The spec that these values give, before any of them is checked; `None` if one is missing or does
/// not fit into a spec.
pub(crate) fn unchecked(template: &Template, given: &Map<String, Value>) -> Option<Spec> {
    let mut base = template.spec.clone();
    for (name, parameter) in &template.parameters {
        let value = given.get(name).or(parameter.default.as_ref())?;
        place(base.pointer_mut(&parameter.sets)?, value, &parameter.sets);
    }
    typed(base).ok()
}

/// A filled spec in its typed form.
fn typed(base: Value) -> Result<Spec, serde_json::Error> {
    let mut spec: Spec = serde_json::from_value(base)?;
    // A template with optional autoscaling sets `max` to 0 by default.
    spec.autoscale = spec.autoscale.take().filter(|autoscale| autoscale.max > 0);
    Ok(spec)
}

/// Why a version takes no new services, if it is deprecated. Existing services continue.
#[must_use]
pub fn refuses_new(template: &Template) -> Option<FieldError> {
    let deprecated = template.deprecated.as_ref()?;
    let message = format!(
        "`{}` is deprecated since {} and takes no new services; {}",
        template.reference(),
        deprecated.at,
        deprecated.instead
    );
    Some(FieldError { field: "template".to_owned(), message })
}

/// Violations of the platform's rules and of the template's image policy.
pub(crate) fn faults(template: &Template, spec: &Spec) -> Vec<Fault> {
    let mut faults = spec::check(spec);
    if let (Some(policy), Ok(image)) = (&template.images, image::parse(&spec.image))
        && let Err(message) = image::allowed(policy, &image)
    {
        faults.push(Fault { place: "/image".to_owned(), message });
    }
    faults
}

/// The parameter that set the place of a fault or one of its parents.
fn parameter_of<'a>(placed: &BTreeMap<&str, &'a str>, place: &str) -> Option<&'a str> {
    let within = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    placed.iter().find(|(sets, _)| within(sets, place)).map(|(_, name)| *name)
}

fn broken(why: &str) -> FieldError {
    FieldError { field: "template".to_owned(), message: format!("the template is invalid: {why}") }
}

fn unknown_parameters(template: &Template, given: &Map<String, Value>) -> Vec<FieldError> {
    let known: Vec<&str> = template.parameters.keys().map(String::as_str).collect();
    given
        .keys()
        .filter(|name| !template.parameters.contains_key(*name))
        .map(|name| FieldError {
            field: format!("parameters.{name}"),
            message: format!(
                "is not a parameter of {}@{}; valid parameters: {}",
                template.name,
                template.version,
                known.join(", ")
            ),
        })
        .collect()
}

/// Places a value: a map is merged into the template's entries, anything else replaces the slot.
///
/// Variables and words of a command are strings, so numbers and booleans are converted there.
fn place(slot: &mut Value, value: &Value, sets: &str) {
    let is_text = ["/variables/", "/args/", "/command/"].iter().any(|one| sets.starts_with(one));
    match (slot, value) {
        (Value::Object(base), Value::Object(given)) => {
            base.extend(given.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        (slot, Value::Bool(_) | Value::Number(_)) if is_text => {
            *slot = Value::String(value.to_string());
        }
        (slot, value) => *slot = value.clone(),
    }
}
