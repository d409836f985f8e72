//! The same work without Trueup: a bare loop that applies, and one that watches and applies.
//!
//! They speak to the API server with the same client, so the difference is what Trueup adds: promises,
//! proofs, comparisons, records. Owners and finalizers are left out of the floor's objects, because a
//! loop that waits for nothing could not name them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use serde_json::Value;
use tokio::task::JoinSet;
use trueup_cluster::kube::Kube;
use trueup_cluster::{CallError, Cluster as _, Scope, WatchEvent};
use trueup_model::key::{Kind, ResourceKey};

use crate::sight::{KINDS, follow, key_of, text};

/// How many writes are under way at once: as many as an executor works on units.
const WIDE: usize = 32;
/// What stands around services: the floor's namespaces cost the API server as much as ours.
const AROUND: [Kind; 6] = [
    Kind::Namespace,
    Kind::ResourceQuota,
    Kind::LimitRange,
    Kind::NetworkPolicy,
    Kind::ServiceAccount,
    Kind::RoleBinding,
];

/// Objects as they were written, before the server added to them.
pub(crate) struct Objects {
    around: Vec<(ResourceKey, Value)>,
    /// Those of services.
    pub(crate) services: Vec<(ResourceKey, Value)>,
}

impl Objects {
    /// Everything that Trueup wrote to a cluster.
    pub(crate) async fn of(kube: &Kube) -> anyhow::Result<Self> {
        let (mut around, mut services) = (Vec::new(), Vec::new());
        for kind in AROUND {
            around.extend(written(kube, kind).await?);
        }
        for kind in KINDS {
            services.extend(written(kube, kind).await?);
        }
        // Service by service, as Trueup writes them: controllers are as busy meanwhile.
        services.sort_by_cached_key(|(key, object)| {
            (text(&object["metadata"]["labels"]["trueup.dev/service-id"]), key.kind)
        });
        Ok(Self { around, services })
    }

    /// Makes what stands around the services; that is not measured.
    pub(crate) async fn lay_out(&self, kube: &Kube) -> anyhow::Result<()> {
        for (key, object) in &self.around {
            kube.apply(key, object).await?;
        }
        Ok(())
    }

    /// Applies everything of the services; answers how long each write took.
    pub(crate) async fn apply(&self, kube: &Kube) -> anyhow::Result<Vec<Duration>> {
        let writes = self.services.iter().map(|(key, object)| async move {
            let began = Instant::now();
            kube.apply(key, object).await?;
            Ok::<_, CallError>(began.elapsed())
        });
        let answers: Vec<_> = stream::iter(writes).buffer_unordered(WIDE).collect().await;
        Ok(answers.into_iter().collect::<Result<_, _>>()?)
    }
}

async fn written(kube: &Kube, kind: Kind) -> anyhow::Result<Vec<(ResourceKey, Value)>> {
    let list = kube.list(kind, Scope::Ours).await?;
    Ok(list.objects.into_iter().map(|object| (key_of(kind, &object), stripped(object))).collect())
}

/// An object without what a server adds.
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

/// Applies again what goes, and compares nothing: the least that repairs.
pub(crate) async fn mend(kube: &Kube, objects: Objects) -> anyhow::Result<JoinSet<()>> {
    let objects: Arc<HashMap<ResourceKey, Value>> =
        Arc::new(objects.services.into_iter().collect());
    let mut loops = JoinSet::new();
    for kind in KINDS {
        let from = kube.list(kind, Scope::Ours).await?.version;
        let (kube, objects) = (kube.clone(), Arc::clone(&objects));
        loops.spawn(async move {
            let (gone_in, mut gone) = tokio::sync::mpsc::unbounded_channel();
            let watch = follow(&kube, kind, from, |heard| {
                if let WatchEvent::Gone(object) = heard {
                    // The other half of this loop lives as long as this one.
                    let _over = gone_in.send(key_of(kind, &object));
                }
            });
            let apply = async {
                while let Some(key) = gone.recv().await {
                    if let Some(object) = objects.get(&key) {
                        // What fails here is missed below, and the bench says so.
                        let _missed = kube.apply(&key, object).await;
                    }
                }
            };
            tokio::join!(watch, apply);
        });
    }
    Ok(loops)
}
