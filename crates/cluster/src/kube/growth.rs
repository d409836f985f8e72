//! Names the storage class that does not let a claim grow: the API server's message does not.

use trueup_model::key::{Kind, ResourceKey};

use super::Kube;
use crate::verbs::CallError;

/// The end of the message with which the API server refuses to enlarge a claim, because its storage
/// class has no `allowVolumeExpansion: true`.
const REFUSED: &str = "the storageclass that provisions the pvc must support resize";

/// Whether a write was refused because a claim may not grow.
pub(super) fn is_refused(kind: Kind, message: &str) -> bool {
    kind == Kind::PersistentVolumeClaim && message.contains(REFUSED)
}

impl Kube {
    /// The error for a claim that may not grow. Reads the claim for the name of its class.
    pub(super) async fn growth_refused(&self, key: &ResourceKey) -> CallError {
        let claim = self.get_one(key).await.ok().flatten();
        let class = claim.as_ref().and_then(|claim| claim["spec"]["storageClassName"].as_str());
        CallError::Refused(sentence(class))
    }
}

fn sentence(class: Option<&str>) -> String {
    let class = match class.filter(|class| !class.is_empty()) {
        Some(class) => format!("storage class `{class}`"),
        None => "the volume's storage class".to_owned(),
    };
    format!(
        "{class} does not allow growth; ask the operator to set `allowVolumeExpansion: true` on \
         it; Trueup retries automatically"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_claim_that_may_not_grow_is_explained() {
        let message = "persistentvolumeclaims \"data-web-0\" is forbidden: only dynamically \
                       provisioned pvc can be resized and the storageclass that provisions the pvc \
                       must support resize";
        assert!(is_refused(Kind::PersistentVolumeClaim, message));
        assert!(!is_refused(Kind::ConfigMap, message));
        assert!(!is_refused(Kind::PersistentVolumeClaim, "exceeded quota: trueup"));
    }

    #[test]
    fn refusal_names_the_storage_class_and_what_to_do() {
        let message = sentence(Some("standard"));
        assert!(message.starts_with("storage class `standard` does not allow growth"), "{message}");
        assert!(message.contains("allowVolumeExpansion"), "{message}");
        assert!(sentence(Some("")).starts_with("the volume's storage class does not"));
    }
}
