//! Every name and label Trueup writes into a cluster, in one place.

use serde_json::Value;
use trueup_model::id::{DomainId, EndpointId, ProjectId, ServiceId};
use trueup_model::name::Name;

/// The field manager that Trueup applies with.
pub const FIELD_MANAGER: &str = "trueup";
/// Marks an object as managed by Trueup, together with its proof.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`].
pub const MANAGER: &str = "trueup";
/// The tenant.
pub const ORG_LABEL: &str = "trueup.dev/org-id";
/// The project.
pub const PROJECT_LABEL: &str = "trueup.dev/project-id";
/// The service; missing on a project's own objects.
pub const SERVICE_LABEL: &str = "trueup.dev/service-id";
/// The template version a service was resolved from.
pub const TEMPLATE_LABEL: &str = "trueup.dev/template-version";
/// The generation that last changed this object.
pub const GENERATION_LABEL: &str = "trueup.dev/generation";
/// The only label on pods and in selectors: it never changes, so it never rolls pods.
pub const POD_LABEL: &str = "trueup.dev/name";
/// The value of [`NODE_CLASS`] on simulated nodes, where nothing really runs.
pub const SIMULATED: &str = "simulated";
/// The resource name of a GPU with NVIDIA's device plugin.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";
/// The ownership proof.
pub const PROOF_ANNOTATION: &str = "trueup.dev/proof";
/// The stamp: digest and generation of what we applied, so that a dropped field is noticed.
///
/// It is signed, so that an edit by another writer cannot pass for ours.
pub const DIGEST_ANNOTATION: &str = "trueup.dev/digest";
/// On pod templates: a digest of variables and secrets, so that pods roll when those change.
pub const CONFIG_ANNOTATION: &str = "trueup.dev/config";
/// On pod templates: raised to replace every pod without changing anything else.
pub const RESTART_ANNOTATION: &str = "trueup.dev/restart";
/// On nodes, as a label and optionally as a taint: the node class, which a plan selects.
pub const NODE_CLASS: &str = "trueup.dev/node-class";
/// Keeps an anchor until its children have another owner or are deleted.
pub const ANCHOR_FINALIZER: &str = "trueup.dev/anchor";
/// The account every pod of a project runs as.
pub const SERVICE_ACCOUNT: &str = "trueup-workload";

/// The namespace of Trueup's own accounts in a cluster.
pub const SYSTEM_NAMESPACE: &str = "trueup-system";
/// The account that lists and watches.
pub const WATCHER: &str = "trueup-watcher";
/// The account that reads single objects and writes.
pub const WRITER: &str = "trueup-writer";
/// The role for secrets, bound to the writer in each project's namespace.
pub const SECRETS_ROLE: &str = "trueup-secrets";

const TAIL: usize = 8;

/// Whether this is a simulated node, by its label.
#[must_use]
pub fn is_simulated(node: &Value) -> bool {
    node["metadata"]["labels"][NODE_CLASS] == SIMULATED
}

/// The name of a service's objects: readable, and unique per service.
#[must_use]
pub fn object_name(name: &Name, id: ServiceId) -> String {
    format!("{name}-{}", id.tail(TAIL))
}

/// The namespace of a project.
#[must_use]
pub fn namespace(name: &Name, id: ProjectId) -> String {
    format!("{name}-{}", id.tail(TAIL))
}

/// The name of a service's n-th anchor.
#[must_use]
pub fn anchor(object_name: &str, ordinal: u32) -> String {
    format!("{object_name}-anchor-{ordinal}")
}

/// The ordinal of an anchor, if this is the name of one.
#[must_use]
pub fn anchor_ordinal(object_name: &str, name: &str) -> Option<u32> {
    name.strip_prefix(object_name)?.strip_prefix("-anchor-")?.parse().ok()
}

/// The name of the anchor after this one, if this is the name of one.
#[must_use]
pub fn next_anchor(name: &str) -> Option<String> {
    let (object_name, ordinal) = name.rsplit_once("-anchor-")?;
    Some(anchor(object_name, ordinal.parse::<u32>().ok()?.checked_add(1)?))
}

/// The ConfigMap with a service's plain variables.
#[must_use]
pub fn config(object_name: &str) -> String {
    format!("{object_name}-config")
}

/// The Secret with a service's secret variables.
#[must_use]
pub fn secret(object_name: &str) -> String {
    format!("{object_name}-secret")
}

/// The objects of an endpoint.
#[must_use]
pub fn endpoint(object_name: &str, id: EndpointId) -> String {
    format!("{object_name}-{ENDPOINT}{}", id.tail(TAIL))
}

const ENDPOINT: &str = "ep";

/// The objects of a domain.
#[must_use]
pub fn domain(object_name: &str, id: DomainId) -> String {
    format!("{object_name}{DOMAIN}{}", id.tail(TAIL))
}

/// The Secret that a domain's certificate is kept in.
#[must_use]
pub fn domain_secret(object_name: &str, id: DomainId) -> String {
    format!("{}{DOMAIN_SECRET}", domain(object_name, id))
}

/// Whether a Secret has the name of a domain's certificate.
#[must_use]
pub fn is_domain_secret(object_name: &str, name: &str) -> bool {
    let of_a_domain = name.strip_prefix(object_name).and_then(|rest| rest.strip_prefix(DOMAIN));
    of_a_domain.is_some_and(|rest| rest.ends_with(DOMAIN_SECRET))
}

const DOMAIN: &str = "-dm";
const DOMAIN_SECRET: &str = "-tls";

/// The NetworkPolicy that allows traffic from the ingress or gateway.
#[must_use]
pub fn web_opening(object_name: &str) -> String {
    format!("{object_name}-web")
}

/// The ServiceMonitor of a service, and the NetworkPolicy that allows scraping.
#[must_use]
pub fn monitor(object_name: &str) -> String {
    format!("{object_name}-metrics")
}

/// The claim of a StatefulSet's n-th pod: the name its controller expects.
#[must_use]
pub fn claim(object_name: &str, ordinal: u32) -> String {
    format!("{VOLUME}-{object_name}-{ordinal}")
}

/// The Job of one spec of a service, by the digest of that spec.
#[must_use]
pub fn job(object_name: &str, digest: &str) -> String {
    format!("{object_name}-{digest}")
}

/// The name of the volume in a pod.
pub const VOLUME: &str = "data";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = Name> {
        "[a-z][a-z0-9-]{0,38}[a-z0-9]".prop_filter_map("a valid name", |text| text.parse().ok())
    }

    proptest! {
        #![proptest_config(crate::seed::cases(256))]

        #[test]
        fn two_services_never_share_a_name(a in name(), b in name(), x: u128, y: u128) {
            let (x, y) = (ServiceId::from_uuid(uuid(x)), ServiceId::from_uuid(uuid(y)));
            prop_assume!(x.tail(TAIL) != y.tail(TAIL));
            prop_assert_ne!(object_name(&a, x), object_name(&b, y));
        }

        /// S21: one org cannot choose a name whose objects have the names of another's, whatever it
        /// contains: also not one that begins like a name derived for the other.
        #[test]
        fn s21_no_name_derived_for_a_service_is_one_of_another(a in name(), x: u128, y: u128, z: u128) {
            let (x, y) = (ServiceId::from_uuid(uuid(x)), ServiceId::from_uuid(uuid(y)));
            prop_assume!(x.tail(TAIL) != y.tail(TAIL));
            let theirs = derived(&object_name(&a, x), z);
            for other in &theirs {
                // The longest part of their name that is a name itself.
                let close = other.get(..other.len().min(40)).unwrap_or_default().trim_end_matches('-');
                let Ok(close) = close.parse::<Name>() else { continue };
                for ours in derived(&object_name(&close, y), z) {
                    prop_assert!(!theirs.contains(&ours), "{ours} is derived for both");
                }
            }
        }

        #[test]
        fn every_derived_name_fits_into_a_kubernetes_label(a in name(), x: u128) {
            let base = object_name(&a, ServiceId::from_uuid(uuid(x)));
            let job = job(&base, "0123456789");
            for derived in [anchor(&base, 99), config(&base), secret(&base), claim(&base, 99), job] {
                prop_assert!(derived.len() <= 63, "{derived} has {}", derived.len());
            }
            // Kubernetes adds the time of a run to a CronJob's name, which is the service's own.
            prop_assert!(base.len() <= 52, "{base} has {}", base.len());
        }
    }

    /// Every name that is derived for the objects of a service.
    fn derived(base: &str, id: u128) -> Vec<String> {
        let (endpoint_id, domain_id) =
            (EndpointId::from_uuid(uuid(id)), DomainId::from_uuid(uuid(id)));
        vec![
            base.to_owned(),
            anchor(base, 1),
            config(base),
            secret(base),
            endpoint(base, endpoint_id),
            domain(base, domain_id),
            domain_secret(base, domain_id),
            web_opening(base),
            monitor(base),
            claim(base, 0),
            job(base, "0123456789"),
        ]
    }

    fn uuid(value: u128) -> uuid::Uuid {
        uuid::Uuid::from_u128(value)
    }

    #[test]
    fn an_anchor_name_contains_its_ordinal() {
        assert_eq!(anchor_ordinal("web-1", "web-1-anchor-7"), Some(7));
        assert_eq!(anchor_ordinal("web-1", "web-1-config"), None);
        assert_eq!(anchor_ordinal("web-1", "web-12-anchor-7"), None);
        assert_eq!(next_anchor("web-1-anchor-7").as_deref(), Some("web-1-anchor-8"));
        assert_eq!(next_anchor("my-anchor-1-config"), None);
    }
}
