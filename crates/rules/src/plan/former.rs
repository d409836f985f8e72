//! The desired objects of the order that a newer one replaces.
//!
//! A value of another manager is kept when a newer generation is written. But a manager is also
//! recorded for a value that it shares with us, for example after its value was adopted. Such a
//! value is ours, and a request to change it must not be taken for drift.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::Value;
use trueup_model::key::ResourceKey;
use trueup_model::order::{Body, Order};

use super::stamp::is_stamped;
use crate::render::proof::ProofKey;
use crate::render::{self, Rendered};

/// The objects of a former order; none if it is not known.
#[derive(Default)]
pub(super) struct Former(BTreeMap<ResourceKey, Rendered>);

impl Former {
    /// The objects of a service by this order, with this anchor as their owner.
    pub(super) fn of_service(order: &Order, owner: &OwnerReference, proofs: &ProofKey) -> Self {
        let Body::Service(body) = &order.body else {
            return Self::default();
        };
        let mut objects = render::service_prerequisites(order, body, owner, proofs);
        objects.push(render::service_workload(order, body, owner, proofs));
        objects.extend(render::service_companions(order, body, owner, proofs));
        Self(objects.into_iter().map(|object| (object.key.clone(), object)).collect())
    }

    /// The desired object of the former order, if it is what we wrote last.
    pub(super) fn written(
        &self,
        order: &Order,
        proofs: &ProofKey,
        key: &ResourceKey,
        live: &Value,
    ) -> Option<&Value> {
        let former = self.0.get(key)?;
        is_stamped(order, proofs, former, live).then_some(&former.object)
    }
}
