//! The parts below: the embedded Postgres and the local Kubernetes, kept alive while we serve.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use trueup_cluster::kube::{ConnectError, Kube};
use trueup_local::kube::{self, LocalKube};
use trueup_local::postgres::{self, Postgres};
use trueup_local::{Progress, layout};

use super::{Options, System};
use crate::cli::clock;
use crate::install::Install;

/// How often a part is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How many simulated nodes the local cluster has.
const NODES: u32 = 3;
/// How often a cluster that has just started is asked for accounts.
const TRIES: u32 = 20;

pub(super) async fn start_postgres(
    install: &Install,
    progress: &Progress,
) -> Result<Postgres, postgres::Error> {
    let options = postgres::Options { dir: install.postgres(), durable: true };
    Postgres::adopt_or_start(&options, progress).await
}

/// Starts Postgres again whenever it is gone; answers with it when it is time to stop. One that was
/// given is not ours to start or to stop.
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
        tracing::warn!("Postgres is gone; starting it again");
        held = match start_postgres(install, progress).await {
            Ok(postgres) => Some(postgres),
            Err(error) => {
                tracing::error!(%error, "Postgres could not be started again");
                None
            }
        };
    }
    held
}

/// Connects the cluster as soon as there is one, building the local one if need be, and starts it
/// again whenever it is gone; answers with what must be stopped.
pub(super) async fn keep_cluster(
    install: &Install,
    options: &Options,
    progress: &Progress,
    system: &System,
    stop: &CancellationToken,
) -> Option<LocalKube> {
    if let Some(kubeconfig) = &options.cluster {
        // Somebody else's cluster: its operator decides which rights Trueup gets there.
        connect(system, Kube::from_kubeconfig(kubeconfig)).await;
        return None;
    }
    let mut held = None;
    loop {
        if !held.as_ref().is_some_and(LocalKube::is_alive) {
            held = tokio::select! {
                started = start_kube(install, options, progress) => match started {
                    Ok(kube) => {
                        connect(system, provision(kube.kubeconfig()).await).await;
                        Some(kube)
                    }
                    Err(error) => {
                        tracing::error!(%error, "there is no local Kubernetes");
                        note(system, Some(&format!("{error}"))).await;
                        // Nothing will change until a person acts; everything else goes on.
                        stop.cancelled().await;
                        return None;
                    }
                },
                () = tell_progress(system, progress) => None,
                // A build that was begun goes on from Go's cache next time.
                () = stop.cancelled() => return None,
            };
        }
        if !wait(stop).await {
            return held;
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
        real_node: !options.simulated,
    };
    let kube = LocalKube::adopt_or_start(&binaries, &options, progress).await?;
    if let Err(why) = kube.real_node() {
        tracing::warn!(%why, "the local cluster has no real node; all of its pods are simulated");
    }
    Ok(kube)
}

/// Trueup's own accounts in the local cluster. It has only just started to serve, so a few tries are
/// made.
async fn provision(kubeconfig: &Path) -> Result<Kube, ConnectError> {
    for _ in 1..TRIES {
        match Kube::provision(kubeconfig).await {
            Ok(kube) => return Ok(kube),
            Err(error) => tracing::debug!(%error, "the cluster does not make accounts yet"),
        }
        tokio::time::sleep(LOOK).await;
    }
    Kube::provision(kubeconfig).await
}

async fn connect(system: &System, kube: Result<Kube, ConnectError>) {
    match kube {
        Ok(kube) => {
            let kube = Arc::new(kube);
            system.logs.connect(Arc::clone(&kube));
            system.switch.connect(kube);
            note(system, None).await;
        }
        Err(error) => {
            tracing::error!(%error, "the cluster cannot be connected");
            note(system, Some(&format!("{error}"))).await;
        }
    }
}

/// Writes what is going on with the cluster to where everybody can read it.
async fn tell_progress(system: &System, progress: &Progress) {
    loop {
        let steps = progress.steps();
        if let Some(step) = steps.iter().find(|step| step.part == "kubernetes") {
            note(system, Some(&step.line(clock::now()))).await;
        }
        tokio::time::sleep(LOOK * 2).await;
    }
}

async fn note(system: &System, text: Option<&str>) {
    if let Err(error) = system.worker.note_cluster(system.seeded.cluster, text).await {
        tracing::debug!(%error, "the cluster's progress could not be noted");
    }
}

/// A moment's pause; false when it is time to stop.
async fn wait(stop: &CancellationToken) -> bool {
    tokio::select! {
        () = stop.cancelled() => false,
        () = tokio::time::sleep(LOOK) => true,
    }
}
