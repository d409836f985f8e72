//! A running service on the real API server, a writer outside of Trueup, and what reports say about
//! the two.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use trueup_cluster::Cluster;
use trueup_model::drift::{
    Divergence, DivergenceState, DriftPolicy, DriftRule, FIGHT_ROUNDS, FieldRef, Verdict,
};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::spec::Spec;
use trueup_rules::render::names;

use super::outside::{MEDDLER, Outside};
use crate::rig::{Rig, converged, healthy, key, web};

/// The number of pods.
pub(crate) const REPLICAS: &str = "spec.replicas";

/// A running service on the real API server, and a writer outside of Trueup.
pub(crate) struct Scene {
    pub(crate) rig: Rig,
    pub(crate) outside: Outside,
    pub(crate) order: Order,
}

impl Scene {
    pub(crate) async fn start(spec: Spec, policy: DriftPolicy) -> Self {
        let (cluster, outside) = Outside::real().await;
        Self::on(cluster, outside, spec, policy).await
    }

    pub(crate) async fn on(
        cluster: Arc<dyn Cluster>,
        outside: Outside,
        spec: Spec,
        policy: DriftPolicy,
    ) -> Self {
        let mut rig = Rig::start(cluster);
        rig.order_until(rig.project(), converged).await;
        let mut order = rig.service(1, spec);
        order.drift.policies = vec![policy];
        rig.order_until(order.clone(), healthy).await;
        Self { rig, outside, order }
    }

    /// A new executor, which gets the same order.
    pub(crate) async fn restart(self) -> (Self, Report) {
        let Self { rig, outside, order } = self;
        let mut rig = rig.restart();
        rig.order_until(rig.project(), converged).await;
        let report = rig.order_until(order.clone(), healthy).await;
        (Self { rig, outside, order }, report)
    }

    pub(crate) fn deployment(&self) -> ResourceKey {
        key(&self.order, Kind::Deployment, str::to_owned)
    }

    /// The number of pods of the Deployment, as a field.
    pub(crate) fn replicas(&self) -> FieldRef {
        FieldRef { key: self.deployment(), field: REPLICAS.to_owned() }
    }

    pub(crate) async fn until(&mut self, wanted: impl Fn(&Report) -> bool) -> Report {
        self.rig.until(self.order.unit, wanted).await
    }

    /// Waits until the Deployment is as wanted, by another client.
    pub(crate) async fn live_until(&self, wanted: impl Fn(&Value) -> bool) {
        self.outside.until(&self.deployment(), |live| live.is_some_and(&wanted)).await;
    }

    pub(crate) async fn live(&self) -> Value {
        self.outside.get(&self.deployment()).await.expect("the Deployment should be there")
    }

    /// Orders the next generation, with this spec and the same decisions about drift.
    pub(crate) async fn change(&mut self, spec: Spec) {
        let next = self.rig.service(self.order.generation + 1, spec);
        let drift = self.order.drift.clone();
        self.order = Order { drift, ..Rig::after(&self.order, next) };
        let _passed = self.rig.executor.order(self.order.clone()).await;
    }

    /// Sets the number of pods, as the other writer.
    pub(crate) async fn scale(&self, replicas: u32) {
        let patch = json!({ "spec": { "replicas": replicas } });
        let stored = self.outside.patch(&self.deployment(), &patch).await;
        assert_eq!(stored["spec"]["replicas"], replicas);
    }

    /// Sets the number of pods, and waits until that is reverted.
    pub(crate) async fn scale_in_vain(&mut self, replicas: u32) -> Divergence {
        let (at, before) = (self.replicas(), self.live().await["spec"]["replicas"].clone());
        self.scale(replicas).await;
        let report = self.until(|report| reverted(report, &at).is_some()).await;
        self.live_until(|live| live["spec"]["replicas"] == before).await;
        reverted(&report, &at).expect("it should be reported, as just awaited").clone()
    }

    /// Sets the number of pods again and again, until Trueup leaves it.
    pub(crate) async fn fight(&mut self, replicas: u32) -> Divergence {
        for _round in 0..FIGHT_ROUNDS {
            let one = self.scale_in_vain(replicas).await;
            assert_eq!((one.state, one.by.as_deref()), (DivergenceState::Reverted, Some(MEDDLER)));
        }
        self.scale(replicas).await;
        self.until_standing(DivergenceState::InConflict).await
    }

    /// Waits until another number of pods is reported as standing in this state.
    pub(crate) async fn until_standing(&mut self, state: DivergenceState) -> Divergence {
        let at = self.replicas();
        let is = |report: &Report| standing(report, &at).is_some_and(|one| one.state == state);
        let report = self.until(is).await;
        standing(&report, &at).expect("it should be reported, as just awaited").clone()
    }

    /// Runs three passes that have nothing to do.
    pub(crate) async fn pass_quietly(&self) {
        for _pass in 0..3 {
            let passed = self.rig.executor.order(self.order.clone()).await.await;
            assert_eq!(passed, Ok(Outcome::Converged));
        }
    }

    /// All objects of the service, without what controllers keep changing.
    pub(crate) async fn objects(&self) -> BTreeMap<ResourceKey, Value> {
        let mut all = BTreeMap::new();
        for key in self.order.recorded.keys() {
            let Some(mut object) = self.outside.get(key).await else { continue };
            let kept = ["uid", "generation", "labels", "ownerReferences", "finalizers"];
            let proof = object["metadata"]["annotations"][names::PROOF_ANNOTATION].clone();
            let metadata = object["metadata"].as_object_mut().expect("metadata");
            metadata.retain(|name, _| kept.contains(&name.as_str()));
            metadata.insert("proof".to_owned(), proof);
            object["status"] = Value::Null;
            all.insert(key.clone(), object);
        }
        all
    }
}

/// What a report says about a field that was reverted.
pub(crate) fn reverted<'a>(report: &'a Report, at: &FieldRef) -> Option<&'a Divergence> {
    let fields = report.changes.iter().filter_map(|change| match change {
        ObjectChange::ModifiedExternally { key, fields } if *key == at.key => Some(fields),
        _ => None,
    });
    fields.flatten().find(|one| one.field == at.field)
}

/// What a report says about a field that stands.
pub(crate) fn standing<'a>(report: &'a Report, at: &FieldRef) -> Option<&'a Divergence> {
    let mut seen = report.observation.iter().flat_map(|seen| &seen.divergences);
    seen.find(|one| one.key == at.key && one.field == at.field)
}

/// Applied, with every pod, and nothing stands.
pub(crate) fn settled(report: &Report) -> bool {
    let stands = report.observation.iter().any(|seen| !seen.divergences.is_empty());
    report.outcome == Outcome::Converged && healthy(report) && !stands
}

/// The number of pods is left to others, and nothing else.
pub(crate) fn ignore_replicas() -> DriftPolicy {
    let (kind, path) = (Some(Kind::Deployment), Some(REPLICAS.to_owned()));
    let rules = vec![DriftRule { kind, path, verdict: Verdict::Ignore }];
    DriftPolicy { rules, ..DriftPolicy::default() }
}

pub(crate) fn image(live: &Value) -> &Value {
    &live["spec"]["template"]["spec"]["containers"][0]["image"]
}

pub(crate) fn with_image(replicas: u32, image: &str) -> Spec {
    Spec { image: image.to_owned(), ..web(replicas) }
}
