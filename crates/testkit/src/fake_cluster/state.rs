//! Objects, versions and history, as in etcd and the storage layer of an API server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use trueup_cluster::{CallError, List, Scope, WatchEvent};
use trueup_model::key::{Kind, ResourceKey};

use super::managers::Managers;
use super::{apply, fill_defaults, jobs, pods};

/// The start of time in a fake cluster; each version adds one second.
const EPOCH: i64 = 1_893_456_000;

/// The finalizer of every claim: blocks its deletion while a pod uses it.
pub(super) const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";

/// How often a key was created and deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// The number of creations.
    pub creates: u32,
    /// The number of deletions that completed.
    pub deletes: u32,
}

/// A change to an object.
#[derive(Debug, Clone)]
pub(super) struct StoredChange {
    version: u64,
    pub(super) key: ResourceKey,
    before: Option<Arc<Value>>,
    /// The object after the change, or its last state if it is gone.
    pub(super) object: Arc<Value>,
    pub(super) gone: bool,
}

type Webhook = dyn Fn(&ResourceKey, &mut Value) -> Result<(), CallError> + Send + Sync;

/// An admission webhook, which may change or refuse a written object.
#[derive(Default, Clone)]
pub(super) struct Admission(pub(super) Option<Arc<Webhook>>);

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Admission(…)" } else { "Admission" })
    }
}

impl Admission {
    pub(super) fn admit(&self, key: &ResourceKey, object: &mut Value) -> Result<(), CallError> {
        self.0.as_ref().map_or(Ok(()), |webhook| webhook(key, object))
    }
}

#[derive(Debug, Clone)]
struct Stored {
    object: Arc<Value>,
    /// What our field manager owns: the last applied object without fields that others took over.
    applied: Option<Value>,
    /// The fields that other writers own.
    others: Managers,
}

#[derive(Debug, Default, Clone)]
pub(super) struct State {
    objects: BTreeMap<ResourceKey, Stored>,
    /// Keys by owner uid.
    children: BTreeMap<String, BTreeSet<ResourceKey>>,
    history: Vec<StoredChange>,
    /// Changes that the controllers have not processed.
    pub(super) unseen: VecDeque<StoredChange>,
    version: u64,
    compacted: u64,
    last_uid: u64,
    counts: BTreeMap<ResourceKey, Count>,
    /// An API group whose server is unavailable.
    pub(super) broken_group: Option<String>,
    /// Runs on every write before it is stored.
    pub(super) admission: Admission,
    /// Warning events.
    pub(super) warnings: Vec<Value>,
    /// The current writer, if `managedFields` should name it.
    writer: Option<&'static str>,
}

impl State {
    pub(super) fn get(&self, key: &ResourceKey) -> Option<&Value> {
        self.objects.get(key).map(|stored| &*stored.object)
    }

    pub(super) fn applied(&self, key: &ResourceKey) -> Option<&Value> {
        self.objects.get(key).and_then(|stored| stored.applied.as_ref())
    }

    pub(super) fn list(&self, kind: Kind, scope: Scope) -> List {
        let objects = self
            .of_kind(kind)
            .filter(|(_, object)| scope == Scope::All || is_ours(kind, object))
            .map(|(_, object)| object.clone())
            .collect();
        List { objects, version: self.version.to_string() }
    }

    /// Our objects of a kind at an earlier version, as far as history goes back.
    pub(super) fn list_at(&self, kind: Kind, version: u64) -> List {
        let mut objects: BTreeMap<&ResourceKey, &Value> = self.of_kind(kind).collect();
        let later = self.history.iter().rev().take_while(|change| change.version > version);
        for change in later.filter(|change| change.key.kind == kind) {
            match &change.before {
                Some(before) => objects.insert(&change.key, before),
                None => objects.remove(&change.key),
            };
        }
        let ours = objects.into_values().filter(|object| is_ours(kind, object)).cloned().collect();
        List { objects: ours, version: version.to_string() }
    }

    pub(super) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&ResourceKey, &Value)> {
        let first = ResourceKey { kind, namespace: String::new(), name: String::new() };
        self.objects
            .range(first..)
            .take_while(move |(key, _)| key.kind == kind)
            .map(|(key, stored)| (key, &*stored.object))
    }

    pub(super) fn in_namespace(
        &self,
        kind: Kind,
        namespace: &str,
    ) -> impl Iterator<Item = (&ResourceKey, &Value)> {
        let first = ResourceKey { kind, namespace: namespace.to_owned(), name: String::new() };
        let namespace = namespace.to_owned();
        self.objects
            .range(first..)
            .take_while(move |(key, _)| key.kind == kind && key.namespace == namespace)
            .map(|(key, stored)| (key, &*stored.object))
    }

    /// Queues every namespace for the controllers.
    pub(super) fn revisit_namespaces(&mut self) {
        let keys: Vec<ResourceKey> =
            self.of_kind(Kind::Namespace).map(|(key, _)| key.clone()).collect();
        for key in keys {
            if let Some(object) = self.objects.get(&key).map(|stored| Arc::clone(&stored.object)) {
                let (version, before) = (self.version, Some(Arc::clone(&object)));
                self.unseen.push_back(StoredChange { version, key, before, object, gone: false });
            }
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&ResourceKey, &Value)> {
        self.objects.iter().map(|(key, stored)| (key, &*stored.object))
    }

    pub(super) fn children_of(&self, uid: &str) -> Vec<ResourceKey> {
        self.children.get(uid).map(|keys| keys.iter().cloned().collect()).unwrap_or_default()
    }

    pub(super) const fn counts(&self) -> &BTreeMap<ResourceKey, Count> {
        &self.counts
    }

    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    pub(super) const fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn compact(&mut self) {
        // A new version, so that even the newest list is too old to watch from.
        self.version += 1;
        self.compacted = self.version;
        self.history.clear();
    }

    /// The first event after a version for a watch of our objects of this kind.
    pub(super) fn after(&self, kind: Kind, version: u64) -> Option<(WatchEvent, u64)> {
        let start = self.history.partition_point(|change| change.version <= version);
        self.history[start..]
            .iter()
            .filter(|change| change.key.kind == kind)
            .find_map(|change| change.watch_event().map(|event| (event, change.version)))
    }

    /// Stores an object and returns whether it changed; an unchanged object keeps its version.
    ///
    /// `applied` is what our field manager owns from now on.
    pub(super) fn put(
        &mut self,
        key: &ResourceKey,
        mut object: Value,
        applied: Option<Value>,
    ) -> bool {
        drop_empty(&mut object, "finalizers");
        drop_empty(&mut object, "ownerReferences");
        fill_defaults(key.kind, &mut object);
        let before = self.objects.get(key).map(|stored| Arc::clone(&stored.object));
        let mut others = self.objects.get(key).map(|it| it.others.clone()).unwrap_or_default();
        match &before {
            Some(before) if **before == object => {
                if let Some(stored) = self.objects.get_mut(key) {
                    stored.applied = applied;
                }
                return false;
            }
            Some(before) => carry_over(key.kind, before, &mut object),
            None => self.initialise(key, &mut object),
        }
        others.note(before.as_deref(), &object, self.writer, &self.now());
        others.show(&mut object);
        if object.pointer("/metadata/deletionTimestamp").is_some() && !has_finalizers(&object) {
            self.objects.insert(key.clone(), Stored { object: Arc::new(object), applied, others });
            self.erase(key);
            return true;
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let object = Arc::new(object);
        if let Some(before) = &before {
            self.unlink(key, before);
        }
        for uid in owner_uids(&object) {
            self.children.entry(uid).or_default().insert(key.clone());
        }
        self.objects.insert(key.clone(), Stored { object: Arc::clone(&object), applied, others });
        self.record(StoredChange {
            version: self.version,
            key: key.clone(),
            before,
            object,
            gone: false,
        });
        true
    }

    /// Changes an object as another writer, who then owns the changed fields.
    pub(super) fn edit(&mut self, key: &ResourceKey, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(key).cloned().unwrap_or_else(|| skeleton(key));
        change(&mut object);
        let applied = self.applied(key).map(|applied| apply::still_ours(applied, &object));
        self.put(key, object, applied);
    }

    /// Like [`Self::edit`], by a writer that `managedFields` names.
    pub(super) fn edit_as(
        &mut self,
        writer: &'static str,
        key: &ResourceKey,
        change: impl FnOnce(&mut Value),
    ) {
        self.writer = Some(writer);
        self.edit(key, change);
        self.writer = None;
    }

    /// Emits a warning event about the object with this key, once per message.
    pub(super) fn warn(&mut self, key: &ResourceKey, reason: &str, message: &str, at: &str) {
        let uid = self.get(key).map(|object| object["metadata"]["uid"].clone());
        let event = json!({
            "type": "Warning", "reason": reason, "message": message,
            "involvedObject": { "uid": uid, "name": key.name, "namespace": key.namespace },
            "lastTimestamp": at,
        });
        let same = |it: &Value| {
            it["message"] == event["message"] && it["involvedObject"] == event["involvedObject"]
        };
        if !self.warnings.iter().any(same) {
            self.warnings.push(event);
        }
    }

    /// Deletes an object, or marks it as terminating while finalizers block that.
    pub(super) fn delete(&mut self, key: &ResourceKey) {
        let Some(object) = self.get(key) else { return };
        if !has_finalizers(object) {
            self.erase(key);
            return;
        }
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            return;
        }
        let now = self.now();
        self.edit(key, |object| {
            object["metadata"]["deletionTimestamp"] = now.into();
            if key.kind == Kind::Namespace {
                object["status"]["phase"] = "Terminating".into();
            }
        });
    }

    /// Removes all objects of a kind, regardless of finalizers.
    pub(super) fn clear(&mut self, kind: Kind) {
        let keys: Vec<ResourceKey> = self.of_kind(kind).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.erase(&key);
        }
    }

    fn erase(&mut self, key: &ResourceKey) {
        let Some(stored) = self.objects.remove(key) else {
            return;
        };
        self.unlink(key, &stored.object);
        self.version += 1;
        let mut last = (*stored.object).clone();
        last["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.counts.entry(key.clone()).or_default().deletes += 1;
        self.record(StoredChange {
            version: self.version,
            key: key.clone(),
            before: Some(stored.object),
            object: Arc::new(last),
            gone: true,
        });
    }

    fn record(&mut self, change: StoredChange) {
        self.unseen.push_back(change.clone());
        self.history.push(change);
    }

    fn unlink(&mut self, key: &ResourceKey, object: &Value) {
        for uid in owner_uids(object) {
            if let Some(keys) = self.children.get_mut(&uid) {
                keys.remove(key);
                if keys.is_empty() {
                    self.children.remove(&uid);
                }
            }
        }
    }

    /// Sets the fields that the server sets on creation.
    fn initialise(&mut self, key: &ResourceKey, object: &mut Value) {
        self.last_uid += 1;
        self.counts.entry(key.clone()).or_default().creates += 1;
        let metadata = &mut object["metadata"];
        metadata["name"] = key.name.as_str().into();
        if key.kind.is_namespaced() {
            metadata["namespace"] = key.namespace.as_str().into();
        }
        metadata["uid"] = format!("00000000-0000-4000-8000-{:012x}", self.last_uid).into();
        metadata["creationTimestamp"] = self.now().into();
        if has_generation(key.kind) {
            metadata["generation"] = 1.into();
        }
        match key.kind {
            Kind::Namespace => {
                metadata["labels"]["kubernetes.io/metadata.name"] = key.name.as_str().into();
                object["spec"]["finalizers"] = json!(["kubernetes"]);
                object["status"]["phase"] = "Active".into();
            }
            Kind::PersistentVolumeClaim => {
                let finalizers = &mut metadata["finalizers"];
                if !finalizers.is_array() {
                    *finalizers = json!([]);
                }
                if let Some(finalizers) = finalizers.as_array_mut() {
                    finalizers.push(CLAIM_PROTECTION.into());
                }
                object["status"]["phase"] = "Pending".into();
            }
            Kind::Job => jobs::select(object),
            Kind::Pod => pods::stamp(object),
            _ => {}
        }
    }

    pub(super) fn now(&self) -> String {
        let seconds = i64::try_from(self.version).unwrap_or_default();
        Timestamp::from_second(EPOCH + seconds).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
    }
}

impl StoredChange {
    /// The event for a watch of our objects: losing our label counts as gone.
    fn watch_event(&self) -> Option<WatchEvent> {
        let kind = self.key.kind;
        if !self.gone && is_ours(kind, &self.object) {
            return Some(WatchEvent::Present((*self.object).clone()));
        }
        let before = self.before.as_ref()?;
        is_ours(kind, before).then(|| WatchEvent::Gone((*self.object).clone()))
    }
}

/// Keeps the immutable metadata of an object; increments the generation if the spec changed.
fn carry_over(kind: Kind, before: &Value, object: &mut Value) {
    for field in ["name", "namespace", "uid", "creationTimestamp", "generation"] {
        if let Some(value) = before["metadata"].get(field) {
            object["metadata"][field] = value.clone();
        }
    }
    let moved = |place: &str| before.pointer(place) != object.pointer(place);
    // Old rollbacks were requested by annotations, so they still change a Deployment's generation.
    let annotated = kind == Kind::Deployment && moved("/metadata/annotations");
    if has_generation(kind) && (moved("/spec") || annotated) {
        let generation = before["metadata"]["generation"].as_u64().unwrap_or(1);
        object["metadata"]["generation"] = (generation + 1).into();
    }
}

/// Empty lists in the metadata are not stored.
fn drop_empty(object: &mut Value, field: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if metadata.get(field).and_then(Value::as_array).is_some_and(Vec::is_empty) {
        metadata.remove(field);
    }
}

const fn has_generation(kind: Kind) -> bool {
    kind.is_workload()
        || matches!(
            kind,
            Kind::NetworkPolicy
                | Kind::PodDisruptionBudget
                | Kind::Ingress
                | Kind::HttpRoute
                | Kind::Certificate
                | Kind::ServiceMonitor
        )
}

/// Whether finalizers block deletion; a namespace has one for its content.
fn has_finalizers(object: &Value) -> bool {
    ["/metadata/finalizers", "/spec/finalizers"].iter().any(|place| {
        object
            .pointer(place)
            .and_then(Value::as_array)
            .is_some_and(|finalizers| !finalizers.is_empty())
    })
}

fn is_ours(kind: Kind, object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    match kind {
        Kind::Pod => labels.get("trueup.dev/name").is_some(),
        // These carry no label of ours.
        Kind::PersistentVolume | Kind::Node => true,
        _ => labels["app.kubernetes.io/managed-by"] == "trueup",
    }
}

pub(super) fn owner_uids(object: &Value) -> Vec<String> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners
        .into_iter()
        .flatten()
        .filter_map(|owner| owner["uid"].as_str().map(str::to_owned))
        .collect()
}

fn skeleton(key: &ResourceKey) -> Value {
    json!({ "apiVersion": key.kind.api_version(), "kind": key.kind.as_str(), "metadata": { "name": key.name } })
}
