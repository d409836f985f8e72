//! The key of an object in a cluster: kind, namespace and name.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use crate::kind::{Kind, UnknownKind};

/// The address of one object inside one cluster. Order: by kind, then namespace, then name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
pub struct ResourceKey {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ResourceKey {
    /// The key of an object; the namespace is dropped for cluster-scoped kinds.
    #[must_use]
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        let namespace = if kind.is_namespaced() { namespace.to_owned() } else { String::new() };
        Self { kind, namespace, name: name.to_owned() }
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}/{}", self.kind, self.name)
        } else {
            write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_parses_back_from_its_text() {
        for kind in Kind::ALL {
            assert_eq!(kind.as_str().parse::<Kind>().unwrap(), kind);
        }
    }

    #[test]
    fn group_matches_api_version() {
        for kind in Kind::ALL {
            let group = kind.api_version().split_once('/').map_or("", |(group, _)| group);
            assert_eq!(group, kind.group(), "{kind}");
        }
    }
}
