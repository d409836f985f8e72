//! API server paths of kinds and objects.
//!
//! The kinds are few and fixed, so their API groups are in the code: discovery would be one more
//! response that can be missing or stale.

use std::fmt::Write;

use trueup_model::key::{Kind, ResourceKey};

use crate::verbs::{CallError, Scope};

/// Builder of a path with its query.
#[derive(Debug, Clone)]
pub(super) struct Address {
    text: String,
    has_query: bool,
}

impl Address {
    /// All objects of a kind, in every namespace.
    pub(super) fn all(kind: Kind) -> Self {
        Self { text: format!("{}/{}", root(kind), kind.plural()), has_query: false }
    }

    /// All objects of a kind in one namespace.
    pub(super) fn in_namespace(kind: Kind, namespace: &str) -> Result<Self, CallError> {
        Self::within(&root(kind), namespace, kind.plural())
    }

    /// A path of the server itself.
    pub(super) fn root(path: &str) -> Self {
        Self { text: path.to_owned(), has_query: false }
    }

    /// All objects in a namespace, of a kind from discovery.
    pub(super) fn within(root: &str, namespace: &str, plural: &str) -> Result<Self, CallError> {
        if !fits(namespace) || !fits(plural) {
            return Err(CallError::Refused(format!("`{namespace}` is not a valid namespace name")));
        }
        Ok(Self { text: format!("{root}/namespaces/{namespace}/{plural}"), has_query: false })
    }

    /// One object. A name that is not a single path segment is rejected before it is sent.
    pub(super) fn one(key: &ResourceKey) -> Result<Self, CallError> {
        if !fits(&key.name) || (key.kind.is_namespaced() && !fits(&key.namespace)) {
            return Err(CallError::Refused(format!("`{key}` is not a valid object name")));
        }
        let (root, plural, name) = (root(key.kind), key.kind.plural(), &key.name);
        let text = if key.kind.is_namespaced() {
            format!("{root}/namespaces/{}/{plural}/{name}", key.namespace)
        } else {
            format!("{root}/{plural}/{name}")
        };
        Ok(Self { text, has_query: false })
    }

    /// A subresource of one object.
    pub(super) fn part(key: &ResourceKey, part: &str) -> Result<Self, CallError> {
        let Self { text, has_query } = Self::one(key)?;
        Ok(Self { text: format!("{text}/{part}"), has_query })
    }

    /// Only the objects in this scope.
    pub(super) fn select(self, kind: Kind, scope: Scope) -> Self {
        match (scope, kind) {
            // These never carry our labels, so all of them are listed.
            (Scope::All, _) | (Scope::Ours, Kind::PersistentVolume | Kind::Node) => self,
            (Scope::Ours, Kind::Pod) => self.with("labelSelector", "trueup.dev/name"),
            (Scope::Ours, _) => self.with("labelSelector", "app.kubernetes.io/managed-by=trueup"),
        }
    }

    /// Adds a query parameter.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text.push_str(name);
        self.text.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.text.push(char::from(byte));
            } else {
                // Writing into a String cannot fail.
                write!(self.text, "%{byte:02X}").ok();
            }
        }
        self
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }
}

fn root(kind: Kind) -> String {
    match kind.api_version() {
        "v1" => "/api/v1".to_owned(),
        group => format!("/apis/{group}"),
    }
}

/// Whether a text is a valid Kubernetes name and a single path segment.
fn fits(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_path_has_group_and_namespace() {
        let key = ResourceKey::new(Kind::Deployment, "team", "web");
        let address = Address::one(&key).unwrap();
        assert_eq!(address.as_str(), "/apis/apps/v1/namespaces/team/deployments/web");
        let key = ResourceKey::new(Kind::Namespace, "", "team");
        assert_eq!(Address::one(&key).unwrap().as_str(), "/api/v1/namespaces/team");
    }

    #[test]
    fn name_with_path_characters_is_rejected() {
        for name in ["", "a/b", "../x", "a?x=y", "a%2fb", "a#b", "."] {
            let key = ResourceKey::new(Kind::ConfigMap, "team", name);
            assert!(matches!(Address::one(&key), Err(CallError::Refused(_))), "{name}");
        }
    }

    #[test]
    fn a_scope_becomes_a_selector() {
        let ours = Address::all(Kind::Secret).select(Kind::Secret, Scope::Ours).with("limit", "5");
        let query = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dtrueup&limit=5";
        assert_eq!(ours.as_str(), format!("/api/v1/secrets?{query}"));
        let pods = Address::all(Kind::Pod).select(Kind::Pod, Scope::Ours);
        assert_eq!(pods.as_str(), "/api/v1/pods?labelSelector=trueup.dev%2Fname");
        let all = Address::all(Kind::PersistentVolume).select(Kind::PersistentVolume, Scope::All);
        assert_eq!(all.as_str(), "/api/v1/persistentvolumes");
    }
}
