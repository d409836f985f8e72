//! Expired idempotency keys are deleted by the loop, not only by the next request.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use trueup_control::Purge;
use trueup_model::Clock;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::IdempotencyKey;
use trueup_store::door::{RequestContext, ServiceRequest};
use trueup_testkit::manual_clock::ManualClock;

use crate::rig::Rig;

const HOUR: Duration = Duration::from_secs(3600);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

#[tokio::test]
async fn idempotency_keys_are_purged_after_a_week() {
    let clock = ManualClock::new();
    let rig = Rig::on(Arc::new(clock.clone())).await;
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    let owner = rig.db.owner();
    let idempotency_key =
        Some(IdempotencyKey::new("POST /restart".to_owned(), "key".to_owned(), b"{}"));
    let context = RequestContext { idempotency_key, ..RequestContext::new(&owner, None) };

    let wanted = ServiceRequest::act("shop", "web", &ServiceOperation::Restart);
    let restarted = rig.db.app.accept_service(rig.db.org, &wanted, &context, clock.now()).await;
    assert!(restarted.expect("a restart should be accepted").changed);

    clock.advance(WEEK);
    let mut tasks = JoinSet::new();
    tasks.spawn(Purge { worker: rig.db.worker.clone(), clock: Arc::clone(&rig.clock) }.run());
    // The loop sleeps once it has purged.
    clock.until_sleeping_until(WEEK + HOUR).await;
    let left = rig.db.worker.purge_idempotency_keys(clock.now()).await;
    assert_eq!(left.expect("the database should answer"), 0, "nothing was left to purge");
}
