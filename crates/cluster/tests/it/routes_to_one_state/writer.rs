//! A writer outside of Trueup, on either cluster.

use serde_json::Value;
use trueup_model::key::ResourceKey;
use trueup_testkit::fake_cluster::FakeCluster;

use crate::pains::outside::Outside;

#[derive(Clone)]
pub(crate) enum Writer {
    Fake(FakeCluster),
    Real(Outside),
}

impl Writer {
    pub(crate) async fn get(&self, key: &ResourceKey) -> Option<Value> {
        match self {
            Self::Fake(fake) => fake.find(key),
            Self::Real(outside) => outside.get(key).await,
        }
    }

    /// A strategic merge patch.
    pub(crate) async fn patch(&self, key: &ResourceKey, patch: &Value) {
        match self {
            Self::Fake(fake) => fake.edit(key, |live| merge(live, patch)),
            Self::Real(outside) => _ = outside.patch(key, patch).await,
        }
    }

    pub(crate) async fn delete(&self, key: &ResourceKey) {
        match self {
            Self::Fake(fake) => fake.remove(key),
            Self::Real(outside) => outside.delete(key).await,
        }
    }
}

/// Null removes a field, and entries of lists are found by their names.
fn merge(live: &mut Value, patch: &Value) {
    match (live, patch) {
        (Value::Object(live), Value::Object(patch)) => {
            for (name, value) in patch {
                if value.is_null() {
                    live.remove(name);
                } else {
                    merge(live.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        (Value::Array(live), Value::Array(patch)) => {
            for entry in patch {
                match live.iter_mut().find(|other| other["name"] == entry["name"]) {
                    Some(same) => merge(same, entry),
                    None => live.push(entry.clone()),
                }
            }
        }
        (live, patch) => *live = patch.clone(),
    }
}
