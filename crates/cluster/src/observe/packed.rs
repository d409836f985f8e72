//! A cached object: its JSON text, and the few fields that are read often.
//!
//! A parsed JSON tree takes five times the memory of its text, and the cache holds tens of
//! thousands of objects of which few are read.

use serde_json::Value;
use trueup_model::key::Kind;
use trueup_rules::render::names;

#[derive(Debug)]
pub(crate) struct Packed {
    text: Box<str>,
    version: u64,
    /// Whether it is terminating.
    ends: bool,
    /// Whether watches report it: only objects with our label are watched.
    watched: bool,
    /// The node that a pod is on.
    node: Option<Box<str>>,
}

impl Packed {
    pub(crate) fn new(kind: Kind, object: &Value) -> Self {
        let node = object["spec"]["nodeName"].as_str().filter(|_| kind == Kind::Pod);
        Self {
            // An exact-size copy: shrinking the string in place would fragment the heap.
            text: Box::from(object.to_string().as_str()),
            version: version(object),
            ends: !object["metadata"]["deletionTimestamp"].is_null(),
            watched: kind == Kind::Pod
                || object["metadata"]["labels"][names::MANAGED_BY] == names::MANAGER,
            node: node.map(Box::from),
        }
    }

    /// Parses the object. The text was written by us, so parsing does not fail.
    pub(crate) fn open(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    pub(crate) const fn ends(&self) -> bool {
        self.ends
    }

    pub(crate) const fn watched(&self) -> bool {
        self.watched
    }

    pub(crate) fn is_on(&self, node: &str) -> bool {
        self.node.as_deref() == Some(node)
    }
}

/// The resourceVersion as a number. They are comparable; Kubernetes guarantees it since 1.35.
pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn object_round_trips_unchanged() {
        let object = json!({
            "metadata": {"name": "a\u{0}\"ü", "resourceVersion": "7", "labels": {names::MANAGED_BY: names::MANAGER}},
            "spec": {"nodeName": "n1", "big": u64::MAX, "small": -1, "share": 0.25, "none": null, "list": [{}, [], ""]},
        });
        let packed = Packed::new(Kind::Pod, &object);
        assert_eq!(packed.open(), object);
        assert_eq!((packed.version(), packed.ends(), packed.watched()), (7, false, true));
        assert!(packed.is_on("n1") && !packed.is_on("n2"));
    }
}
