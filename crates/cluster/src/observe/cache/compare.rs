//! Compares the cache with lists: which cached objects are stale, and whether a list itself is.

use std::collections::HashMap;

use serde_json::Value;
use trueup_model::key::{Kind, ResourceKey};

use super::Cache;
use crate::observe::packed::version;
use crate::verbs::{CallError, List};

impl Cache {
    /// Keys of a kind that differ from a list of versions. The watch may just be a moment behind,
    /// so the caller must read each of them.
    pub(crate) fn stale(&self, kind: Kind, list: &List) -> Vec<ResourceKey> {
        let at = version_of(list);
        let mut unknown = versions(list);
        let mut stale = Vec::new();
        for (key, known) in self.objects.iter().filter(|(key, _)| key.kind == kind) {
            let differs = match unknown.remove(&place_of(key)) {
                Some(listed) => known.version() < listed,
                None => known.watched() && known.version() <= at,
            };
            if differs {
                stale.push(key.clone());
            }
        }
        stale.extend(unknown.into_iter().filter_map(|((namespace, name), listed)| {
            let key = ResourceKey::new(kind, namespace, name);
            let is_dead = self.tombstones.get(&key).is_some_and(|end| *end >= listed);
            (!is_dead).then_some(key)
        }));
        stale
    }

    /// Cached keys of an unwatched kind that differ from a list of the versions in this namespace.
    /// What is not cached belongs to no order: the sweep reports it, and its value is not read.
    pub(crate) fn stale_in(&self, kind: Kind, namespace: &str, list: &List) -> Vec<ResourceKey> {
        let (at, listed) = (version_of(list), versions(list));
        self.objects
            .iter()
            .filter(|(key, _)| key.kind == kind && key.namespace == namespace)
            .filter(|(key, known)| match listed.get(&place_of(key)) {
                Some(listed) => known.version() < *listed,
                None => known.version() <= at,
            })
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Rejects a stale list.
    ///
    /// A list older than what the watch of its kind has reached comes from a lagging API server or
    /// a restored etcd: what it contains may be gone, and what it lacks may exist.
    pub(crate) fn check_age(&self, kind: Kind, list: &List) -> Result<(), CallError> {
        let at = version_of(list);
        match self.watched_to.get(&kind) {
            Some(reached) if *reached > at => Err(CallError::Server(format!(
                "stale list of {kind}: it is at version {at}, but {reached} was already seen; if \
                 etcd was restored, restart Trueup"
            ))),
            Some(_) | None => Ok(()),
        }
    }
}

/// The version of a list as a number.
pub(super) fn version_of(list: &List) -> u64 {
    list.version.parse().unwrap_or(0)
}

/// The versions of listed objects by namespace and name. Borrowed: a list may have tens of
/// thousands of objects.
fn versions(list: &List) -> HashMap<(&str, &str), u64> {
    list.objects.iter().map(|object| (place(object), version(object))).collect()
}

fn place(object: &Value) -> (&str, &str) {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

const fn place_of(key: &ResourceKey) -> (&str, &str) {
    (key.namespace.as_str(), key.name.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trueup_rules::render::names;

    use super::super::tests::config;
    use super::*;

    fn list(version: &str, objects: Vec<Value>) -> List {
        List { objects, version: version.to_owned() }
    }

    /// An object with our label, which watches report.
    fn ours(name: &str, version: u64) -> Value {
        let mut object = config(name, version);
        object["metadata"]["labels"] = json!({ names::MANAGED_BY: names::MANAGER });
        object
    }

    fn names_of(keys: Vec<ResourceKey>) -> Vec<String> {
        let mut names: Vec<String> = keys.into_iter().map(|key| key.name).collect();
        names.sort();
        names
    }

    #[test]
    fn f36_stale_list_is_rejected() {
        let mut cache = Cache::default();
        cache.replace(Kind::ConfigMap, list("10", vec![config("a", 9)]));
        cache.present(Kind::ConfigMap, config("b", 12));
        cache.gone(Kind::ConfigMap, &config("a", 13));
        let stale_list = list("11", vec![config("a", 9)]);
        assert!(cache.check_age(Kind::ConfigMap, &stale_list).is_err());
        assert!(
            cache.check_age(Kind::Secret, &stale_list).is_ok(),
            "each kind has a watch of its own"
        );
        assert!(cache.check_age(Kind::ConfigMap, &list("13", Vec::new())).is_ok());
        cache.watch_reached(Kind::ConfigMap, "20");
        assert!(cache.check_age(Kind::ConfigMap, &list("19", Vec::new())).is_err());
    }

    #[test]
    fn changes_missed_by_a_watch_are_found_by_version() {
        let mut cache = Cache::default();
        for (name, version) in [("same", 3), ("changed", 4), ("gone", 5), ("written", 30)] {
            cache.present(Kind::ConfigMap, ours(name, version));
        }
        // Without our label it is in no list, and no watch reports it.
        cache.present(Kind::ConfigMap, config("stripped", 5));
        cache.gone(Kind::ConfigMap, &ours("dead", 8));
        cache.gone(Kind::ConfigMap, &ours("back", 8));
        let objects = [("same", 3), ("changed", 9), ("new", 6), ("dead", 7), ("back", 10)];
        let objects = objects.map(|(name, version)| ours(name, version)).to_vec();
        let stale = cache.stale(Kind::ConfigMap, &list("20", objects));
        assert_eq!(names_of(stale), ["back", "changed", "gone", "new"]);
    }

    #[test]
    fn unwatched_kind_is_compared_in_its_namespace_and_only_where_it_is_cached() {
        let mut cache = Cache::default();
        for (name, version) in [("same", 3), ("changed", 4), ("gone", 5), ("written", 30)] {
            cache.present(Kind::Secret, ours(name, version));
        }
        let objects = [("same", 3), ("changed", 9), ("unknown", 6)];
        let objects = objects.map(|(name, version)| ours(name, version)).to_vec();
        let here = list("20", objects);
        assert_eq!(names_of(cache.stale_in(Kind::Secret, "n", &here)), ["changed", "gone"]);
        assert_eq!(cache.stale_in(Kind::Secret, "other", &here), Vec::<ResourceKey>::new());
    }
}
