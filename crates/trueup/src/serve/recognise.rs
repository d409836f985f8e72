//! Verifies that the cluster is the one recorded in the database.
//!
//! With another kubeconfig, all objects would seem to be gone: Trueup would recreate them and
//! verify deletions of objects that still run in the recorded cluster.

use trueup_cluster::kube::Kube;
use trueup_model::Clock as _;
use trueup_store::Recognised;

use super::System;
use trueup_cli::failure::{Exit, Failure};

/// Why a cluster is not used.
pub(super) enum Unrecognised {
    /// The cluster or the database is unavailable.
    Unavailable(String),
    /// The cluster is not the recorded one.
    WrongCluster(Failure),
}

/// Compares the cluster's identity with the one in the database.
pub(super) async fn recognise(
    system: &System,
    kube: &Kube,
    replaced: bool,
) -> Result<(), Unrecognised> {
    let identity =
        kube.identity().await.map_err(|error| Unrecognised::Unavailable(error.to_string()))?;
    let (cluster, now) = (system.seeded.cluster, system.clock.now());
    let recognised = system.worker.recognise_cluster(cluster, &identity, replaced, now).await;
    match recognised.map_err(|error| Unrecognised::Unavailable(error.to_string()))? {
        Recognised::Ours => Ok(()),
        Recognised::Another { known } => {
            tracing::error!(%known, %identity, "wrong cluster; nothing was touched");
            let message =
                "this is another cluster than the recorded one; nothing in it was touched";
            Err(Unrecognised::WrongCluster(Failure::new(Exit::Failed, message).hint(
                "start with the kubeconfig of the recorded cluster; if it was replaced and \
                 everything should be recreated there, start once with --replace-cluster",
            )))
        }
    }
}
