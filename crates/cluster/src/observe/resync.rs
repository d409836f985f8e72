//! Periodic resync: compares the cache with the cluster, in case a watch missed an event.
//!
//! Lists the versions of one kind after another, spread over a minute and a half. Objects that
//! differ are read again and their units are re-planned; when nothing differs, nothing else is read
//! or written. The same lists feed the sweep for orphaned objects. Secrets may only be listed inside
//! of project namespaces, so they are listed there, by metadata only.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use trueup_model::Clock;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Unit;

use crate::act::throttle::Throttle;
use crate::observe::cache::Cache;
use crate::observe::follow::CacheUpdate;
use crate::verbs::{CallError, Cluster};

/// Duration of one round over all kinds.
const ROUND: Duration = Duration::from_secs(90);

pub(crate) struct Resync {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) cache: Arc<Mutex<Cache>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) updates: mpsc::Sender<CacheUpdate>,
    /// Seeds the jitter, so that replicas do not all list at once.
    pub(crate) observer: String,
}

impl Resync {
    /// Compares until the executor ends.
    pub(crate) async fn run(self) {
        for round in 0_u64.. {
            for kind in Kind::WATCHED.into_iter().chain(Kind::READ) {
                self.clock.sleep(self.pause(round, kind)).await;
                if self.updates.is_closed() {
                    return;
                }
                // Low priority: skipped while the cluster rate limits us.
                if self.throttle.left(self.clock.monotonic()).is_some() {
                    continue;
                }
                let compared = if Kind::READ.contains(&kind) {
                    self.compare_in_projects(kind).await
                } else {
                    self.compare(kind).await
                };
                if let Err(error) = compared {
                    tracing::debug!(%kind, %error, "resync failed; retrying in the next round");
                }
            }
        }
    }

    /// Pause before a kind: its share of the round, with a jitter of ±25 %.
    fn pause(&self, round: u64, kind: Kind) -> Duration {
        let mut hasher = DefaultHasher::new();
        (&self.observer, round, kind).hash(&mut hasher);
        let kinds = Kind::WATCHED.len() + Kind::READ.len();
        let share = ROUND / u32::try_from(kinds).unwrap_or(1);
        let jitter = u32::try_from(hasher.finish() % 51).unwrap_or(0);
        share * (75 + jitter) / 100
    }

    async fn compare(&self, kind: Kind) -> Result<(), CallError> {
        let list = self.cluster.versions(kind).await?;
        let stale = self.cache().stale(kind, &list);
        // Pods carry another label, and are created and deleted by their controllers.
        if kind != Kind::Pod {
            // A closed channel ends the loop in `run`.
            let _ended = self.updates.send(CacheUpdate::Listed(kind, list.objects)).await;
        }
        self.read_stale(kind, stale).await
    }

    /// Compares a kind that may only be listed inside of project namespaces.
    async fn compare_in_projects(&self, kind: Kind) -> Result<(), CallError> {
        let (namespaces, mut objects) = (self.cache().project_namespaces(), Vec::new());
        for namespace in namespaces {
            let list = self.cluster.versions_in(kind, &namespace).await?;
            let stale = self.cache().stale_in(kind, &namespace, &list);
            self.read_stale(kind, stale).await?;
            objects.extend(list.objects);
        }
        // A closed channel ends the loop in `run`.
        let _ended = self.updates.send(CacheUpdate::Listed(kind, objects)).await;
        Ok(())
    }

    /// Reads objects whose cached version is stale, and re-plans their units.
    async fn read_stale(&self, kind: Kind, stale: Vec<ResourceKey>) -> Result<(), CallError> {
        if stale.is_empty() {
            return Ok(());
        }
        tracing::warn!(%kind, objects = stale.len(), "changes were missed; reading them now");
        let mut touched = BTreeSet::new();
        for key in stale {
            touched.extend(self.read(&key).await?);
        }
        // A closed channel ends the loop in `run`.
        let _ended = self.updates.send(CacheUpdate::Touched(touched)).await;
        Ok(())
    }

    async fn read(&self, key: &ResourceKey) -> Result<Option<Unit>, CallError> {
        let found = self.cluster.get(key).await?;
        Ok(match found {
            Some(object) => self.cache().present(key.kind, object),
            None => self.cache().forget(key),
        })
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
