//! The parts below: the embedded Postgres and the local Kubernetes, kept alive while we serve.

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
use crate::install::Install;
use trueup_cli::clock;
use trueup_cli::failure::Failure;

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

/// What is left of the cluster's part when it is time to stop.
#[derive(Default)]
pub(super) struct Kept {
    /// What must be stopped.
    pub(super) kube: Option<LocalKube>,
    /// Why nothing can be done here.
    pub(super) another: Option<Failure>,
}

/// Connects the cluster as soon as there is one, building the local one if need be, and starts it
/// again whenever it is gone. If it is not the right one, `end` ends everything.
pub(super) async fn keep_cluster(
    install: &Install,
    options: &Options,
    progress: &Progress,
    system: &System,
    (end, stop): (&CancellationToken, &CancellationToken),
) -> Kept {
    if let Some(kubeconfig) = &options.cluster.kubeconfig {
        // Somebody else's cluster: its operator decides which rights Trueup gets there.
        let kube = Kube::from_kubeconfig(kubeconfig);
        let another = connect(system, options, kube, (end, stop)).await;
        return Kept { kube: None, another };
    }
    let mut held = None;
    loop {
        if !held.as_ref().is_some_and(LocalKube::is_alive) {
            held = tokio::select! {
                started = start_kube(install, options, progress) => match started {
                    Ok(local) => {
                        let kube = provision(local.kubeconfig()).await;
                        let another = connect(system, options, kube, (end, stop)).await;
                        if another.is_some() {
                            return Kept { kube: Some(local), another };
                        }
                        Some(local)
                    }
                    Err(error) => {
                        tracing::error!(%error, "there is no local Kubernetes");
                        note(system, Some(&format!("{error}"))).await;
                        // Nothing will change until a person acts; everything else goes on.
                        stop.cancelled().await;
                        return Kept::default();
                    }
                },
                () = tell_progress(system, progress) => None,
                // A build that was begun goes on from Go's cache next time.
                () = stop.cancelled() => return Kept::default(),
            };
        }
        if !wait(stop).await {
            return Kept { kube: held, another: None };
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

/// Connects a cluster once it has said that it is the right one; if it is another one, that is the end.
async fn connect(
    system: &System,
    options: &Options,
    kube: Result<Kube, ConnectError>,
    (end, stop): (&CancellationToken, &CancellationToken),
) -> Option<Failure> {
    let kube = match kube {
        Ok(kube) => Arc::new(kube),
        Err(error) => {
            tracing::error!(%error, "the cluster cannot be connected");
            note(system, Some(&format!("{error}"))).await;
            return None;
        }
    };
    loop {
        match recognise(system, &kube, options.cluster.replaced).await {
            Ok(()) => break,
            Err(Unrecognised::Another(failure)) => {
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
