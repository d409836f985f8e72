//! The safety net under the watches: now and then the cache is compared with what is really there.
//!
//! One kind after the other, spread over ten minutes, by versions only: what differs is read afresh
//! and planned anew. When nothing differs, nothing is read and nothing is written. The same lists show
//! what carries our label and belongs to nobody.

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
use crate::observe::follow::News;
use crate::verbs::{CallError, Cluster};

/// How long a round over all kinds takes.
const ROUND: Duration = Duration::from_secs(600);

pub(crate) struct Resync {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) cache: Arc<Mutex<Cache>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) news: mpsc::Sender<News>,
    /// So that the replicas of a fleet do not all ask at once.
    pub(crate) observer: String,
}

impl Resync {
    /// Compares for ever; ends only when nobody listens any more.
    pub(crate) async fn run(self) {
        for round in 0_u64.. {
            for kind in Kind::WATCHED {
                self.clock.sleep(self.pause(round, kind)).await;
                if self.news.is_closed() {
                    return;
                }
                // It is low work: while the cluster asks to slow down, it is left out.
                if self.throttle.left(self.clock.monotonic()).is_some() {
                    continue;
                }
                if let Err(error) = self.compare(kind).await {
                    tracing::debug!(%kind, %error, "the cache could not be compared");
                }
            }
            if let Err(error) = self.read_unwatched().await {
                tracing::debug!(%error, "what no watch tells of could not be read");
            }
        }
    }

    /// A share of the round, three quarters to five quarters of it.
    fn pause(&self, round: u64, kind: Kind) -> Duration {
        let mut hasher = DefaultHasher::new();
        (&self.observer, round, kind).hash(&mut hasher);
        let share = ROUND / u32::try_from(Kind::WATCHED.len()).unwrap_or(1);
        let jitter = u32::try_from(hasher.finish() % 51).unwrap_or(0);
        share * (75 + jitter) / 100
    }

    async fn compare(&self, kind: Kind) -> Result<(), CallError> {
        let list = self.cluster.versions(kind).await?;
        let odd = self.cache().odd(kind, &list);
        // Pods carry another label, and come and go with what makes them.
        if kind != Kind::Pod {
            // Nobody listens any more: the loop sees that by itself.
            let _ended = self.news.send(News::Listed(kind, list.objects)).await;
        }
        if odd.is_empty() {
            return Ok(());
        }
        tracing::warn!(%kind, objects = odd.len(), "the watch missed something; reading it afresh");
        let mut touched = BTreeSet::new();
        for key in odd {
            touched.extend(self.read(&key).await?);
        }
        // Nobody listens any more: the loop sees that by itself.
        let _ended = self.news.send(News::Touched(touched)).await;
        Ok(())
    }

    /// Reads again, one by one, what may not be listed.
    async fn read_unwatched(&self) -> Result<(), CallError> {
        let keys = self.cache().unwatched();
        for key in keys {
            let before = self.cache().get(&key);
            let touched = self.read(&key).await?;
            if self.cache().get(&key).as_deref() != before.as_deref() {
                // Nobody listens any more: the loop sees that by itself.
                let _ended = self.news.send(News::Touched(touched.into_iter().collect())).await;
            }
        }
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
