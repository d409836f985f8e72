//! Immutable fields of existing objects.
//!
//! A difference there cannot be applied: every retry would be rejected. Objects without pods or
//! data of their own are replaced; for the others a user has to decide.

use serde_json::Value;
use trueup_model::key::Kind;

use crate::compare::diff::{Difference, difference};

/// The first difference in an immutable field.
pub(crate) fn difference_in_fixed(kind: Kind, wanted: &Value, live: &Value) -> Option<Difference> {
    let found = fields(kind).iter().find_map(|(field, pointer)| {
        let ours = wanted.pointer(pointer)?;
        let below = difference(ours, live.pointer(pointer).unwrap_or(&Value::Null))?;
        let rest = if below.field.is_empty() { String::new() } else { format!(".{}", below.field) };
        Some(Difference { field: format!("{field}{rest}"), by: None })
    });
    found.or_else(|| shrunk(kind, wanted, live))
}

/// Whether a ConfigMap or Secret was made immutable. It can only be replaced.
pub(crate) fn is_immutable(kind: Kind, live: &Value) -> bool {
    matches!(kind, Kind::ConfigMap | Kind::Secret) && live["immutable"] == true
}

const fn fields(kind: Kind) -> &'static [(&'static str, &'static str)] {
    match kind {
        Kind::Deployment => &[("spec.selector", "/spec/selector")],
        Kind::StatefulSet => &[
            ("spec.selector", "/spec/selector"),
            ("spec.serviceName", "/spec/serviceName"),
            ("spec.podManagementPolicy", "/spec/podManagementPolicy"),
            ("spec.volumeClaimTemplates", "/spec/volumeClaimTemplates"),
        ],
        Kind::Job => &[("spec.template", "/spec/template")],
        Kind::PersistentVolumeClaim => {
            &[("spec.accessModes", "/spec/accessModes"), ("spec.volumeMode", "/spec/volumeMode")]
        }
        Kind::Secret => &[("type", "/type")],
        Kind::RoleBinding => &[("roleRef", "/roleRef")],
        Kind::Namespace
        | Kind::ResourceQuota
        | Kind::LimitRange
        | Kind::NetworkPolicy
        | Kind::ServiceAccount
        | Kind::ConfigMap
        | Kind::CronJob
        | Kind::Service
        | Kind::Pod
        | Kind::PodDisruptionBudget
        | Kind::HorizontalPodAutoscaler
        | Kind::Ingress
        | Kind::HttpRoute
        | Kind::Certificate
        | Kind::ServiceMonitor
        | Kind::PersistentVolume
        | Kind::Node => &[],
    }
}

/// The requested size of a claim, and of a claim template.
pub(crate) const CLAIM_SIZE: &str = "/spec/resources/requests/storage";

/// Whether a claim is wanted with a larger disk than it has.
pub(crate) fn grows(wanted: &Value, live: &Value) -> bool {
    matches!((size(wanted), size(live)), (Some(wanted), Some(live)) if wanted > live)
}

/// A disk can only grow.
fn shrunk(kind: Kind, wanted: &Value, live: &Value) -> Option<Difference> {
    (kind == Kind::PersistentVolumeClaim && grows(live, wanted))
        .then(|| Difference { field: "spec.resources.requests.storage".to_owned(), by: None })
}

/// The requested size of a claim in bytes.
fn size(claim: &Value) -> Option<u128> {
    bytes(claim.pointer(CLAIM_SIZE)?.as_str()?)
}

/// A quantity of storage in bytes.
fn bytes(quantity: &str) -> Option<u128> {
    const UNITS: [(&str, u32, u32); 10] = [
        ("Ki", 1024, 1),
        ("Mi", 1024, 2),
        ("Gi", 1024, 3),
        ("Ti", 1024, 4),
        ("Pi", 1024, 5),
        ("k", 1000, 1),
        ("M", 1000, 2),
        ("G", 1000, 3),
        ("T", 1000, 4),
        ("P", 1000, 5),
    ];
    let unit = UNITS.iter().find_map(|(suffix, base, power)| {
        Some((quantity.strip_suffix(suffix)?, u128::from(*base).checked_pow(*power)?))
    });
    let (number, factor) = unit.unwrap_or((quantity, 1));
    number.parse::<u128>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claim(size: &str) -> Value {
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}})
    }

    #[test]
    fn a_disk_that_was_enlarged_cannot_shrink() {
        let differs = |wanted: &str, live: &str| {
            difference_in_fixed(Kind::PersistentVolumeClaim, &claim(wanted), &claim(live))
                .map(|it| it.field)
        };
        assert_eq!(differs("10Gi", "20Gi").as_deref(), Some("spec.resources.requests.storage"));
        assert_eq!(differs("1Ti", "1025Gi").as_deref(), Some("spec.resources.requests.storage"));
        assert_eq!(differs("20Gi", "10Gi"), None, "growing is a change like any other");
        assert_eq!(differs("10Gi", "10Gi"), None);
    }

    #[test]
    fn a_larger_request_grows_a_claim_and_anything_else_does_not() {
        let table = [
            ("20Gi", "10Gi", true),
            ("1Ti", "1023Gi", true),
            ("10Gi", "10Gi", false),
            ("1Ti", "1024Gi", false),
            ("10Gi", "20Gi", false),
            ("10Gi", "nonsense", false),
            ("nonsense", "10Gi", false),
        ];
        for (wanted, live, expected) in table {
            assert_eq!(grows(&claim(wanted), &claim(live)), expected, "{live} to {wanted}");
        }
        assert!(!grows(&claim("10Gi"), &json!({})));
    }

    #[test]
    fn a_difference_in_an_immutable_field_is_named() {
        let with = |name: &str| json!({"spec": {"selector": {"matchLabels": {"a": name}}}});
        let found = difference_in_fixed(Kind::Deployment, &with("x"), &with("y")).unwrap();
        assert_eq!(found.field, "spec.selector.matchLabels.a");
        assert_eq!(difference_in_fixed(Kind::Service, &with("x"), &with("y")), None);
    }
}
