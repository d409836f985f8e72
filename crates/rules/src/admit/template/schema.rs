//! A template as JSON Schema (2020-12), for editors, forms and `trueup explain`.
//!
//! The schema describes what [`super::resolve`] accepts, as far as JSON Schema can. Admission uses
//! the rules themselves, whose messages name the fix.

use serde_json::{Map, Value, json};
use trueup_model::name;
use trueup_model::template::{Parameter, ParameterKind, Template};

use super::value::{LONGEST, MOST, MOST_ITEMS, MOST_NAMES};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of a manifest for this template version; its `parameters` are the template's own.
#[must_use]
pub fn schema(template: &Template) -> Value {
    let reference = template.reference().to_string();
    let name = json!({
        "type": "string", "minLength": 1, "maxLength": name::MAX_LEN,
        "description": "The service's name: a-z, 0-9 and '-', a letter first.",
    });
    json!({
        "$schema": DIALECT,
        "title": reference,
        "description": template.summary,
        "type": "object",
        "required": ["kind", "name", "template"],
        "properties": {
            "kind": { "const": "Service", "description": "The kind of object." },
            "name": name,
            "project": { "type": "string", "description": "The project; the default project if omitted." },
            "template": { "const": reference, "description": "The template and its version." },
            "parameters": parameters(template),
        },
    })
}

fn parameters(template: &Template) -> Value {
    let properties: Map<String, Value> = template
        .parameters
        .iter()
        .map(|(name, parameter)| (name.clone(), property(parameter)))
        .collect();
    let required: Vec<&String> = template
        .parameters
        .iter()
        .filter(|(_, parameter)| parameter.default.is_none())
        .map(|(name, _)| name)
        .collect();
    json!({
        "type": "object",
        "description": "Values for the template's parameters.",
        "additionalProperties": false,
        "properties": properties,
        "required": required,
    })
}

/// Marks parameters that cannot change later. `readOnly` means something else to many tools.
const FIXED: &str = "x-trueup-fixed";

fn property(parameter: &Parameter) -> Value {
    let mut property = match parameter.kind {
        ParameterKind::String => json!({
            "type": "string", "minLength": 1, "maxLength": parameter.max_length.unwrap_or(LONGEST),
        }),
        ParameterKind::Integer => json!({
            "type": "integer",
            "minimum": parameter.minimum.unwrap_or(0),
            "maximum": parameter.maximum.unwrap_or(MOST),
        }),
        ParameterKind::Boolean => json!({ "type": "boolean" }),
        ParameterKind::List => json!({
            "type": "array", "maxItems": MOST_ITEMS,
            "items": { "type": "string", "maxLength": parameter.max_length.unwrap_or(LONGEST) },
        }),
        ParameterKind::Map => json!({
            "type": "object", "maxProperties": MOST_NAMES,
            "additionalProperties": { "type": "string" },
        }),
    };
    property["description"] = json!(parameter.description);
    if let Some(title) = &parameter.title {
        property["title"] = json!(title);
    }
    if let Some(default) = &parameter.default {
        property["default"] = default.clone();
    }
    if let Some(choices) = &parameter.choices {
        property["enum"] = json!(choices);
    }
    if !parameter.mutable {
        property[FIXED] = json!(true);
    }
    property
}
