//! Hosts that no ingress controller answers for.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use trueup_cluster::InFlightWindow;
use trueup_model::clock::{Clock, Sleep};
use trueup_model::cluster::Routing;
use trueup_model::key::Kind;
use trueup_model::observation::Admission;
use trueup_model::report::Report;
use trueup_testkit::fake_cluster::FakeCluster;
use trueup_testkit::virtual_clock::VirtualClock;

use crate::executor::hosts::{at, quiet, with_host};
use crate::rig::{Rig, web};

/// Virtual time that agrees with the cluster in memory, whose times begin in 2030.
#[derive(Debug)]
struct In2030(VirtualClock);

impl Clock for In2030 {
    fn now(&self) -> Timestamp {
        let start: Timestamp = "2030-01-01T00:00:00Z".parse().expect("a time");
        let passed = SignedDuration::try_from(self.monotonic()).expect("the test should be short");
        start.checked_add(passed).expect("the test should be short")
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        self.0.sleep(duration)
    }
}

fn class_without_an_answer(report: &Report) -> Option<&str> {
    let objects = &report.observation.as_ref()?.objects;
    objects.iter().find_map(|one| match &one.route.as_ref()?.admission {
        Admission::Unanswered { class } => class.as_deref(),
        Admission::Pending | Admission::Admitted | Admission::Refused(_) => None,
    })
}

/// Nothing in the cluster changes when the time is over, so no watch event triggers a pass.
#[tokio::test(start_paused = true)]
async fn silent_host_is_reported_as_unanswered_without_any_event() {
    let fake = FakeCluster::new();
    let window = InFlightWindow { lasts: Duration::from_millis(20), inherited: false };
    let clock = Arc::new(In2030(VirtualClock::new()));
    let mut rig = Rig::timed(Arc::new(fake.clone()), clock, window);
    rig.running(web(1)).await;
    let routing = Routing { ingress_class: Some("nginx".to_owned()), ..Routing::default() };
    let order = with_host(&rig, 2, routing);
    let report = rig.order_until(order.clone(), quiet).await;
    assert_eq!(class_without_an_answer(&report), None);
    assert!(fake.find(&at(&order, Kind::Ingress)).is_some());

    let unanswered = async {
        loop {
            let report = rig.reports.recv().await.expect("a report");
            if let Some(class) = class_without_an_answer(&report) {
                return class.to_owned();
            }
        }
    };
    // Five minutes after the Ingress was created, and a little more for the pass.
    let class = tokio::time::timeout(Duration::from_secs(600), unanswered).await;
    assert_eq!(class.as_deref(), Ok("nginx"));
}
