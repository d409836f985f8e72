//! What is measured of single services, as Prometheus reads it.

use trueup_model::key::Kind;

use crate::rig::{LONG, POLL, Rig};

impl Rig {
    /// The value of a metric with these labels; none if it is not exported.
    fn metric(&self, name: &str) -> Option<f64> {
        let text = self.metrics_text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        Some(value.parse().expect("a metric should be a number"))
    }

    async fn until_metric(&self, name: &str, wanted: impl Fn(f64) -> bool) {
        let reached = tokio::time::timeout(LONG, async {
            while !self.metric(name).is_some_and(&wanted) {
                tokio::time::sleep(POLL).await;
            }
        });
        assert!(reached.await.is_ok(), "{name}: {:?}", self.metric(name));
    }
}

#[tokio::test]
async fn changes_and_repairs_are_timed() {
    const USER: &str = "trueup_reconcile_seconds_count{cause=\"user\"}";
    const REPAIR: &str = "trueup_reconcile_seconds_count{cause=\"repair\"}";
    const HEALTHY: &str = "trueup_accept_to_healthy_seconds_count";
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    let detail = rig.until_running("web").await;
    rig.until_metric(HEALTHY, |count| count >= 1.0).await;
    rig.until_wakes(0).await;
    rig.until_metric(USER, |count| count >= 2.0).await;

    // No request asks for this repair, and no wake is queued for it.
    let (before, asked) = (rig.metric(REPAIR).unwrap_or(0.0), rig.metric(USER));
    let address = detail.resources.iter().find(|object| object.key.kind == Kind::Service);
    let address = address.expect("it should have an address").key.clone();
    rig.fake.remove(&address);
    rig.until_metric(REPAIR, |count| count > before).await;
    assert!(rig.fake.find(&address).is_some(), "it was created again");
    assert_eq!(rig.metric(USER), asked);
    assert_eq!(rig.metric(HEALTHY), Some(1.0), "a repair is no new generation");
}
