//! Names that sealed events still carry: they are hashed and cannot be renamed, so the document lists the
//! former name of a type beside the one it has today.

use serde_json::Value;
use trueup_model::event::FORMER_TYPES;

/// Lets the data of an event have the former name of its type.
pub(super) fn add(document: &mut Value) {
    let variants = &mut document["components"]["schemas"]["EventData"]["oneOf"];
    for variant in variants.as_array_mut().into_iter().flatten() {
        // The type is in the last part of a variant that refers to the schema of its data.
        let own = match variant.get("allOf").and_then(Value::as_array).map(Vec::len) {
            Some(parts) => format!("/allOf/{}/properties/type/enum", parts.saturating_sub(1)),
            None => "/properties/type/enum".to_owned(),
        };
        let Some(names) = variant.pointer_mut(&own).and_then(Value::as_array_mut) else {
            continue;
        };
        for (former, today) in FORMER_TYPES {
            if names.iter().any(|name| name == today.into_str()) {
                names.push(former.into());
            }
        }
    }
}
