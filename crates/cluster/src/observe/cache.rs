//! What is known of the cluster: our objects by key, kept by watches and by our own writes.
//!
//! A write's answer goes in at once, so the next plan sees it; a watch event that is older than what
//! is already known is dropped, so the cache never goes back in time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Absent;
use trueup_model::order::{Body, Order, Unit};
use trueup_model::receipt::LostPod;
use trueup_rules::plan::Observed;
use trueup_rules::render::names;
use trueup_rules::status::lost::lost;

use crate::observe::compact::compact;
use crate::observe::packed::{Packed, version};
use crate::verbs::{CallError, List};

#[derive(Debug, Default)]
pub(crate) struct Cache {
    objects: HashMap<ResourceKey, Packed>,
    /// Pods by the namespace and name of the service they belong to.
    pods: HashMap<(String, String), BTreeSet<ResourceKey>>,
    /// Which unit the pods with this namespace and name belong to.
    pod_owners: HashMap<(String, String), Unit>,
    listed: BTreeSet<Kind>,
    /// Nodes may not be looked at: then what is said of their pods must do.
    blind: bool,
    /// How far the watch of each kind has come.
    heard: BTreeMap<Kind, u64>,
    /// Kinds that the cluster takes no objects of. Nothing waits for them.
    missing: BTreeMap<Kind, Absent>,
    /// When each object of a kind that is not watched was last read or written.
    read: HashMap<ResourceKey, Duration>,
    /// At which version each key was last seen to go: an answer that is older comes too late.
    graves: HashMap<ResourceKey, u64>,
    /// Pods that went without anybody having seen their processes end, by service.
    lost: HashMap<(String, String), Vec<LostPod>>,
}

/// How long a read of what no watch tells of is believed.
const READ_AGAIN: Duration = Duration::from_secs(30);
/// More lost pods than this say no more than these.
const LOST: usize = 32;

/// More graves than this are more than any answer can be late for.
const GRAVES: usize = 4096;

impl Cache {
    /// Whether every kind was listed at least once: before that, absence means nothing.
    pub(crate) fn is_complete(&self) -> bool {
        let nodes = self.listed.contains(&Kind::Node) || self.blind;
        let known = |kind: &Kind| self.listed.contains(kind) || self.missing.contains_key(kind);
        nodes && Kind::WATCHED.iter().all(known)
    }

    /// The cluster takes no objects of this kind now; answers whether that is news. What was known of
    /// them is not known any more.
    pub(crate) fn miss(&mut self, kind: Kind, why: Absent) -> bool {
        self.listed.remove(&kind);
        self.objects.retain(|key, _| key.kind != kind);
        self.missing.insert(kind, why) != Some(why)
    }

    /// Whether a kind was never listed, although everything was that no service can do without.
    pub(crate) fn waits_only_for(&self, kind: Kind) -> bool {
        let essential = Kind::WATCHED.iter().filter(|other| !other.is_optional());
        let listed = |kind: &Kind| self.listed.contains(kind);
        !listed(&kind) && essential.copied().all(|other| listed(&other))
    }

    /// Nodes cannot be seen with the rights there are, so nobody waits for them.
    pub(crate) const fn give_up_on_nodes(&mut self) {
        self.blind = true;
    }

    /// Learns which pods belong to an order's unit.
    pub(crate) fn expect_pods(&mut self, order: &Order) {
        if let Body::Service(body) = &order.body {
            self.pod_owners.insert((order.namespace.clone(), body.object_name.clone()), order.unit);
        }
    }

    /// What stands at the order's keys, and its pods.
    pub(crate) fn observed(&self, order: &Order, project_ready: bool) -> Observed {
        let objects =
            order.recorded.keys().filter_map(|key| Some((key.clone(), self.get(key)?))).collect();
        let pods = match &order.body {
            Body::Project => Vec::new(),
            Body::Service(body) => self
                .pods
                .get(&(order.namespace.clone(), body.object_name.clone()))
                .into_iter()
                .flatten()
                .filter_map(|key| self.get(key))
                .collect(),
        };
        let namespace = ResourceKey::new(Kind::Namespace, "", &order.namespace);
        let namespace_ending = self.objects.get(&namespace).is_some_and(Packed::ends);
        // Many pods share a node, and each is opened once.
        let names: BTreeSet<&str> =
            pods.iter().filter_map(|pod: &Arc<Value>| pod["spec"]["nodeName"].as_str()).collect();
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

    /// The order's keys that no watch tells of and that were not read for a while.
    pub(crate) fn unread(&self, order: &Order, now: Duration) -> Vec<ResourceKey> {
        let goes = |key: &ResourceKey| self.objects.get(key).is_some_and(Packed::ends);
        let is_old = |key: &&ResourceKey| {
            goes(key) || self.read.get(*key).is_none_or(|read| now >= *read + READ_AGAIN)
        };
        let unwatched = order.recorded.keys().filter(|key| Kind::READ.contains(&key.kind));
        unwatched.filter(is_old).cloned().collect()
    }

    /// Everything that no watch tells of and that stands here.
    pub(crate) fn unwatched(&self) -> Vec<ResourceKey> {
        self.objects.keys().filter(|key| Kind::READ.contains(&key.kind)).cloned().collect()
    }

    /// Takes note that a key that no watch tells of was read now.
    pub(crate) fn was_read(&mut self, key: &ResourceKey, now: Duration) {
        self.read.insert(key.clone(), now);
    }

    /// What no watch tells of is read again for this order.
    pub(crate) fn read_again(&mut self, order: &Order) {
        self.read.retain(|key, _| !order.recorded.contains_key(key));
    }

    /// After a break, whatever was read before it is read again.
    pub(crate) fn read_all_again(&mut self) {
        self.read.clear();
    }

    /// What is known to stand at a key.
    pub(crate) fn get(&self, key: &ResourceKey) -> Option<Arc<Value>> {
        self.objects.get(key).map(|packed| Arc::new(packed.open()))
    }

    /// An object is there, as a watch or a write's answer says.
    pub(crate) fn present(&mut self, kind: Kind, mut object: Value) -> Option<Unit> {
        compact(kind, &mut object);
        let key = key_of(kind, &object);
        let at = version(&object);
        let known = self.objects.get(&key).map(Packed::version);
        let grave = self.graves.get(&key).copied();
        // A delete has a version of its own. At the very version of its grave, an object only left the
        // watch, because somebody took our label off it, and a read found it.
        if known.is_some_and(|known| known > at) || grave.is_some_and(|grave| grave > at) {
            return None;
        }
        let unit = self.unit_of(kind, &object);
        if let Some(label) = pod_label(kind, &object) {
            self.pods.entry(label).or_default().insert(key.clone());
        }
        self.objects.insert(key, Packed::new(kind, &object));
        // The echo of our own write, or of a read: whoever brought it has looked at it.
        unit.filter(|_| known != Some(at))
    }

    /// Which objects of a kind are not as a list of versions says. Watches may be a moment behind, so
    /// this is a question and no finding: a read answers it.
    pub(crate) fn odd(&self, kind: Kind, list: &List) -> Vec<ResourceKey> {
        let at: u64 = list.version.parse().unwrap_or(0);
        let listed: HashMap<ResourceKey, u64> =
            list.objects.iter().map(|object| (key_of(kind, object), version(object))).collect();
        let lacking = self
            .objects
            .iter()
            .filter(|(key, known)| key.kind == kind && known.version() <= at)
            .filter(|(key, known)| !listed.contains_key(*key) && known.watched())
            .map(|(key, _)| key.clone());
        let newer = listed.iter().filter(|(key, seen)| {
            let known = self.objects.get(*key).map(Packed::version);
            known.or_else(|| self.graves.get(*key).copied()).is_none_or(|known| known < **seen)
        });
        lacking.chain(newer.map(|(key, _)| key.clone())).collect()
    }

    /// An object is gone, as a watch says.
    pub(crate) fn gone(&mut self, kind: Kind, object: &Value) -> Option<Unit> {
        let key = key_of(kind, object);
        let at = version(object);
        if self.objects.get(&key).is_some_and(|known| known.version() > at) {
            return None;
        }
        self.came_to(kind, at);
        if self.graves.len() >= GRAVES {
            let mut ends: Vec<u64> = self.graves.values().copied().collect();
            ends.sort_unstable();
            let recent = ends[ends.len() / 2];
            self.graves.retain(|_, end| *end >= recent);
        }
        self.graves.insert(key.clone(), at);
        self.note_end(kind, object);
        self.forget(&key)
    }

    /// Remembers a pod whose processes were not seen to end before it went.
    fn note_end(&mut self, kind: Kind, last: &Value) {
        let Some(label) = pod_label(kind, last) else { return };
        let node = last["spec"]["nodeName"].as_str().unwrap_or_default();
        let node = self.get(&ResourceKey::new(Kind::Node, "", node));
        if let Some(pod) = lost(last, node.as_deref()) {
            let pods = self.lost.entry(label).or_default();
            if pods.len() < LOST && pods.iter().all(|known| known.uid != pod.uid) {
                pods.push(pod);
            }
        }
    }

    /// The pods of this order's unit whose processes were not seen to end.
    pub(crate) fn lost_pods(&self, order: &Order) -> Vec<LostPod> {
        pods_of(order).and_then(|label| self.lost.get(&label).cloned()).unwrap_or_default()
    }

    /// Forgets the pods of a unit that is gone for good.
    pub(crate) fn retire(&mut self, order: &Order) {
        if let Some(label) = pods_of(order) {
            self.lost.remove(&label);
            self.pod_owners.remove(&label);
        }
    }

    /// A read found nothing under this key.
    pub(crate) fn forget(&mut self, key: &ResourceKey) -> Option<Unit> {
        let known = self.objects.remove(key)?.open();
        if let Some(label) = pod_label(key.kind, &known)
            && let Some(pods) = self.pods.get_mut(&label)
        {
            pods.remove(key);
        }
        self.unit_of(key.kind, &known)
    }

    /// Drops what stands at the order's keys without our label: watches do not tell of such objects,
    /// so whatever a read once found there must be read again.
    pub(crate) fn forget_unwatched(&mut self, order: &Order) {
        for key in order.recorded.keys() {
            if self.objects.get(key).is_some_and(|object| !object.watched()) {
                self.objects.remove(key);
            }
        }
    }

    /// The server took our delete: until a watch says more, the object counts as terminating.
    pub(crate) fn terminating(&mut self, key: &ResourceKey, uid: &str) {
        let Some(known) = self.objects.get_mut(key).filter(|known| !known.ends()) else { return };
        let mut object = known.open();
        if object["metadata"]["uid"] == uid {
            object["metadata"]["deletionTimestamp"] = Value::String("now".to_owned());
            *known = Packed::new(key.kind, &object);
        }
    }

    /// Whether a list can be believed. One that is older than what the watch of its kind already said
    /// comes from a server that lags behind, or from a store that was put back: what it shows may be
    /// long gone, and what it lacks may be there.
    pub(crate) fn check_age(&self, kind: Kind, list: &List) -> Result<(), CallError> {
        let at: u64 = list.version.parse().unwrap_or(0);
        match self.heard.get(&kind) {
            Some(heard) if *heard > at => Err(CallError::Server(format!(
                "it lists {kind} as of version {at}, and {heard} was seen already; if etcd was restored, \
                 restart Trueup"
            ))),
            Some(_) | None => Ok(()),
        }
    }

    /// The watch of a kind has come this far.
    pub(crate) fn heard_of(&mut self, kind: Kind, version: &str) {
        self.came_to(kind, version.parse().unwrap_or(0));
    }

    fn came_to(&mut self, kind: Kind, version: u64) {
        let heard = self.heard.entry(kind).or_default();
        *heard = version.max(*heard);
    }

    /// A whole set: what it lacks is gone, unless we wrote it after the set was made.
    pub(crate) fn replace(&mut self, kind: Kind, list: List) -> BTreeSet<Unit> {
        let at: u64 = list.version.parse().unwrap_or(0);
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
                self.note_end(kind, &last);
            }
        }
        let mut touched: BTreeSet<Unit> =
            vanished.iter().filter_map(|key| self.forget(key)).collect();
        touched.extend(list.objects.into_iter().filter_map(|object| self.present(kind, object)));
        self.listed.insert(kind);
        self.came_to(kind, at);
        self.missing.remove(&kind);
        touched
    }

    /// The units that have a pod on a node.
    pub(crate) fn units_on(&self, node: &str) -> BTreeSet<Unit> {
        let there = |key: &&ResourceKey| self.objects.get(*key).is_some_and(|pod| pod.is_on(node));
        self.pods
            .iter()
            .filter(|(_, pods)| pods.iter().any(|key| there(&key)))
            .filter_map(|(label, _)| self.pod_owners.get(label).copied())
            .collect()
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

/// The namespace and name that an order's pods carry.
fn pods_of(order: &Order) -> Option<(String, String)> {
    match &order.body {
        Body::Project => None,
        Body::Service(body) => Some((order.namespace.clone(), body.object_name.clone())),
    }
}

fn pod_label(kind: Kind, object: &Value) -> Option<(String, String)> {
    let metadata = &object["metadata"];
    let name = metadata["labels"][names::POD_LABEL].as_str().filter(|_| kind == Kind::Pod)?;
    Some((metadata["namespace"].as_str().unwrap_or_default().to_owned(), name.to_owned()))
}

fn key_of(kind: Kind, object: &Value) -> ResourceKey {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    ResourceKey::new(kind, text("namespace"), text("name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(name: &str, version: u64) -> Value {
        json!({"metadata": {"namespace": "n", "name": name, "uid": "u", "resourceVersion": version.to_string()}})
    }

    fn version_of(cache: &Cache, name: &str) -> Option<u64> {
        cache.objects.get(&ResourceKey::new(Kind::ConfigMap, "n", name)).map(Packed::version)
    }

    #[test]
    fn an_older_event_never_undoes_a_newer_write() {
        let mut cache = Cache::default();
        cache.present(Kind::ConfigMap, config("a", 7));
        cache.present(Kind::ConfigMap, config("a", 5));
        assert_eq!(version_of(&cache, "a"), Some(7));
        cache.gone(Kind::ConfigMap, &config("a", 6));
        assert_eq!(version_of(&cache, "a"), Some(7));
        cache.gone(Kind::ConfigMap, &config("a", 8));
        assert_eq!(version_of(&cache, "a"), None);
    }

    #[test]
    fn an_answer_that_comes_after_the_end_does_not_raise_the_dead() {
        let mut cache = Cache::default();
        cache.present(Kind::ConfigMap, config("a", 7));
        cache.gone(Kind::ConfigMap, &config("a", 9));
        cache.present(Kind::ConfigMap, config("a", 8));
        assert_eq!(version_of(&cache, "a"), None);
        cache.present(Kind::ConfigMap, config("a", 10));
        assert_eq!(version_of(&cache, "a"), Some(10));
    }

    #[test]
    fn f46_what_only_lost_its_label_is_found_again_by_a_read() {
        let mut cache = Cache::default();
        cache.present(Kind::ConfigMap, config("a", 7));
        cache.gone(Kind::ConfigMap, &config("a", 9));
        cache.present(Kind::ConfigMap, config("a", 9));
        assert_eq!(version_of(&cache, "a"), Some(9));
    }

    #[test]
    fn a_list_removes_what_it_lacks_but_not_what_is_newer_than_it() {
        let mut cache = Cache::default();
        cache.present(Kind::ConfigMap, config("old", 3));
        cache.present(Kind::ConfigMap, config("ours", 12));
        let list = List { objects: vec![config("listed", 9)], version: "10".to_owned() };
        cache.replace(Kind::ConfigMap, list);
        assert_eq!(version_of(&cache, "old"), None);
        assert_eq!(version_of(&cache, "ours"), Some(12));
        assert_eq!(version_of(&cache, "listed"), Some(9));
    }

    #[test]
    fn f36_a_list_older_than_what_was_seen_is_not_believed() {
        let mut cache = Cache::default();
        let list = |version: &str, objects| List { objects, version: version.to_owned() };
        cache.replace(Kind::ConfigMap, list("10", vec![config("a", 9)]));
        cache.present(Kind::ConfigMap, config("b", 12));
        cache.gone(Kind::ConfigMap, &config("a", 13));
        let stale = list("11", vec![config("a", 9)]);
        assert!(cache.check_age(Kind::ConfigMap, &stale).is_err());
        assert!(cache.check_age(Kind::Secret, &stale).is_ok(), "each kind has a watch of its own");
        assert!(cache.check_age(Kind::ConfigMap, &list("13", Vec::new())).is_ok());
        cache.heard_of(Kind::ConfigMap, "20");
        assert!(cache.check_age(Kind::ConfigMap, &list("19", Vec::new())).is_err());
    }

    #[test]
    fn what_a_watch_missed_is_found_by_versions_alone() {
        let ours = |name: &str, version| {
            let mut object = config(name, version);
            object["metadata"]["labels"] = json!({ names::MANAGED_BY: names::MANAGER });
            object
        };
        let mut cache = Cache::default();
        for (name, version) in [("same", 3), ("changed", 4), ("gone", 5), ("written", 30)] {
            cache.present(Kind::ConfigMap, ours(name, version));
        }
        cache.gone(Kind::ConfigMap, &ours("dead", 8));
        let objects = vec![ours("same", 3), ours("changed", 9), ours("new", 6), ours("dead", 7)];
        let list = List { objects, version: "20".to_owned() };
        let mut odd: Vec<String> =
            cache.odd(Kind::ConfigMap, &list).into_iter().map(|key| key.name).collect();
        odd.sort();
        assert_eq!(odd, ["changed", "gone", "new"]);
    }

    #[test]
    fn f37_our_own_write_is_not_undone_by_a_list_from_before_it() {
        let mut cache = Cache::default();
        cache.replace(Kind::ConfigMap, List { objects: Vec::new(), version: "10".to_owned() });
        cache.present(Kind::ConfigMap, config("ours", 12));
        cache.replace(Kind::ConfigMap, List { objects: Vec::new(), version: "11".to_owned() });
        assert_eq!(version_of(&cache, "ours"), Some(12));
    }

    #[test]
    fn many_graves_do_not_open_the_newest() {
        let mut cache = Cache::default();
        for n in 0..=u64::try_from(GRAVES).unwrap() {
            cache.gone(Kind::ConfigMap, &config(&format!("c{n}"), 100 + n));
        }
        assert!(cache.graves.len() <= GRAVES);
        let last = format!("c{GRAVES}");
        cache.present(Kind::ConfigMap, config(&last, 50));
        assert_eq!(version_of(&cache, &last), None);
    }
}
