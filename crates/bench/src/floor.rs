//! The floor: the same work without Trueup, as a loop that applies, and one that watches and
//! applies.
//!
//! Both use the same client, so the difference is what Trueup adds: releases, proofs, comparisons,
//! records. Owners and finalizers are left out of the floor's objects, because a loop that waits
//! for nothing does not know the owners' uids.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use serde_json::Value;
use tokio::task::JoinSet;
use trueup_cluster::kube::Kube;
use trueup_cluster::{CallError, Cluster as _, Scope, WatchEvent};
use trueup_model::key::{Kind, ResourceKey};

use crate::watch::{KINDS, follow, key_of, text};

/// How many writes are in flight at once: as many as an executor runs passes.
const WIDTH: usize = 32;
/// Kinds of project objects, so that the floor's namespaces cost the API server as much as ours.
const SURROUNDINGS: [Kind; 6] = [
    Kind::Namespace,
    Kind::ResourceQuota,
    Kind::LimitRange,
    Kind::NetworkPolicy,
    Kind::ServiceAccount,
    Kind::RoleBinding,
];

/// Objects as they were written, without fields that the server added.
pub(crate) struct Objects {
    surroundings: Vec<(ResourceKey, Value)>,
    /// Objects of services.
    pub(crate) services: Vec<(ResourceKey, Value)>,
}

impl Objects {
    /// Everything that Trueup wrote to a cluster.
    pub(crate) async fn of(kube: &Kube) -> anyhow::Result<Self> {
        let (mut surroundings, mut services) = (Vec::new(), Vec::new());
        for kind in SURROUNDINGS {
            surroundings.extend(written(kube, kind).await?);
        }
        for kind in KINDS {
            services.extend(written(kube, kind).await?);
        }
        // Service by service, as Trueup writes them, so that controllers are as busy.
        services.sort_by_cached_key(|(key, object)| {
            (text(&object["metadata"]["labels"]["trueup.dev/service-id"]), key.kind)
        });
        Ok(Self { surroundings, services })
    }

    /// Applies the project objects; this is not measured.
    pub(crate) async fn apply_surroundings(&self, kube: &Kube) -> anyhow::Result<()> {
        for (key, object) in &self.surroundings {
            kube.apply(key, object).await?;
        }
        Ok(())
    }

    /// Applies all objects of services; returns how long each write took.
    pub(crate) async fn apply(&self, kube: &Kube) -> anyhow::Result<Vec<Duration>> {
        let writes = self.services.iter().map(|(key, object)| async move {
            let began = Instant::now();
            kube.apply(key, object).await?;
            Ok::<_, CallError>(began.elapsed())
        });
        let answers: Vec<_> = stream::iter(writes).buffer_unordered(WIDTH).collect().await;
        Ok(answers.into_iter().collect::<Result<_, _>>()?)
    }
}

async fn written(kube: &Kube, kind: Kind) -> anyhow::Result<Vec<(ResourceKey, Value)>> {
    let list = kube.list(kind, Scope::Ours).await?;
    Ok(list.objects.into_iter().map(|object| (key_of(kind, &object), stripped(object))).collect())
}

/// An object without fields that a server adds.
fn stripped(mut object: Value) -> Value {
    let added = [
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "selfLink",
        "ownerReferences",
        "finalizers",
    ];
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, _| !added.contains(&name.as_str()));
    }
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            spec.retain(|name, _| !["clusterIP", "clusterIPs"].contains(&name.as_str()));
        }
    }
    object
}

/// Applies deleted objects again, without any comparison.
pub(crate) async fn reapply_deleted(kube: &Kube, objects: Objects) -> anyhow::Result<JoinSet<()>> {
    let objects: Arc<HashMap<ResourceKey, Value>> =
        Arc::new(objects.services.into_iter().collect());
    let mut loops = JoinSet::new();
    for kind in KINDS {
        let from = kube.list(kind, Scope::Ours).await?.version;
        let (kube, objects) = (kube.clone(), Arc::clone(&objects));
        loops.spawn(async move {
            let (gone_in, mut gone) = tokio::sync::mpsc::unbounded_channel();
            let watch = follow(&kube, kind, from, |event| {
                if let WatchEvent::Gone(object) = event {
                    // The receiver lives as long as this watch.
                    let _closed = gone_in.send(key_of(kind, &object));
                }
            });
            let apply = async {
                while let Some(key) = gone.recv().await {
                    if let Some(object) = objects.get(&key) {
                        // A failure shows as a repair that times out.
                        let _ignored = kube.apply(&key, object).await;
                    }
                }
            };
            tokio::join!(watch, apply);
        });
    }
    Ok(loops)
}
