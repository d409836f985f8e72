//! What an executor notices of pods, disks and nodes, on its way to where it is written down.
//!
//! Followers never wait for whoever writes: repair must not depend on the database. What cannot be
//! written yet waits here; when that becomes too much, only the newest sight of each object is
//! kept, from which everything but the moments in between can still be told.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;
use trueup_model::finding::SweepResult;
use trueup_model::key::Kind;
use trueup_model::transition::ObjectUpdate;
use trueup_rules::status::transition::sight;

use crate::verbs::List;

/// More than this is thinned out.
const MOST: usize = 65_536;

/// The place where notices wait. Clones are the same place; a default one is where nobody waits.
#[derive(Debug, Clone, Default)]
pub struct Notices(Option<Arc<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    queue: Mutex<VecDeque<ObjectUpdate>>,
    news: Notify,
    /// The last sweep of each kind that nobody took yet.
    swept: Mutex<Vec<SweepResult>>,
    swept_news: Notify,
}

impl Notices {
    /// A place that somebody takes from.
    #[must_use]
    pub fn kept() -> Self {
        Self(Some(Arc::default()))
    }

    /// Waits until there is something, and takes at most so much of it, oldest first.
    pub async fn take(&self, most: usize) -> Vec<ObjectUpdate> {
        let Some(waiting) = &self.0 else {
            return std::future::pending().await;
        };
        loop {
            let taken = self.take_now(most);
            if !taken.is_empty() {
                return taken;
            }
            waiting.news.notified().await;
        }
    }

    /// Takes at most so much of what is there.
    #[must_use]
    pub fn take_now(&self, most: usize) -> Vec<ObjectUpdate> {
        let Some(waiting) = &self.0 else { return Vec::new() };
        let mut queue = waiting.lock();
        let count = queue.len().min(most);
        queue.drain(..count).collect()
    }

    /// Waits until a kind was swept, and takes what was found.
    pub async fn take_swept(&self) -> SweepResult {
        let Some(waiting) = &self.0 else {
            return std::future::pending().await;
        };
        loop {
            let first = waiting.swept.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match first {
                Some(swept) => return swept,
                None => waiting.swept_news.notified().await,
            }
        }
    }

    /// A kind was swept; what was found before and not taken is old news.
    pub(crate) fn swept(&self, swept: SweepResult) {
        let Some(waiting) = &self.0 else { return };
        let mut all = waiting.swept.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.kind != swept.kind);
        all.push(swept);
        drop(all);
        waiting.swept_news.notify_one();
    }

    fn push(&self, noticed: impl IntoIterator<Item = ObjectUpdate>) {
        let Some(waiting) = &self.0 else { return };
        let mut queue = waiting.lock();
        queue.extend(noticed);
        if queue.len() > MOST {
            thin_out(&mut queue);
        }
        drop(queue);
        waiting.news.notify_one();
    }
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, VecDeque<ObjectUpdate>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the newest sight of each incarnation, every end and every list.
fn thin_out(queue: &mut VecDeque<ObjectUpdate>) {
    let mut newer: HashSet<String> = HashSet::new();
    let kept: VecDeque<ObjectUpdate> = queue
        .drain(..)
        .rev()
        .filter(|noticed| match noticed {
            ObjectUpdate::Present { sight, .. } => newer.insert(sight.uid.clone()),
            ObjectUpdate::Gone { .. } | ObjectUpdate::Listed { .. } => true,
        })
        .collect();
    queue.extend(kept.into_iter().rev());
}

/// What one follower has told already, so that the same is not told twice.
#[derive(Debug)]
pub(crate) struct Notes {
    notices: Notices,
    /// A digest of what was last told of each incarnation.
    told: Mutex<HashMap<String, u64>>,
    digest: RandomState,
}

impl Notes {
    pub(crate) fn new(notices: Notices) -> Self {
        Self { notices, told: Mutex::default(), digest: RandomState::new() }
    }

    /// An object is there; answers whether that says anything new.
    pub(crate) fn present(&self, kind: Kind, object: &Value, seen_at: Timestamp) -> bool {
        let noticed = self.news(kind, object, seen_at);
        let is_news = noticed.is_some();
        self.notices.push(noticed);
        is_news
    }

    /// An object is gone; answers whether it was known.
    pub(crate) fn gone(&self, kind: Kind, object: &Value, seen_at: Timestamp) -> bool {
        let Some(sight) = sight(kind, object) else { return false };
        let known = self.told().remove(&sight.uid).is_some();
        if known {
            let (uid, resource_version) = (sight.uid, sight.resource_version);
            self.notices.push([ObjectUpdate::Gone { uid, resource_version, seen_at }]);
        }
        known
    }

    /// A whole list came after a break, or at the beginning.
    pub(crate) fn listed(
        &self,
        kind: Kind,
        list: &List,
        since: Option<Timestamp>,
        seen_at: Timestamp,
    ) {
        if !kind.is_recorded() {
            return;
        }
        let mut noticed: Vec<ObjectUpdate> =
            list.objects.iter().filter_map(|object| self.news(kind, object, seen_at)).collect();
        let uid = |object: &Value| object["metadata"]["uid"].as_str().map(str::to_owned);
        let uids: BTreeSet<String> = list.objects.iter().filter_map(uid).collect();
        self.told().retain(|uid, _| uids.contains(uid));
        let resource_version = list.version.clone();
        noticed.push(ObjectUpdate::Listed { kind, uids, resource_version, since, seen_at });
        self.notices.push(noticed);
    }

    fn news(&self, kind: Kind, object: &Value, seen_at: Timestamp) -> Option<ObjectUpdate> {
        let sight = Box::new(sight(kind, object)?);
        let digest = self.digest.hash_one(&sight.level);
        let told = self.told().insert(sight.uid.clone(), digest);
        (told != Some(digest)).then_some(ObjectUpdate::Present { sight, seen_at })
    }

    fn told(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, version: u64, node: Option<&str>) -> Value {
        json!({"metadata": {"uid": uid, "name": "web", "namespace": "shop",
            "labels": {"trueup.dev/name": "web-1"}, "resourceVersion": version.to_string()},
            "spec": {"nodeName": node}, "status": {"phase": "Pending"}})
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[tokio::test]
    async fn the_same_is_told_once_whatever_its_version() {
        let notices = Notices::kept();
        let notes = Notes::new(notices.clone());
        assert!(notes.present(Kind::Pod, &pod("a", 1, None), at(1)));
        assert!(!notes.present(Kind::Pod, &pod("a", 2, None), at(2)));
        assert!(notes.present(Kind::Pod, &pod("a", 3, Some("n")), at(3)));
        assert!(!notes.present(Kind::ConfigMap, &json!({"metadata": {"uid": "c"}}), at(3)));
        let list = List { objects: vec![pod("a", 3, Some("n"))], version: "9".to_owned() };
        notes.listed(Kind::Pod, &list, Some(at(3)), at(5));
        assert!(notes.gone(Kind::Pod, &pod("a", 10, Some("n")), at(6)));
        assert!(!notes.gone(Kind::Pod, &pod("a", 10, Some("n")), at(6)));
        let told = notices.take(100).await;
        let kinds: Vec<&str> = told
            .iter()
            .map(|noticed| match noticed {
                ObjectUpdate::Present { .. } => "present",
                ObjectUpdate::Gone { .. } => "gone",
                ObjectUpdate::Listed { .. } => "listed",
            })
            .collect();
        assert_eq!(kinds, ["present", "present", "listed", "gone"]);
    }

    #[test]
    fn too_much_is_thinned_out_to_the_newest_of_each() {
        let notes = Notes::new(Notices::kept());
        let notice = |uid: &str, version, node| {
            notes.news(Kind::Pod, &pod(uid, version, node), at(1)).unwrap()
        };
        let mut queue = VecDeque::from([
            notice("a", 1, None),
            notice("b", 2, None),
            notice("a", 3, Some("n")),
            ObjectUpdate::Gone { uid: "c".into(), resource_version: "4".into(), seen_at: at(1) },
        ]);
        let newest: Vec<ObjectUpdate> = queue.iter().skip(1).cloned().collect();
        thin_out(&mut queue);
        assert_eq!(Vec::from(queue), newest);
    }
}
