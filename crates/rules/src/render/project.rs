//! A project's namespace with its quota, limits, network policies and accounts.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    LimitRange, LimitRangeItem, LimitRangeSpec, Namespace, ResourceQuota, ResourceQuotaSpec,
    ServiceAccount,
};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;

use super::{Rendered, finish, metadata, quantity};
use crate::render::names;
use crate::render::proof::ProofKey;

/// How many endpoints a project may have.
pub const MOST_ENDPOINTS: u32 = 100;

/// The node's disk of a pod whose plan does not say, in mebibytes: logs, scratch space and what it
/// writes to the image's files.
const EPHEMERAL_MIB: u32 = 2048;

/// How many pods a project may have.
const MOST_PODS: u32 = 2000;

const GUARDS: &str = "trueup";
const DENY: &str = "trueup-default-deny";
const OPENINGS: &str = "trueup-openings";

pub(super) fn keys(order: &Order) -> BTreeSet<ResourceKey> {
    let at = |kind, name| ResourceKey::new(kind, &order.namespace, name);
    BTreeSet::from([
        at(Kind::Namespace, &order.namespace),
        at(Kind::ResourceQuota, GUARDS),
        at(Kind::LimitRange, GUARDS),
        at(Kind::NetworkPolicy, DENY),
        at(Kind::NetworkPolicy, OPENINGS),
        at(Kind::ServiceAccount, names::SERVICE_ACCOUNT),
        at(Kind::RoleBinding, names::SECRETS_ROLE),
    ])
}

pub(super) fn objects(order: &Order, proofs: &ProofKey) -> Vec<Rendered> {
    vec![
        namespace(order, proofs),
        quota(order, proofs),
        limits(order, proofs),
        policy(order, proofs, DENY, deny()),
        policy(order, proofs, OPENINGS, openings(order)),
        account(order, proofs),
        secrets(order, proofs),
    ]
}

fn at(order: &Order, proofs: &ProofKey, kind: Kind, name: &str) -> (ResourceKey, ObjectMeta) {
    let key = ResourceKey::new(kind, &order.namespace, name);
    let metadata = metadata(order, &key, proofs.object(order.unit, &key));
    (key, metadata)
}

fn namespace(order: &Order, proofs: &ProofKey) -> Rendered {
    let (key, mut metadata) = at(order, proofs, Kind::Namespace, &order.namespace);
    let labels = metadata.labels.get_or_insert_default();
    for mode in ["enforce", "warn", "audit"] {
        labels.insert(format!("pod-security.kubernetes.io/{mode}"), "restricted".to_owned());
    }
    finish(key, &Namespace { metadata, ..Namespace::default() })
}

fn quota(order: &Order, proofs: &ProofKey) -> Rendered {
    let (key, metadata) = at(order, proofs, Kind::ResourceQuota, GUARDS);
    let hard = BTreeMap::from([
        ("pods".to_owned(), quantity::count(MOST_PODS)),
        (
            "limits.ephemeral-storage".to_owned(),
            quantity::memory(MOST_PODS.saturating_mul(EPHEMERAL_MIB)),
        ),
        ("persistentvolumeclaims".to_owned(), quantity::count(500)),
        ("services.loadbalancers".to_owned(), quantity::count(0)),
        ("services.nodeports".to_owned(), quantity::count(MOST_ENDPOINTS)),
    ]);
    let spec = Some(ResourceQuotaSpec { hard: Some(hard), ..ResourceQuotaSpec::default() });
    finish(key, &ResourceQuota { metadata, spec, ..ResourceQuota::default() })
}

fn limits(order: &Order, proofs: &ProofKey) -> Rendered {
    let (key, metadata) = at(order, proofs, Kind::LimitRange, GUARDS);
    let amounts = |cpu, memory, disk| {
        Some(BTreeMap::from([
            ("cpu".to_owned(), quantity::cpu(cpu)),
            ("memory".to_owned(), quantity::memory(memory)),
            ("ephemeral-storage".to_owned(), quantity::memory(disk)),
        ]))
    };
    let item = LimitRangeItem {
        type_: "Container".to_owned(),
        default: amounts(500, 256, EPHEMERAL_MIB),
        // Not a part of the node: without a request, the limit would be one.
        default_request: amounts(100, 128, 0),
        ..LimitRangeItem::default()
    };
    finish(key, &LimitRange { metadata, spec: Some(LimitRangeSpec { limits: vec![item] }) })
}

fn policy(order: &Order, proofs: &ProofKey, name: &str, spec: NetworkPolicySpec) -> Rendered {
    let (key, metadata) = at(order, proofs, Kind::NetworkPolicy, name);
    finish(key, &NetworkPolicy { metadata, spec: Some(spec) })
}

/// Denies all ingress and egress.
fn deny() -> NetworkPolicySpec {
    NetworkPolicySpec {
        policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
        ..NetworkPolicySpec::default()
    }
}

/// Allows traffic between the project's own pods, and DNS.
fn openings(order: &Order) -> NetworkPolicySpec {
    let within = NetworkPolicyPeer {
        namespace_selector: Some(by_label("kubernetes.io/metadata.name", &order.namespace)),
        ..NetworkPolicyPeer::default()
    };
    let dns = NetworkPolicyPeer {
        namespace_selector: Some(by_label("kubernetes.io/metadata.name", "kube-system")),
        ..NetworkPolicyPeer::default()
    };
    let dns_ports = ["UDP", "TCP"]
        .map(|protocol| NetworkPolicyPort {
            protocol: Some(protocol.to_owned()),
            port: Some(IntOrString::Int(53)),
            ..NetworkPolicyPort::default()
        })
        .to_vec();
    NetworkPolicySpec {
        policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
        ingress: Some(vec![NetworkPolicyIngressRule {
            from: Some(vec![within.clone()]),
            ..NetworkPolicyIngressRule::default()
        }]),
        egress: Some(vec![
            NetworkPolicyEgressRule {
                to: Some(vec![within]),
                ..NetworkPolicyEgressRule::default()
            },
            NetworkPolicyEgressRule { to: Some(vec![dns]), ports: Some(dns_ports) },
        ]),
        ..NetworkPolicySpec::default()
    }
}

fn by_label(key: &str, value: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some(BTreeMap::from([(key.to_owned(), value.to_owned())])),
        ..LabelSelector::default()
    }
}

/// Lets the writer account access the secrets of this namespace.
fn secrets(order: &Order, proofs: &ProofKey) -> Rendered {
    let (key, metadata) = at(order, proofs, Kind::RoleBinding, names::SECRETS_ROLE);
    let binding = RoleBinding {
        metadata,
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name: names::SECRETS_ROLE.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: names::WRITER.to_owned(),
            namespace: Some(names::SYSTEM_NAMESPACE.to_owned()),
            ..Subject::default()
        }]),
    };
    finish(key, &binding)
}

fn account(order: &Order, proofs: &ProofKey) -> Rendered {
    let (key, metadata) = at(order, proofs, Kind::ServiceAccount, names::SERVICE_ACCOUNT);
    let account = ServiceAccount {
        metadata,
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    };
    finish(key, &account)
}
