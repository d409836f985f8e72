//! The patch that removes foreign values from closed paths.

use serde_json::Value;

use super::{Fix, Found, NOTHING};
use crate::compare::edit;
use crate::compare::path::PathSegment;

impl Found<'_> {
    /// A merge patch that removes all of them, guarded by the uid and version that was compared.
    pub(crate) fn patch(&self) -> Value {
        let mut fixed = self.live.clone();
        // Backwards: children before parents and the last entry first, so that list indexes stay
        // valid.
        for foreign in self.all.iter().rev() {
            match &foreign.fix {
                Fix::Set(value) => edit::set(&mut fixed, &foreign.steps, value.as_ref()),
                Fix::Drop(missing) => drop_entry(&mut fixed, &foreign.steps, missing),
            }
        }
        let mut patch = merge_patch(self.live, &fixed);
        edit::guard(&mut patch, self.live);
        patch
    }
}

/// Drops an entry from its list, and adds those of ours that the list lacks.
fn drop_entry(object: &mut Value, steps: &[PathSegment<'_>], missing: &[Value]) {
    let Some((_, parents)) = steps.split_last() else { return };
    if let Some(Value::Array(list)) = edit::at(object, parents) {
        let lacking = missing.iter().filter(|one| !list.contains(one)).cloned();
        let lacking: Vec<Value> = lacking.collect();
        list.extend(lacking);
    }
    edit::set(object, steps, None);
}

/// The merge patch (RFC 7386) that turns one value into the other.
fn merge_patch(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let gone = from.keys().filter(|name| !to.contains_key(*name)).map(|name| (name, Value::Null));
    let changed = to
        .iter()
        .filter(|(name, value)| from.get(*name) != Some(value))
        .map(|(name, value)| (name, merge_patch(from.get(name).unwrap_or(NOTHING), value)));
    Value::Object(gone.chain(changed).map(|(name, value)| (name.clone(), value)).collect())
}
