//! A foreign transaction that stays open: sealing waits and the lag metric shows it; nothing else
//! waits.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use trueup_control::{Metrics, Sealer};
use trueup_store::EventQuery;
use trueup_testkit::manual_clock::ManualClock;

use crate::rig::{LONG, Rig};

/// The longest sleep of the sealer.
const IDLE: Duration = Duration::from_secs(1);

/// The value of a metric without labels.
fn metric(registry: &Registry, name: &str) -> f64 {
    let mut text = String::new();
    encode(&mut text, registry).expect("metrics should be encoded");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).expect("the metric should be there")
}

/// Advances the clock until a metric meets a condition, only while the sealer sleeps.
///
/// Time stands still while a query is in flight, so none times out.
async fn until(registry: &Registry, clock: &ManualClock, name: &str, wanted: fn(f64) -> bool) {
    let reached = tokio::time::timeout(LONG, async {
        while !wanted(metric(registry, name)) {
            let left = clock.until_sleeping_within(IDLE).await;
            clock.advance(left);
        }
    });
    assert!(reached.await.is_ok(), "{name} is {}", metric(registry, name));
}

#[tokio::test]
async fn long_foreign_transaction_stalls_only_sealing_and_raises_the_lag() {
    let clock = ManualClock::new();
    let rig = Rig::on(Arc::new(clock.clone())).await;
    let mut registry = Registry::default();
    let sealer = Sealer {
        worker: rig.db.worker.clone(),
        signals: rig.signals.clone(),
        clock: Arc::clone(&rig.clock),
        metrics: Metrics::register(&mut registry),
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(sealer.run());
    rig.declare_project().await;
    until(&registry, &clock, "trueup_unsealed_events", |count| count == 0.0).await;

    let foreign = rig.db.long_transaction().await;
    // Changes are accepted as usual.
    for number in 1..=3 {
        rig.declare("web", &format!("web:{number}")).await;
    }
    until(&registry, &clock, "trueup_seal_lag_seconds", |lag| lag > 10.0).await;
    // The lag may have been measured before the last change.
    until(&registry, &clock, "trueup_unsealed_events", |count| (count - 3.0).abs() < 0.5).await;
    rig.declare("web", "web:4").await;
    assert_eq!(rig.get("web").await.row.service.generation, 4);
    rig.db.app.ping().await.expect("the database should answer");
    let query = EventQuery { limit: 100, ..EventQuery::default() };
    let before = rig.db.app.list_events(rig.db.org, &query).await.expect("events should be read");
    assert_eq!(before.len(), 1, "only the event from before the transaction is visible");

    foreign.end().await;
    until(&registry, &clock, "trueup_unsealed_events", |count| count == 0.0).await;
    until(&registry, &clock, "trueup_seal_lag_seconds", |lag| lag == 0.0).await;
    let after = rig.db.app.list_events(rig.db.org, &query).await.expect("events should be read");
    let sealed: Vec<(i64, i64)> =
        after[1..].iter().map(|event| (event.position, event.generation)).collect();
    assert_eq!(sealed, [(2, 1), (3, 2), (4, 3), (5, 4)]);
    assert_eq!(after[..1], before);
    assert!(rig.clock.now() > after[4].at);
}
