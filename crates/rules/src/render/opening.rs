//! NetworkPolicy that allows ingress to one port of a service's pods.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{
    NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use trueup_model::order::ServiceBody;
use trueup_model::spec::Port;

use super::workload::pod_labels;

/// The policy, for traffic from one namespace or from everywhere.
pub(super) fn spec(body: &ServiceBody, port: &Port, from: Option<&str>) -> NetworkPolicySpec {
    let from = from.map(|namespace| {
        let label = "kubernetes.io/metadata.name".to_owned();
        vec![NetworkPolicyPeer {
            namespace_selector: Some(LabelSelector {
                match_labels: Some(BTreeMap::from([(label, namespace.to_owned())])),
                ..LabelSelector::default()
            }),
            ..NetworkPolicyPeer::default()
        }]
    });
    NetworkPolicySpec {
        pod_selector: Some(LabelSelector {
            match_labels: Some(pod_labels(body)),
            ..LabelSelector::default()
        }),
        policy_types: Some(vec!["Ingress".to_owned()]),
        ingress: Some(vec![NetworkPolicyIngressRule {
            from,
            ports: Some(vec![NetworkPolicyPort {
                protocol: Some(port.protocol.into_str().to_owned()),
                port: Some(IntOrString::Int(i32::from(port.port))),
                ..NetworkPolicyPort::default()
            }]),
        }]),
        ..NetworkPolicySpec::default()
    }
}
