//! The behaviour that Trueup expects of a cluster, as checks that run on any [`Cluster`].
//!
//! Each check covers one behaviour. The same checks run on
//! [`FakeCluster`](crate::fake_cluster::FakeCluster) and on a real API server; where they differ,
//! the fake is wrong.

pub mod closed;
mod defaults;
mod deletes;
mod dry_runs;
mod parts;
mod place;
mod quotas;
mod scale;
mod watches;
mod workloads;
mod writes;

use std::hash::{BuildHasher, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use trueup_cluster::Cluster;

pub use place::Place;

/// A check of one behaviour; it panics if the cluster behaves differently.
pub type Check = for<'a> fn(&'a Place) -> BoxFuture<'a, ()>;

/// How many checks run concurrently; most of them wait for controllers.
const AT_ONCE: usize = 8;

/// Every check with its name.
#[must_use]
pub fn all() -> Vec<(&'static str, Check)> {
    [
        writes::CHECKS,
        dry_runs::CHECKS,
        deletes::CHECKS,
        watches::CHECKS,
        workloads::CHECKS,
        defaults::CHECKS,
        quotas::CHECKS,
        scale::CHECKS,
        parts::CHECKS,
    ]
    .concat()
}

/// Runs every check in a separate namespace and returns the names of those that failed. The panic
/// messages in the output say why.
pub async fn failures(cluster: Arc<dyn Cluster>) -> Vec<&'static str> {
    let run = RandomState::new().hash_one(std::process::id());
    stream::iter(all().into_iter().enumerate())
        .map(|(number, (name, check))| {
            let place = Place::new(Arc::clone(&cluster), format!("contract-{run:016x}-{number}"));
            async move {
                place.open().await;
                let outcome = AssertUnwindSafe(check(&place)).catch_unwind().await;
                place.close().await;
                outcome.is_err().then_some(name)
            }
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(|failed| async move { failed })
        .collect()
        .await
}
