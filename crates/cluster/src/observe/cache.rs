//! Cache of our objects by key, updated by watches and by our own writes.
//!
//! The response to a write goes in at once, so the next plan sees it. A watch event that is older
//! than the cached object is dropped, so the cache never goes back in time.

mod compare;
mod pods;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Absent;
use trueup_model::order::{Order, Unit};
use trueup_model::receipt::LostPod;
use trueup_rules::plan::Observed;
use trueup_rules::render::names;

use crate::observe::compact::compact;
use crate::observe::packed::{Packed, version};
use crate::verbs::List;
use compare::version_of;
use pods::{pod_label, pods_of};

#[derive(Debug, Default)]
pub(crate) struct Cache {
    objects: HashMap<ResourceKey, Packed>,
    /// Pods by the namespace and name of the service they belong to.
    pods: HashMap<(String, String), BTreeSet<ResourceKey>>,
    /// The unit that the pods with this namespace and name belong to.
    pod_owners: HashMap<(String, String), Unit>,
    listed: BTreeSet<Kind>,
    /// We may not list nodes: pods are then judged by their own status only.
    nodes_forbidden: bool,
    /// The newest version that the watch of each kind has reached.
    watched_to: BTreeMap<Kind, u64>,
    /// Kinds that the cluster does not accept. Nothing waits for them.
    missing: BTreeMap<Kind, Absent>,
    /// When each object of a kind that is not watched was last read or written.
    read: HashMap<ResourceKey, Duration>,
    /// The version at which each key was last deleted; an older response is stale.
    tombstones: HashMap<ResourceKey, u64>,
    /// Deleted pods whose processes were not seen to end, by service.
    lost: HashMap<(String, String), Vec<LostPod>>,
}

/// How long a read of an unwatched object stays valid.
const READ_VALID: Duration = Duration::from_secs(30);

/// How many tombstones are kept; no response can be late by more than that.
const TOMBSTONES: usize = 4096;

impl Cache {
    /// Whether every kind was listed at least once; until then, absence means nothing.
    pub(crate) fn is_complete(&self) -> bool {
        let nodes = self.listed.contains(&Kind::Node) || self.nodes_forbidden;
        let known = |kind: &Kind| self.listed.contains(kind) || self.missing.contains_key(kind);
        nodes && Kind::WATCHED.iter().all(known)
    }

    /// Marks a kind as not accepted by the cluster and drops its objects; returns whether that is a
    /// change.
    pub(crate) fn mark_missing(&mut self, kind: Kind, why: Absent) -> bool {
        self.listed.remove(&kind);
        self.objects.retain(|key, _| key.kind != kind);
        self.missing.insert(kind, why) != Some(why)
    }

    /// Whether this kind was never listed, although every essential kind was.
    pub(crate) fn waits_only_for(&self, kind: Kind) -> bool {
        let essential = Kind::WATCHED.iter().filter(|other| !other.is_optional());
        let listed = |kind: &Kind| self.listed.contains(kind);
        !listed(&kind) && essential.copied().all(|other| listed(&other))
    }

    /// Records that we have no permission to list nodes, so nothing waits for them.
    pub(crate) const fn forbid_nodes(&mut self) {
        self.nodes_forbidden = true;
    }

    /// The objects at the order's keys, its pods and their nodes.
    pub(crate) fn observed(&self, order: &Order, project_ready: bool) -> Observed {
        let objects =
            order.recorded.keys().filter_map(|key| Some((key.clone(), self.get(key)?))).collect();
        let pods: Vec<Arc<Value>> = pods_of(order)
            .and_then(|label| self.pods.get(&label))
            .into_iter()
            .flatten()
            .filter_map(|key| self.get(key))
            .collect();
        let namespace = ResourceKey::new(Kind::Namespace, "", &order.namespace);
        let namespace_ending = self.objects.get(&namespace).is_some_and(Packed::ends);
        // Many pods share a node; each node is parsed once.
        let names: BTreeSet<&str> =
            pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
        let nodes = names
            .into_iter()
            .filter_map(|name| {
                let node = self.get(&ResourceKey::new(Kind::Node, "", name))?;
                Some((name.to_owned(), node))
            })
            .collect();
        let nodes = self.listed.contains(&Kind::Node).then_some(nodes);
        Observed {
            objects,
            pods,
            nodes,
            missing: self.missing.clone(),
            project_ready,
            namespace_ending,
            ..Observed::default()
        }
    }

    /// The order's unwatched keys whose last read is no longer valid.
    pub(crate) fn unread(&self, order: &Order, now: Duration) -> Vec<ResourceKey> {
        let terminating = |key: &ResourceKey| self.objects.get(key).is_some_and(Packed::ends);
        let is_old = |key: &&ResourceKey| {
            terminating(key) || self.read.get(*key).is_none_or(|read| now >= *read + READ_VALID)
        };
        let unwatched = order.recorded.keys().filter(|key| Kind::READ.contains(&key.kind));
        unwatched.filter(is_old).cloned().collect()
    }

    /// The namespaces of our projects.
    pub(crate) fn project_namespaces(&self) -> Vec<String> {
        let namespaces = self.objects.keys().filter(|key| key.kind == Kind::Namespace);
        namespaces.map(|key| key.name.clone()).collect()
    }

    /// Records that an unwatched key was read now.
    pub(crate) fn was_read(&mut self, key: &ResourceKey, now: Duration) {
        self.read.insert(key.clone(), now);
    }

    /// Invalidates the reads of this order's unwatched keys.
    pub(crate) fn read_again(&mut self, order: &Order) {
        self.read.retain(|key, _| !order.recorded.contains_key(key));
    }

    /// Invalidates all reads of unwatched keys, after a gap in a watch.
    pub(crate) fn read_all_again(&mut self) {
        self.read.clear();
    }

    /// The cached object at a key.
    pub(crate) fn get(&self, key: &ResourceKey) -> Option<Arc<Value>> {
        self.objects.get(key).map(|packed| Arc::new(packed.open()))
    }

    /// Stores an object from a watch, a read or a write; returns its unit if that is a change.
    pub(crate) fn present(&mut self, kind: Kind, mut object: Value) -> Option<Unit> {
        compact(kind, &mut object);
        let key = key_of(kind, &object);
        let at = version(&object);
        let known = self.objects.get(&key).map(Packed::version);
        let tombstone = self.tombstones.get(&key).copied();
        // A delete has a version of its own. An object at exactly the version of its tombstone was
        // not deleted: it left the watch because our label was removed, and a read found it.
        if known.is_some_and(|known| known > at)
            || tombstone.is_some_and(|tombstone| tombstone > at)
        {
            return None;
        }
        let unit = self.unit_of(kind, &object);
        if let Some(label) = pod_label(kind, &object) {
            self.pods.entry(label).or_default().insert(key.clone());
        }
        self.objects.insert(key, Packed::new(kind, &object));
        // Same version: the watch event of our own write or read, which is already planned on.
        unit.filter(|_| known != Some(at))
    }

    /// Removes an object that a watch reports as deleted.
    pub(crate) fn gone(&mut self, kind: Kind, object: &Value) -> Option<Unit> {
        let key = key_of(kind, object);
        let at = version(object);
        if self.objects.get(&key).is_some_and(|known| known.version() > at) {
            return None;
        }
        self.advance(kind, at);
        if self.tombstones.len() >= TOMBSTONES {
            let mut ends: Vec<u64> = self.tombstones.values().copied().collect();
            ends.sort_unstable();
            let recent = ends[ends.len() / 2];
            self.tombstones.retain(|_, end| *end >= recent);
        }
        self.tombstones.insert(key.clone(), at);
        self.note_lost_pod(kind, object);
        self.forget(&key)
    }

    /// Removes an object that a read did not find.
    pub(crate) fn forget(&mut self, key: &ResourceKey) -> Option<Unit> {
        let known = self.objects.remove(key)?.open();
        if let Some(label) = pod_label(key.kind, &known)
            && let Some(pods) = self.pods.get_mut(&label)
        {
            pods.remove(key);
        }
        self.unit_of(key.kind, &known)
    }

    /// Drops objects at the order's keys that lack our label: watches do not report them, so an
    /// earlier read of them may be stale.
    pub(crate) fn forget_unwatched(&mut self, order: &Order) {
        for key in order.recorded.keys() {
            if self.objects.get(key).is_some_and(|object| !object.watched()) {
                self.objects.remove(key);
            }
        }
    }

    /// Marks an object as terminating: the server accepted our delete.
    pub(crate) fn terminating(&mut self, key: &ResourceKey, uid: &str) {
        let Some(known) = self.objects.get_mut(key).filter(|known| !known.ends()) else { return };
        let mut object = known.open();
        if object["metadata"]["uid"] == uid {
            object["metadata"]["deletionTimestamp"] = Value::String("now".to_owned());
            *known = Packed::new(key.kind, &object);
        }
    }

    /// Records that the watch of a kind has reached this version.
    pub(crate) fn watch_reached(&mut self, kind: Kind, version: &str) {
        self.advance(kind, version.parse().unwrap_or(0));
    }

    fn advance(&mut self, kind: Kind, version: u64) {
        let reached = self.watched_to.entry(kind).or_default();
        *reached = version.max(*reached);
    }

    /// Replaces all objects of a kind: what the list lacks is gone, unless it is newer than the
    /// list.
    pub(crate) fn replace(&mut self, kind: Kind, list: List) -> BTreeSet<Unit> {
        let at = version_of(&list);
        let listed: BTreeSet<ResourceKey> =
            list.objects.iter().map(|object| key_of(kind, object)).collect();
        let vanished: Vec<ResourceKey> = self
            .objects
            .iter()
            .filter(|(key, known)| {
                key.kind == kind && !listed.contains(key) && known.version() <= at
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in &vanished {
            if let Some(last) = self.get(key) {
                self.note_lost_pod(kind, &last);
            }
        }
        let mut touched: BTreeSet<Unit> =
            vanished.iter().filter_map(|key| self.forget(key)).collect();
        touched.extend(list.objects.into_iter().filter_map(|object| self.present(kind, object)));
        self.listed.insert(kind);
        self.advance(kind, at);
        self.missing.remove(&kind);
        touched
    }

    fn unit_of(&self, kind: Kind, object: &Value) -> Option<Unit> {
        if let Some(label) = pod_label(kind, object) {
            return self.pod_owners.get(&label).copied();
        }
        let label = |name: &str| object["metadata"]["labels"][name].as_str();
        match label(names::SERVICE_LABEL) {
            Some(service) => service.parse().ok().map(Unit::Service),
            None => label(names::PROJECT_LABEL)?.parse().ok().map(Unit::Project),
        }
    }
}

fn key_of(kind: Kind, object: &Value) -> ResourceKey {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    ResourceKey::new(kind, text("namespace"), text("name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    pub(super) fn config(name: &str, version: u64) -> Value {
        json!({"metadata": {"namespace": "n", "name": name, "uid": "u", "resourceVersion": version.to_string()}})
    }

    fn cached(cache: &Cache, name: &str) -> Option<u64> {
        cache.objects.get(&ResourceKey::new(Kind::ConfigMap, "n", name)).map(Packed::version)
    }

    #[test]
    fn older_event_does_not_undo_a_newer_write() {
        let mut cache = Cache::default();
        cache.present(Kind::ConfigMap, config("a", 7));
        cache.present(Kind::ConfigMap, config("a", 5));
        assert_eq!(cached(&cache, "a"), Some(7));
        cache.gone(Kind::ConfigMap, &config("a", 6));
        assert_eq!(cached(&cache, "a"), Some(7));
        cache.gone(Kind::ConfigMap, &config("a", 8));
        assert_eq!(cached(&cache, "a"), None);
    }

    #[test]
    fn response_older_than_the_tombstone_is_dropped() {
        let mut cache = Cache::default();
        cache.present(Kind::ConfigMap, config("a", 7));
        cache.gone(Kind::ConfigMap, &config("a", 9));
        cache.present(Kind::ConfigMap, config("a", 8));
        assert_eq!(cached(&cache, "a"), None);
        cache.present(Kind::ConfigMap, config("a", 10));
        assert_eq!(cached(&cache, "a"), Some(10));
    }

    #[test]
    fn f46_object_that_lost_its_label_is_cached_again_by_a_read() {
        let mut cache = Cache::default();
        cache.present(Kind::ConfigMap, config("a", 7));
        cache.gone(Kind::ConfigMap, &config("a", 9));
        cache.present(Kind::ConfigMap, config("a", 9));
        assert_eq!(cached(&cache, "a"), Some(9));
    }

    #[test]
    fn list_removes_missing_objects_unless_they_are_newer() {
        let mut cache = Cache::default();
        cache.present(Kind::ConfigMap, config("old", 3));
        cache.present(Kind::ConfigMap, config("ours", 12));
        let list = List { objects: vec![config("listed", 9)], version: "10".to_owned() };
        cache.replace(Kind::ConfigMap, list);
        assert_eq!(cached(&cache, "old"), None);
        assert_eq!(cached(&cache, "ours"), Some(12));
        assert_eq!(cached(&cache, "listed"), Some(9));
    }

    #[test]
    fn f37_older_list_does_not_undo_our_own_write() {
        let mut cache = Cache::default();
        cache.replace(Kind::ConfigMap, List { objects: Vec::new(), version: "10".to_owned() });
        cache.present(Kind::ConfigMap, config("ours", 12));
        cache.replace(Kind::ConfigMap, List { objects: Vec::new(), version: "11".to_owned() });
        assert_eq!(cached(&cache, "ours"), Some(12));
    }

    #[test]
    fn pruning_tombstones_keeps_the_newest() {
        let mut cache = Cache::default();
        for n in 0..=u64::try_from(TOMBSTONES).unwrap() {
            cache.gone(Kind::ConfigMap, &config(&format!("c{n}"), 100 + n));
        }
        assert!(cache.tombstones.len() <= TOMBSTONES);
        let last = format!("c{TOMBSTONES}");
        cache.present(Kind::ConfigMap, config(&last, 50));
        assert_eq!(cached(&cache, &last), None);
    }
}
