//! Names that sealed events still carry: they are hashed and cannot be renamed, so the document lists the
//! former name of a type beside the one it has today.

use serde_json::Value;
use trueup_model::event::FORMER_TYPES;

/// Lets the data of an event have the former name of its type.
pub(super) fn add(document: &mut Value) {
    let variants = &mut document["components"]["schemas"]["EventData"]["oneOf"];
    for variant in variants.as_array_mut().into_iter().flatten() {
        let Some(names) = variant["properties"]["type"]["enum"].as_array_mut() else {
            continue;
        };
        for (former, today) in FORMER_TYPES {
            if names.iter().any(|name| name == today.into_str()) {
                names.push(former.into());
            }
        }
    }
}
