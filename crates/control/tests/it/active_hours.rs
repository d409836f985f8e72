//! The hours follower: pods stop and start at the edges, also after a restart of the process.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use trueup_model::active_hours::ActiveHours;
use trueup_model::key::Kind;
use trueup_model::service::DesiredState;
use trueup_model::status::Phase;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::door::{RequestContext, ServiceRequest};

use crate::rig::Rig;

/// Hours that begin or end in so many minutes, and are at most as long as a day allows.
fn hours(now: Timestamp, from: i64, to: i64) -> ActiveHours {
    let time = |minutes: i64| {
        let at = now + SignedDuration::from_mins(minutes);
        TimeZone::UTC.to_datetime(at).strftime("%H:%M").to_string()
    };
    let window = json!({"from": time(from), "to": time(to)});
    serde_json::from_value(json!({"zone": "UTC", "windows": [window]}))
        .expect("active hours should be read")
}

impl Rig {
    async fn set_hours(&self, active: ActiveHours) {
        let owner = self.db.owner();
        let context = RequestContext::new(&owner, None);
        let action = ServiceOperation::Hours { active: Some(active) };
        let wanted = ServiceRequest::act("shop", "web", &action);
        let now = self.clock.now();
        let accepted = self.db.app.accept_service(self.db.org, &wanted, &context, now).await;
        assert!(accepted.expect("hours should be accepted").changed);
        self.signals.wake();
    }
}

#[tokio::test]
async fn pods_stop_and_start_at_the_edges_also_after_a_crash() {
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    let detail = rig.until_running("web").await;
    let mut keys = detail.resources.into_iter().map(|object| object.key);
    let key = keys.find(|key| key.kind == Kind::Deployment).expect("a Deployment");
    let replicas = |rig: &Rig| rig.fake.find(&key).and_then(|it| it["spec"]["replicas"].as_u64());
    // It is night for a minute or two.
    rig.set_hours(hours(rig.clock.now(), 2, 600)).await;
    let paused = rig.until("web", |it| it.row.status.phase == Phase::Paused).await;
    assert!(paused.row.service.scheduled_off);
    assert_eq!(replicas(&rig), Some(0));
    // The process that follows the next edge is another one.
    rig.crash().await;
    rig.start("two");
    let resumed = rig.until("web", |it| it.row.service.desired == DesiredState::Active).await;
    assert!(resumed.row.service.accepted_at > paused.row.service.accepted_at);
    rig.until_running("web").await;
    assert_eq!(replicas(&rig), Some(1));
}
