//! Queue of pod, volume and node updates between the followers and the recorder.
//!
//! Followers never wait for the recorder: repair must not depend on the database. Updates that are
//! not written yet are queued here. When the queue is full, only the newest snapshot of each object
//! is kept; the recorder then misses the states in between, but not the current one.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;
use trueup_model::finding::SweepResult;
use trueup_model::key::Kind;
use trueup_model::transition::ObjectUpdate;
use trueup_rules::status::transition::snapshot;

use crate::verbs::List;

/// Above this length the queue is coalesced.
const MOST: usize = 65_536;

/// Queue of updates and sweep results. Clones share it; the default one drops everything.
#[derive(Debug, Clone, Default)]
pub struct Notices(Option<Arc<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    queue: Mutex<VecDeque<ObjectUpdate>>,
    pushed: Notify,
    /// The last sweep of each kind that was not taken yet.
    swept: Mutex<Vec<SweepResult>>,
    sweep_pushed: Notify,
}

impl Notices {
    /// A queue that keeps what is pushed until it is taken.
    #[must_use]
    pub fn kept() -> Self {
        Self(Some(Arc::default()))
    }

    /// Waits for updates and takes at most `most` of them, oldest first.
    pub async fn take(&self, most: usize) -> Vec<ObjectUpdate> {
        let Some(waiting) = &self.0 else {
            return std::future::pending().await;
        };
        loop {
            let taken = self.take_now(most);
            if !taken.is_empty() {
                return taken;
            }
            waiting.pushed.notified().await;
        }
    }

    /// Takes at most `most` of the queued updates, without waiting.
    #[must_use]
    pub fn take_now(&self, most: usize) -> Vec<ObjectUpdate> {
        let Some(waiting) = &self.0 else { return Vec::new() };
        let mut queue = waiting.lock();
        let count = queue.len().min(most);
        queue.drain(..count).collect()
    }

    /// Waits for the next sweep result.
    pub async fn take_sweeps(&self) -> SweepResult {
        let Some(waiting) = &self.0 else {
            return std::future::pending().await;
        };
        loop {
            let first = waiting.swept.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match first {
                Some(swept) => return swept,
                None => waiting.sweep_pushed.notified().await,
            }
        }
    }

    /// Queues a sweep result; replaces an older one of the same kind that was not taken.
    pub(crate) fn swept(&self, swept: SweepResult) {
        let Some(waiting) = &self.0 else { return };
        let mut all = waiting.swept.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.kind != swept.kind);
        all.push(swept);
        drop(all);
        waiting.sweep_pushed.notify_one();
    }

    fn push(&self, updates: impl IntoIterator<Item = ObjectUpdate>) {
        let Some(waiting) = &self.0 else { return };
        let mut queue = waiting.lock();
        queue.extend(updates);
        if queue.len() > MOST {
            coalesce(&mut queue);
        }
        drop(queue);
        waiting.pushed.notify_one();
    }
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, VecDeque<ObjectUpdate>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the newest snapshot of each uid, every deletion and every list.
fn coalesce(queue: &mut VecDeque<ObjectUpdate>) {
    let mut newer: HashSet<String> = HashSet::new();
    let kept: VecDeque<ObjectUpdate> = queue
        .drain(..)
        .rev()
        .filter(|update| match update {
            ObjectUpdate::Present { snapshot, .. } => newer.insert(snapshot.uid.clone()),
            ObjectUpdate::Gone { .. } | ObjectUpdate::Listed { .. } => true,
        })
        .collect();
    queue.extend(kept.into_iter().rev());
}

/// What one follower has reported already, so that nothing is reported twice.
#[derive(Debug)]
pub(crate) struct Notes {
    notices: Notices,
    /// A digest of what was last reported, by uid.
    reported: Mutex<HashMap<String, u64>>,
    digest: RandomState,
}

impl Notes {
    pub(crate) fn new(notices: Notices) -> Self {
        Self { notices, reported: Mutex::default(), digest: RandomState::new() }
    }

    /// Reports an object that exists; returns whether it differs from the last report.
    pub(crate) fn present(&self, kind: Kind, object: &Value, seen_at: Timestamp) -> bool {
        let update = self.changed(kind, object, seen_at);
        let is_changed = update.is_some();
        self.notices.push(update);
        is_changed
    }

    /// Reports a deleted object; returns whether it was known.
    pub(crate) fn gone(&self, kind: Kind, object: &Value, seen_at: Timestamp) -> bool {
        let Some(snapshot) = snapshot(kind, object) else { return false };
        let known = self.reported().remove(&snapshot.uid).is_some();
        if known {
            let (uid, resource_version) = (snapshot.uid, snapshot.resource_version);
            self.notices.push([ObjectUpdate::Gone { uid, resource_version, seen_at }]);
        }
        known
    }

    /// Reports a full list, at the start or after a gap in the watch.
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
        let mut updates: Vec<ObjectUpdate> =
            list.objects.iter().filter_map(|object| self.changed(kind, object, seen_at)).collect();
        let uid = |object: &Value| object["metadata"]["uid"].as_str().map(str::to_owned);
        let uids: BTreeSet<String> = list.objects.iter().filter_map(uid).collect();
        self.reported().retain(|uid, _| uids.contains(uid));
        let resource_version = list.version.clone();
        updates.push(ObjectUpdate::Listed { kind, uids, resource_version, since, seen_at });
        self.notices.push(updates);
    }

    /// The update to report, if the object differs from the last report.
    fn changed(&self, kind: Kind, object: &Value, seen_at: Timestamp) -> Option<ObjectUpdate> {
        let snapshot = Box::new(snapshot(kind, object)?);
        let digest = self.digest.hash_one(&snapshot.level);
        let last = self.reported().insert(snapshot.uid.clone(), digest);
        (last != Some(digest)).then_some(ObjectUpdate::Present { snapshot, seen_at })
    }

    fn reported(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
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
    async fn unchanged_object_is_reported_once_whatever_its_version() {
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
        let updates = notices.take(100).await;
        let kinds: Vec<&str> = updates
            .iter()
            .map(|update| match update {
                ObjectUpdate::Present { .. } => "present",
                ObjectUpdate::Gone { .. } => "gone",
                ObjectUpdate::Listed { .. } => "listed",
            })
            .collect();
        assert_eq!(kinds, ["present", "present", "listed", "gone"]);
    }

    #[test]
    fn full_queue_is_coalesced_to_the_newest_of_each() {
        let notes = Notes::new(Notices::kept());
        let notice = |uid: &str, version, node| {
            notes.changed(Kind::Pod, &pod(uid, version, node), at(1)).unwrap()
        };
        let mut queue = VecDeque::from([
            notice("a", 1, None),
            notice("b", 2, None),
            notice("a", 3, Some("n")),
            ObjectUpdate::Gone { uid: "c".into(), resource_version: "4".into(), seen_at: at(1) },
        ]);
        let newest: Vec<ObjectUpdate> = queue.iter().skip(1).cloned().collect();
        coalesce(&mut queue);
        assert_eq!(Vec::from(queue), newest);
    }
}
