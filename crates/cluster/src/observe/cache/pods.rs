//! Pods in the cache: whose they are, and which of them were lost.

use std::collections::BTreeSet;

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, Order, Unit};
use trueup_model::receipt::LostPod;
use trueup_rules::render::names;
use trueup_rules::status::lost::lost;

use super::Cache;

/// How many lost pods are kept for each service.
const LOST_MOST: usize = 32;

impl Cache {
    /// Records which pods belong to an order's unit.
    pub(crate) fn expect_pods(&mut self, order: &Order) {
        if let Some(label) = pods_of(order) {
            self.pod_owners.insert(label, order.unit);
        }
    }

    /// Records a deleted pod whose processes were not seen to end.
    pub(super) fn note_lost_pod(&mut self, kind: Kind, last: &Value) {
        let Some(label) = pod_label(kind, last) else { return };
        let node = last["spec"]["nodeName"].as_str().unwrap_or_default();
        let node = self.get(&ResourceKey::new(Kind::Node, "", node));
        if let Some(pod) = lost(last, node.as_deref()) {
            let pods = self.lost.entry(label).or_default();
            if pods.len() < LOST_MOST && pods.iter().all(|known| known.uid != pod.uid) {
                pods.push(pod);
            }
        }
    }

    /// The pods of this order's unit whose processes were not seen to end.
    pub(crate) fn lost_pods(&self, order: &Order) -> Vec<LostPod> {
        pods_of(order).and_then(|label| self.lost.get(&label).cloned()).unwrap_or_default()
    }

    /// Drops what is kept about the pods of a deleted unit.
    pub(crate) fn retire(&mut self, order: &Order) {
        if let Some(label) = pods_of(order) {
            self.lost.remove(&label);
            self.pod_owners.remove(&label);
        }
    }

    /// The units that have a pod on a node.
    pub(crate) fn units_on(&self, node: &str) -> BTreeSet<Unit> {
        let there = |key: &&ResourceKey| self.objects.get(*key).is_some_and(|pod| pod.is_on(node));
        self.pods
            .iter()
            .filter(|(_, pods)| pods.iter().any(|key| there(&key)))
            .filter_map(|(label, _)| self.pod_owners.get(label).copied())
            .collect()
    }
}

/// The namespace and label of an order's pods.
pub(super) fn pods_of(order: &Order) -> Option<(String, String)> {
    match &order.body {
        Body::Project => None,
        Body::Service(body) => Some((order.namespace.clone(), body.object_name.clone())),
    }
}

/// The namespace and label of a pod; `None` for other objects.
pub(super) fn pod_label(kind: Kind, object: &Value) -> Option<(String, String)> {
    let metadata = &object["metadata"];
    let name = metadata["labels"][names::POD_LABEL].as_str().filter(|_| kind == Kind::Pod)?;
    Some((metadata["namespace"].as_str().unwrap_or_default().to_owned(), name.to_owned()))
}
