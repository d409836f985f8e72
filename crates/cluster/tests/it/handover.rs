//! An order that arrives during a pass replaces the order of that pass.

use std::sync::Arc;

use futures::stream::BoxStream;
use serde_json::Value;
use tokio::sync::Semaphore;
use trueup_cluster::verbs::Answer;
use trueup_cluster::{CallError, Cluster, List, Scope, WatchEvent, Why};
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::report::{Outcome, Report};
use trueup_testkit::fake_cluster::FakeCluster;

use crate::rig::{Rig, key, web};

/// A cluster whose reads of single objects wait at a gate.
#[derive(Debug)]
struct Gated {
    inner: FakeCluster,
    gate: Semaphore,
    /// One permit for each read that reached the gate.
    arrived: Semaphore,
}

impl Cluster for Gated {
    fn get<'a>(&'a self, key: &'a ResourceKey) -> Answer<'a, Option<Value>> {
        Box::pin(async move {
            self.arrived.add_permits(1);
            let _open = self.gate.acquire().await.expect("the gate should stay");
            self.inner.get(key).await
        })
    }

    fn list(&self, kind: Kind, scope: Scope) -> Answer<'_, List> {
        self.inner.list(kind, scope)
    }

    fn watch(&self, kind: Kind, from: String) -> BoxStream<'static, Result<WatchEvent, CallError>> {
        self.inner.watch(kind, from)
    }

    fn apply<'a>(&'a self, key: &'a ResourceKey, object: &'a Value) -> Answer<'a, Value> {
        self.inner.apply(key, object)
    }

    fn patch<'a>(&'a self, key: &'a ResourceKey, patch: &'a Value) -> Answer<'a, Value> {
        self.inner.patch(key, patch)
    }

    fn delete<'a>(
        &'a self,
        key: &'a ResourceKey,
        uid: &'a str,
        version: &'a str,
    ) -> Answer<'a, ()> {
        self.inner.delete(key, uid, version)
    }
}

/// As many reads as any test makes at once.
const OPEN: usize = 1000;

#[tokio::test(start_paused = true)]
async fn freeze_during_a_pass_stays_in_force_after_it() {
    let fake = FakeCluster::new();
    let gate = Semaphore::new(OPEN);
    let gated = Arc::new(Gated { inner: fake.clone(), gate, arrived: Semaphore::new(0) });
    let cluster: Arc<dyn Cluster> = Arc::<Gated>::clone(&gated);
    let mut rig = Rig::in_virtual_time(cluster);
    rig.running(web(1)).await;

    // A pass waits at the gate.
    gated.gate.forget_permits(OPEN);
    gated.arrived.forget_permits(usize::MAX >> 4);
    let order = rig.service(1, web(1));
    let why = Why { fresh: true, ..Why::default() };
    let refreshed = rig.executor.order_because(order.clone(), why).await;
    gated.arrived.acquire().await.expect("the gate should stay").forget();
    // The freeze arrives meanwhile; orders are accepted one after the other.
    let (by, why) = ("an operator".to_owned(), "an audit".to_owned());
    let freeze = Freeze { scope: FreezeScope::Service, by, why, since: rig.clock.now() };
    let frozen = rig.executor.order(Order { freeze: Some(freeze), ..order.clone() }).await;
    assert_eq!(rig.executor.order(rig.project()).await.await, Ok(Outcome::Converged));
    gated.gate.add_permits(OPEN);
    assert_eq!((refreshed.await, frozen.await), (Ok(Outcome::Converged), Ok(Outcome::Converged)));

    let writes = fake.journal().len();
    fake.remove(&key(&order, Kind::Service, str::to_owned));
    let held = |report: &Report| matches!(report.outcome, Outcome::Frozen { .. });
    rig.until(order.unit, held).await;
    assert_eq!(fake.journal().len(), writes, "nothing was repaired");
}
