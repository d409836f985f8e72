//! The write verbs, with checks in the order of an API server.

use serde_json::{Map, Value, json};
use trueup_cluster::{CallError, Draft};
use trueup_model::key::{Kind, ResourceKey};

use super::state::State;
use super::{Verb, Write, apply, fill_defaults, validate};

/// The response of a write, and what it changed.
pub(super) type Written<T> = Result<(T, Option<Write>), CallError>;

impl State {
    pub(super) fn apply(&mut self, key: &ResourceKey, desired: &Value) -> Written<Value> {
        let mut desired = desired.clone();
        self.check_guards(key, &mut desired)?;
        validate::identity(key, &desired)?;
        if let Some(fields) = desired.as_object_mut() {
            // Status is a subresource, which this verb does not write.
            fields.remove("status");
        }
        let current = self.get(key);
        if current.is_none() {
            self.check_namespace(key)?;
        }
        let nothing = Value::Object(Map::new());
        let mut merged = apply::merge(current.unwrap_or(&nothing), self.applied(key), &desired);
        self.admission.admit(key, &mut merged)?;
        fill_defaults(key.kind, &mut merged);
        validate::object(key, &merged)?;
        if let Some(current) = current {
            validate::change(key, current, &merged)?;
        }
        Ok(self.store(Verb::Apply, key, merged, Some(desired)))
    }

    pub(super) fn patch(&mut self, key: &ResourceKey, patch: &Value) -> Written<Value> {
        let mut patch = patch.clone();
        self.check_guards(key, &mut patch)?;
        let Some(current) = self.get(key) else {
            return Err(CallError::Conflict(format!("{key} not found")));
        };
        let mut merged = current.clone();
        apply::merge_patch(&mut merged, &patch);
        self.admission.admit(key, &mut merged)?;
        fill_defaults(key.kind, &mut merged);
        validate::object(key, &merged)?;
        validate::change(key, current, &merged)?;
        let applied = self.applied(key).map(|applied| apply::still_ours(applied, &merged));
        Ok(self.store(Verb::Patch, key, merged, applied))
    }

    /// Writes to a copy of the state.
    ///
    /// The response carries the version of the stored object, or that of the draft if there is
    /// none.
    pub(super) fn dry_run(&self, key: &ResourceKey, draft: Draft<'_>) -> Result<Value, CallError> {
        let mut copy = self.clone();
        let (mut stored, _) = match draft {
            Draft::Apply(object) => copy.apply(key, object)?,
            Draft::Patch(patch) => copy.patch(key, patch)?,
        };
        let (Draft::Apply(sent) | Draft::Patch(sent)) = draft;
        let version = self.get(key).unwrap_or(sent)["metadata"].get("resourceVersion").cloned();
        if let Some(metadata) = stored.get_mut("metadata").and_then(Value::as_object_mut) {
            match version {
                Some(version) => metadata.insert("resourceVersion".to_owned(), version),
                None => metadata.remove("resourceVersion"),
            };
        }
        Ok(stored)
    }

    pub(super) fn guarded_delete(
        &mut self,
        key: &ResourceKey,
        uid: &str,
        version: &str,
    ) -> Written<()> {
        let before = self.version();
        if self.get(key).is_none() {
            return Ok(((), None));
        }
        let mut guards = json!({ "metadata": { "uid": uid, "resourceVersion": version } });
        self.check_guards(key, &mut guards)?;
        self.delete(key);
        let (key, uid) = (key.clone(), uid.to_owned());
        let write = Write { verb: Verb::Delete, key, uid, created: false, effective: true };
        Ok(((), (self.version() != before).then_some(write)))
    }

    fn store(
        &mut self,
        verb: Verb,
        key: &ResourceKey,
        object: Value,
        applied: Option<Value>,
    ) -> (Value, Option<Write>) {
        let created = self.get(key).is_none();
        let changed = self.put(key, object.clone(), applied);
        // The object is gone if its last finalizer was removed; the response still shows it.
        let stored = self.get(key).cloned().unwrap_or(object);
        let uid = stored["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let key = key.clone();
        let write = changed.then_some(Write { verb, key, uid, created, effective: true });
        (stored, write)
    }

    /// Removes the preconditions uid and version from a write and checks them.
    fn check_guards(&self, key: &ResourceKey, written: &mut Value) -> Result<(), CallError> {
        let Some(metadata) = written.get_mut("metadata").and_then(Value::as_object_mut) else {
            return Ok(());
        };
        for guard in ["uid", "resourceVersion"] {
            let Some(expected) = metadata.remove(guard).filter(|value| *value != "") else {
                continue;
            };
            let actual = self.get(key).map(|object| &object["metadata"][guard]);
            // For a missing object, the server ignores a version but not a uid.
            if actual.is_none() && guard == "resourceVersion" {
                continue;
            }
            if actual != Some(&expected) {
                return Err(CallError::Conflict(format!("the {guard} of {key} is not {expected}")));
            }
        }
        Ok(())
    }

    fn check_namespace(&self, key: &ResourceKey) -> Result<(), CallError> {
        if !key.kind.is_namespaced() {
            return Ok(());
        }
        let namespace = ResourceKey::new(Kind::Namespace, "", &key.namespace);
        match self.get(&namespace) {
            None => Err(CallError::Refused(format!("namespaces \"{}\" not found", key.namespace))),
            Some(found) if found.pointer("/metadata/deletionTimestamp").is_some() => {
                Err(CallError::Refused(format!(
                    "{key} is forbidden: unable to create new content in namespace {} because it is being terminated",
                    key.namespace
                )))
            }
            Some(_) => Ok(()),
        }
    }
}
