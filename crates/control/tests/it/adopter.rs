//! A policy that needs no approval: the value is adopted, or reverted if the door refuses it.

use serde_json::{Map, json};
use trueup_model::drift::{AdoptMode, DivergenceState, DriftPolicy, DriftRule, Verdict};
use trueup_model::key::{Kind, ResourceKey};
use trueup_rules::admit::AdmissionRequest;
use trueup_store::door::{RequestContext, ServiceRequest};
use trueup_store::{DivergenceFilter, DivergenceRow};
use trueup_testkit::test_db::name;

use crate::rig::{LONG, POLL, Rig};

impl Rig {
    /// Starts a web service whose number of pods may be changed in the cluster; returns the key of
    /// its Deployment.
    async fn with_automatic_web(&mut self) -> ResourceKey {
        self.start("one");
        self.declare_project().await;
        let replicas = DriftRule {
            kind: Some(Kind::Deployment),
            path: Some("spec.replicas".to_owned()),
            verdict: Verdict::Adopt,
        };
        let drift =
            DriftPolicy { verdict: None, adopt: Some(AdoptMode::Automatic), rules: vec![replicas] };
        let request = AdmissionRequest {
            template: "web@1".parse().expect("a template should be named"),
            plan: None,
            parameters: Map::from_iter([("image".to_owned(), json!("web:1"))]),
            drift,
            active: None,
        };
        let (owner, web) = (self.db.owner(), name("web"));
        let context = RequestContext::new(&owner, None);
        let wanted = ServiceRequest::declare("shop", &web, &request);
        let now = self.clock.now();
        let accepted = self.db.app.accept_service(self.db.org, &wanted, &context, now).await;
        assert!(accepted.expect("a service should be accepted").changed);
        self.signals.wake();
        let detail = self.until_running("web").await;
        let mut keys = detail.resources.into_iter().map(|object| object.key);
        keys.find(|key| key.kind == Kind::Deployment).expect("a Deployment should be recorded")
    }

    /// Waits until a divergence is in this state and its value is gone; returns it.
    async fn until_divergence(&self, state: DivergenceState) -> DivergenceRow {
        let filter = DivergenceFilter { state: Some(state), ..DivergenceFilter::default() };
        let found = tokio::time::timeout(LONG, async {
            loop {
                let found = self.db.app.list_divergences(self.db.org, &filter, None, 9).await;
                let found = found.expect("divergences should be listed");
                if let Some(row) = found.into_iter().find(|row| row.gone_at.is_some()) {
                    return row;
                }
                tokio::time::sleep(POLL).await;
            }
        });
        found.await.expect("a divergence should reach this state")
    }

    fn scale_from_outside(&self, key: &ResourceKey, replicas: u32) {
        self.fake.edit(key, |object| object["spec"]["replicas"] = json!(replicas));
    }

    fn live_replicas(&self, key: &ResourceKey) -> Option<u64> {
        self.fake.find(key)?["spec"]["replicas"].as_u64()
    }
}

#[tokio::test]
async fn value_within_its_bounds_becomes_the_desired_one() {
    let mut rig = Rig::new().await;
    let key = rig.with_automatic_web().await;
    rig.scale_from_outside(&key, 3);
    let adopted = rig.until_divergence(DivergenceState::Adopted).await.record;
    assert_eq!(adopted.decided_by.as_deref(), Some("drift policy"));
    let detail = rig.until_running("web").await;
    let service = &detail.row.service;
    assert_eq!((service.generation, service.spec.replicas), (2, 3));
    assert_eq!(rig.live_replicas(&key), Some(3), "it was never reverted");
}

#[tokio::test]
async fn value_out_of_bounds_is_rejected_with_the_bound_and_reverted() {
    let mut rig = Rig::new().await;
    let key = rig.with_automatic_web().await;
    rig.scale_from_outside(&key, 21);
    let rejected = rig.until_divergence(DivergenceState::Rejected).await;
    assert!(rejected.why.as_deref().is_some_and(|why| why.contains("20")), "{rejected:?}");
    assert_eq!(rig.live_replicas(&key), Some(1));
    assert_eq!(rig.get("web").await.row.service.generation, 1);
}
