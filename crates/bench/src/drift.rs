//! Outside changes at a steady rate among ten thousand services: how long until each is repaired,
//! how many requests a repair takes (the least is one), and what all of it costs in CPU time.
//!
//! `DRIFT_SERVICES` and `DRIFT_MINUTES` set the size and the length of the run.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinSet;
use trueup_cluster::kube::Kube;
use trueup_cluster::{Cluster as _, Scope, WatchEvent};
use trueup_model::key::{Kind, ResourceKey};

use crate::install::{Cluster, Install};
use crate::load::{Made, declare, projects};
use crate::table::{Row, percentile};
use crate::usage::{cpu_seconds, memory_mb};
use crate::wait::until;
use crate::watch::{follow, key_of, text};

const SERVICES: usize = 10_000;
const MINUTES: usize = 5;
/// One in this many services drifts per minute.
const ONE_OF: usize = 100;
const MINUTE: Duration = Duration::from_secs(60);
/// Longer than any repair takes.
const LIMIT: Duration = Duration::from_secs(60);
/// The calls that a repair may need. Lists and watches are not caused by a change.
const REQUESTS: [&str; 4] = ["get", "apply", "patch", "delete"];

/// How an object is changed.
#[derive(Debug, Clone, Copy)]
enum Drift {
    /// A field gets another value.
    Edit,
    /// The object is deleted.
    Delete,
}

/// What happens in turn: variables are edited, a workload is edited, a workload is deleted.
const TURNS: [(Kind, Drift); 3] = [
    (Kind::ConfigMap, Drift::Edit),
    (Kind::Deployment, Drift::Edit),
    (Kind::Deployment, Drift::Delete),
];

/// A change that was made and is not repaired yet.
#[derive(Debug)]
struct Change {
    served: Instant,
    /// The version of the change; a repair has a later one.
    version: u64,
    /// The uid of a deleted object; the repaired one has another.
    gone: Option<String>,
    /// The value of the field before the change.
    wanted: Value,
}

impl Change {
    fn is_repaired(&self, seen: &Seen) -> bool {
        seen.version > self.version
            && seen.value == self.wanted
            && self.gone.as_ref().is_none_or(|uid| *uid != seen.uid)
    }
}

/// An object that a watch reported.
#[derive(Debug)]
struct Seen {
    key: ResourceKey,
    uid: String,
    version: u64,
    value: Value,
    at: Instant,
}

pub(crate) async fn run() -> anyhow::Result<Vec<Row>> {
    let services = setting("DRIFT_SERVICES", SERVICES)?;
    let minutes = setting("DRIFT_MINUTES", MINUTES)?;
    let per_minute = (services / ONE_OF).max(1);
    let cluster = Cluster::start("drift").await?;
    let install = Install::start("drift", &cluster).await?;
    projects(&install, services).await?;
    declare(&install.client, Made::Unaddressed, 0..services).await?;
    install.healthy(services).await?;
    install.quiet().await?;

    let targets = targets(&cluster.kube, services, per_minute * minutes).await?;
    let (before, requests) = (cpu_seconds(install.pid)?, install.calls(&REQUESTS).await?);
    let began = Instant::now();
    let pause = MINUTE / u32::try_from(per_minute)?;
    let mut times = change_each(&cluster.kube, &targets, pause).await?;
    let seconds = began.elapsed().as_secs_f64();
    let cpu = cpu_seconds(install.pid)? - before;
    let requests = install.calls(&REQUESTS).await?.saturating_sub(requests);
    let memory = memory_mb(install.pid)?.1;
    let repairs = times.len();
    recorded(&install, repairs).await?;
    install.quiet().await?;
    install.stop().await?;
    cluster.stop().await?;

    let per_repair = f64::from(u32::try_from(requests)?) / f64::from(u32::try_from(repairs)?);
    let repaired = Row {
        wanted: "p99 < 100 ms",
        cpu_s: Some(cpu),
        rss_mb: Some(memory),
        note: format!(
            "p99; {repairs} repairs in {seconds:.0} s, {:.2} % of a core",
            cpu / seconds * 100.0
        ),
        ..Row::alone(
            format!("drift, {per_minute} of {services} services per minute"),
            "ms",
            percentile(&mut times, 99),
        )
    };
    let asked = Row {
        wanted: "≤ 1.5",
        note: format!("{requests} requests; the floor is one write"),
        ..Row::beside("drift, requests per repair", "requests", per_repair, 1.0)
    };
    Ok(vec![repaired.with_times(&mut times), asked])
}

/// Waits until every repair is recorded. A repair without a record would be cheaper than it may be.
async fn recorded(install: &Install, repairs: usize) -> anyhow::Result<()> {
    until("the records of all repairs", LIMIT, || async {
        let reverted = "select count(*) from divergences where state = 'reverted'";
        Ok(usize::try_from(install.count(reverted).await?)? >= repairs)
    })
    .await
}

/// A number from the environment.
fn setting(name: &str, usual: usize) -> anyhow::Result<usize> {
    let number: usize = match std::env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name} is not a number: {text}"))?,
        Err(_) => usual,
    };
    ensure!(number > 0, "{name} must be at least 1");
    Ok(number)
}

/// Objects to change, each of another service, spread over all of them.
async fn targets(
    kube: &Kube,
    services: usize,
    count: usize,
) -> anyhow::Result<Vec<(ResourceKey, Drift)>> {
    ensure!(count <= services, "{count} changes, but only {services} services");
    let mut keys: HashMap<Kind, Vec<ResourceKey>> = HashMap::new();
    for kind in [Kind::ConfigMap, Kind::Deployment] {
        let list = kube.list(kind, Scope::Ours).await?.objects;
        let mut found: Vec<ResourceKey> = list
            .iter()
            .map(|object| key_of(kind, object))
            .filter(|key| !key.name.contains("-anchor-"))
            .collect();
        ensure!(found.len() == services, "{} objects of kind {kind}", found.len());
        found.sort();
        keys.insert(kind, found);
    }
    let targets = (0..count).zip(TURNS.iter().cycle()).filter_map(|(number, (kind, drift))| {
        Some((keys.get(kind)?.get(number * (services / count))?.clone(), *drift))
    });
    Ok(targets.collect())
}

/// Changes one target after each pause; returns how long each stayed changed after the response.
async fn change_each(
    kube: &Kube,
    targets: &[(ResourceKey, Drift)],
    pause: Duration,
) -> anyhow::Result<Vec<Duration>> {
    let mut watches = JoinSet::new();
    let mut sightings = sightings(kube, &mut watches).await?;
    let mut open: HashMap<ResourceKey, Change> = HashMap::new();
    let mut times = Vec::new();
    let mut pace = tokio::time::interval(pause);
    let mut left = targets.iter();
    while times.len() < targets.len() {
        tokio::select! {
            _ = pace.tick(), if left.len() > 0 => {
                if let Some((key, drift)) = left.next() {
                    open.insert(key.clone(), change(kube, key, *drift).await?);
                }
            }
            seen = sightings.recv() => {
                let seen = seen.context("the watches ended")?;
                if open.get(&seen.key).is_some_and(|change| change.is_repaired(&seen))
                    && let Some(change) = open.remove(&seen.key)
                {
                    times.push(seen.at.saturating_duration_since(change.served));
                }
            }
            () = tokio::time::sleep(LIMIT) => {}
        }
        let late = open.iter().find(|(_, change)| change.served.elapsed() > LIMIT);
        ensure!(late.is_none(), "{late:?} was not repaired in {} s", LIMIT.as_secs());
    }
    Ok(times)
}

/// Changes an object as another writer.
async fn change(kube: &Kube, key: &ResourceKey, drift: Drift) -> anyhow::Result<Change> {
    let live = kube.get(key).await?.with_context(|| format!("{key} does not exist"))?;
    let wanted = field(&live);
    let (version, gone) = match drift {
        Drift::Edit => (version(&kube.patch(key, &edit(key.kind)).await?)?, None),
        Drift::Delete => {
            let [uid, at] = ["uid", "resourceVersion"].map(|name| text(&live["metadata"][name]));
            kube.delete(key, &uid, &at).await?;
            (version(&live)?, Some(uid))
        }
    };
    Ok(Change { served: Instant::now(), version, gone, wanted })
}

/// The patch of an edit.
fn edit(kind: Kind) -> Value {
    match kind {
        Kind::ConfigMap => json!({"data": {"LEVEL": "changed by hand"}}),
        _ => json!({"spec": {"progressDeadlineSeconds": 77}}),
    }
}

/// The value of the field that edits change.
fn field(object: &Value) -> Value {
    let found = [&object["data"]["LEVEL"], &object["spec"]["progressDeadlineSeconds"]];
    found.into_iter().find(|value| !value.is_null()).cloned().unwrap_or_default()
}

/// Versions of objects of one kind are ordered numbers.
fn version(object: &Value) -> anyhow::Result<u64> {
    let version = text(&object["metadata"]["resourceVersion"]);
    version.parse().with_context(|| format!("`{version}` is not a version"))
}

/// Receives every changed object of the two kinds from now on.
async fn sightings(
    kube: &Kube,
    watches: &mut JoinSet<()>,
) -> anyhow::Result<UnboundedReceiver<Seen>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    for kind in [Kind::ConfigMap, Kind::Deployment] {
        let from = kube.list(kind, Scope::Ours).await?.version;
        let (kube, sender) = (kube.clone(), sender.clone());
        watches.spawn(async move {
            follow(&kube, kind, from, |event| {
                let WatchEvent::Present(object) = event else { return };
                let at = Instant::now();
                let uid = text(&object["metadata"]["uid"]);
                let (key, value) = (key_of(kind, &object), field(&object));
                if let Ok(version) = version(&object) {
                    // The channel closes only when the bench ends.
                    let _closed = sender.send(Seen { key, uid, version, value, at });
                }
            })
            .await;
        });
    }
    Ok(receiver)
}
