//! Objects deleted by others, one at a time, among ten thousand that Trueup owns: how long until
//! each is recreated. The floor is a loop that applies what a watch reports as deleted.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use trueup_cluster::Cluster as _;
use trueup_cluster::kube::Kube;
use trueup_model::key::{Kind, ResourceKey};

use crate::floor::{Objects, reapply_deleted};
use crate::install::{Cluster, Install};
use crate::load::{Made, declare, projects};
use crate::table::{Row, percentile};
use crate::usage::{cpu_seconds, memory_mb};
use crate::watch::{Appearance, KINDS, appearances, text};

const SERVICES: usize = 2500;
const DELETES: usize = 300;
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn run() -> anyhow::Result<Vec<Row>> {
    let cluster = Cluster::start("repair").await?;
    let install = Install::start("repair", &cluster).await?;
    projects(&install, SERVICES).await?;
    declare(&install.client, Made::Addressed, 0..SERVICES).await?;
    install.quiet().await?;
    let objects = Objects::of(&cluster.kube).await?;
    ensure!(objects.services.len() == 4 * SERVICES, "{} objects", objects.services.len());

    let before = cpu_seconds(install.pid)?;
    let targets = targets(&objects);
    let mut ours = delete_each(&cluster.kube, &targets).await?;
    let cpu = cpu_seconds(install.pid)? - before;
    let memory = memory_mb(install.pid)?.1;
    install.quiet().await?;
    install.stop().await?;

    let mut floor = {
        let _loops = reapply_deleted(&cluster.kube, objects).await?;
        delete_each(&cluster.kube, &targets).await?
    };
    cluster.stop().await?;
    let [ours_p99, floor_p99] = [percentile(&mut ours, 99), percentile(&mut floor, 99)];
    let row = Row {
        wanted: "≤ 2, and p99 < 100 ms",
        cpu_s: Some(cpu),
        rss_mb: Some(memory),
        note: format!("p99; p50 of the floor {:.1} ms", percentile(&mut floor, 50)),
        ..Row::beside("repair, one of 10,000 objects", "ms", ours_p99, floor_p99)
    };
    Ok(vec![row.with_times(&mut ours)])
}

/// Objects to delete: of each kind in turn, spread over all services. Anchors are left out: their
/// finalizer keeps them until the next one has replaced them, so they are never gone.
fn targets(objects: &Objects) -> Vec<ResourceKey> {
    let of = |kind: Kind| -> Vec<&ResourceKey> {
        let keys = objects.services.iter().map(|(key, _)| key);
        keys.filter(|key| key.kind == kind && !key.name.contains("-anchor-")).collect()
    };
    let kinds = KINDS.map(of);
    (0..DELETES)
        .filter_map(|number| {
            let keys = kinds.get(number % kinds.len())?;
            keys.get(number * 7919 % keys.len()).map(|key| (*key).clone())
        })
        .collect()
}

/// Deletes these, one after the other; returns how long each was gone after its delete returned.
async fn delete_each(kube: &Kube, keys: &[ResourceKey]) -> anyhow::Result<Vec<Duration>> {
    let mut watches = JoinSet::new();
    let mut appeared = appearances(kube, &mut watches).await?;
    let mut times = Vec::new();
    for key in keys {
        let object = kube.get(key).await?.with_context(|| format!("{key} does not exist"))?;
        let [uid, version] = ["uid", "resourceVersion"].map(|name| text(&object["metadata"][name]));
        kube.delete(key, &uid, &version).await?;
        let served = Instant::now();
        let again = tokio::time::timeout(LIMIT, next(&mut appeared, key, &uid)).await;
        let again = again.with_context(|| format!("{key} was not repaired"))??;
        times.push(again.at.saturating_duration_since(served));
    }
    Ok(times)
}

/// The next object at this key with another uid.
async fn next(
    appeared: &mut UnboundedReceiver<Appearance>,
    key: &ResourceKey,
    uid: &str,
) -> anyhow::Result<Appearance> {
    loop {
        let one = appeared.recv().await.context("the watches ended")?;
        if one.key == *key && one.uid != uid {
            return Ok(one);
        }
    }
}
