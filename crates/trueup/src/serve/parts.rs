//! Keeps the embedded Postgres and the local Kubernetes running.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use trueup_cluster::kube::{ConnectError, Kube};
use trueup_local::kube::{self, LocalKube};
use trueup_local::postgres::{self, Postgres};
use trueup_local::{Progress, layout};

use super::recognise::{Unrecognised, recognise};
use super::{Options, System};
use crate::config::Nodes;
use crate::install::Install;
use trueup_cli::clock;
use trueup_cli::failure::Failure;

/// How often a part is checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How many simulated nodes the local cluster has.
const NODES: u32 = 3;
/// How often creating accounts in a fresh cluster is attempted.
const ATTEMPTS: u32 = 20;

pub(super) async fn start_postgres(
    install: &Install,
    progress: &Progress,
) -> Result<Postgres, postgres::Error> {
    let options = postgres::Options { dir: install.postgres(), durable: true };
    Postgres::adopt_or_start(&options, progress).await
}

/// Restarts Postgres whenever it exits; returns it at shutdown.
///
/// The path of its socket stays, so the pools reconnect by themselves. An external Postgres is
/// neither started nor stopped.
pub(super) async fn keep_postgres(
    install: &Install,
    postgres: Option<Postgres>,
    progress: &Progress,
    stop: &CancellationToken,
) -> Option<Postgres> {
    let mut held = Some(postgres?);
    while wait(stop).await {
        if held.as_ref().is_some_and(Postgres::is_alive) {
            continue;
        }
        tracing::warn!("Postgres exited; restarting it");
        held = match start_postgres(install, progress).await {
            Ok(postgres) => Some(postgres),
            Err(error) => {
                tracing::error!(%error, "cannot restart Postgres; retrying");
                None
            }
        };
    }
    held
}

/// The state of the cluster at shutdown.
#[derive(Default)]
pub(super) struct KeptCluster {
    /// The local cluster to stop.
    pub(super) kube: Option<LocalKube>,
    /// Set if the cluster is not the recorded one.
    pub(super) wrong_cluster: Option<Failure>,
}

/// Connects the cluster, building the local one if needed, and restarts it when it exits.
///
/// If it is the wrong cluster, `end` is cancelled to stop the process.
pub(super) async fn keep_cluster(
    install: &Install,
    options: &Options,
    progress: &Progress,
    system: &System,
    (end, stop): (&CancellationToken, &CancellationToken),
) -> KeptCluster {
    if let Some(kubeconfig) = &options.config.kubeconfig {
        // An external cluster: its operator decides which rights Trueup has.
        let kube = Kube::from_kubeconfig(kubeconfig);
        let wrong_cluster = connect(system, options, kube, (end, stop)).await;
        return KeptCluster { kube: None, wrong_cluster };
    }
    let mut held = None;
    loop {
        if !held.as_ref().is_some_and(LocalKube::is_alive) {
            held = tokio::select! {
                started = start_kube(install, options, progress) => match started {
                    Ok(local) => {
                        let kube = provision(local.kubeconfig()).await;
                        let wrong_cluster = connect(system, options, kube, (end, stop)).await;
                        if wrong_cluster.is_some() {
                            return KeptCluster { kube: Some(local), wrong_cluster };
                        }
                        Some(local)
                    }
                    Err(error) => {
                        tracing::error!(%error, "cannot start the local Kubernetes");
                        note(system, Some(&format!("{error}"))).await;
                        // This needs a person to act; the API keeps running.
                        stop.cancelled().await;
                        return KeptCluster::default();
                    }
                },
                () = report_progress(system, progress) => None,
                // An interrupted build resumes from Go's cache.
                () = stop.cancelled() => return KeptCluster::default(),
            };
        }
        if !wait(stop).await {
            return KeptCluster { kube: held, wrong_cluster: None };
        }
    }
}

async fn start_kube(
    install: &Install,
    options: &Options,
    progress: &Progress,
) -> Result<LocalKube, kube::Error> {
    let cache = layout::cache_dir();
    let binaries = match kube::find_built(&cache) {
        Some(binaries) => binaries,
        None => kube::build(&cache, progress).await?,
    };
    let options = kube::Options {
        dir: install.kube(),
        nodes: NODES,
        fast: false,
        real_node: options.config.nodes == Nodes::Real,
    };
    let kube = LocalKube::adopt_or_start(&binaries, &options, progress).await?;
    if let Err(why) = kube.real_node() {
        tracing::warn!(%why, "the local cluster has no real node; all of its pods are simulated");
    }
    Ok(kube)
}

/// Creates Trueup's accounts in the local cluster; retries while the cluster starts.
async fn provision(kubeconfig: &Path) -> Result<Kube, ConnectError> {
    for _ in 1..ATTEMPTS {
        match Kube::provision(kubeconfig).await {
            Ok(kube) => return Ok(kube),
            Err(error) => {
                tracing::debug!(%error, "cannot create accounts in the cluster yet; retrying")
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Kube::provision(kubeconfig).await
}

/// Connects the cluster once its identity is verified; returns the failure if it is the wrong one.
async fn connect(
    system: &System,
    options: &Options,
    kube: Result<Kube, ConnectError>,
    (end, stop): (&CancellationToken, &CancellationToken),
) -> Option<Failure> {
    let kube = match kube {
        Ok(kube) => Arc::new(kube),
        Err(error) => {
            tracing::error!(%error, "cannot connect to the cluster");
            note(system, Some(&format!("{error}"))).await;
            return None;
        }
    };
    loop {
        match recognise(system, &kube, options.replaced).await {
            Ok(()) => break,
            Err(Unrecognised::WrongCluster(failure)) => {
                end.cancel();
                return Some(failure);
            }
            Err(Unrecognised::Unavailable(why)) => note(system, Some(&why)).await,
        }
        if !wait(stop).await {
            return None;
        }
    }
    system.logs.connect(Arc::clone(&kube));
    system.switch.connect(kube);
    note(system, None).await;
    None
}

/// Records the progress of the local cluster, so that `trueup status` can show it.
async fn report_progress(system: &System, progress: &Progress) {
    loop {
        let steps = progress.steps();
        if let Some(step) = steps.iter().find(|step| step.part == "kubernetes") {
            note(system, Some(&step.line(clock::now()))).await;
        }
        tokio::time::sleep(POLL_INTERVAL * 2).await;
    }
}

async fn note(system: &System, text: Option<&str>) {
    if let Err(error) = system.worker.note_cluster(system.seeded.cluster, text).await {
        tracing::debug!(%error, "cannot record the cluster's progress");
    }
}

/// Waits one interval; returns false on shutdown.
async fn wait(stop: &CancellationToken) -> bool {
    tokio::select! {
        () = stop.cancelled() => false,
        () = tokio::time::sleep(POLL_INTERVAL) => true,
    }
}
