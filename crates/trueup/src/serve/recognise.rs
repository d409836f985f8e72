//! Working on no other cluster than the one that the database knows.
//!
//! Whoever starts Trueup with another kubeconfig, or a replica with another one than the others have, would
//! find everything gone there: make it all once more, and prove deletions of what still runs elsewhere.

use trueup_cluster::kube::Kube;
use trueup_model::Clock as _;
use trueup_store::Recognised;

use super::System;
use trueup_cli::failure::{Exit, Failure};

/// Why a cluster is not worked on.
pub(super) enum Unrecognised {
    /// It, or the database, does not say.
    Unavailable(String),
    /// It is another one.
    Another(Failure),
}

/// Asks the cluster which one it is, and the database whether that is the one it knows.
pub(super) async fn recognise(
    system: &System,
    kube: &Kube,
    replaced: bool,
) -> Result<(), Unrecognised> {
    let identity = kube.identity().await.map_err(|error| Unrecognised::Unavailable(error.to_string()))?;
    let (cluster, now) = (system.seeded.cluster, system.clock.now());
    let asked = system.worker.recognise_cluster(cluster, &identity, replaced, now).await;
    match asked.map_err(|error| Unrecognised::Unavailable(error.to_string()))? {
        Recognised::Ours => Ok(()),
        Recognised::Another { known } => {
            tracing::error!(%known, %identity, "another cluster answers; nothing was touched");
            let another = "this is another cluster than the one that everything runs on, and nothing \
                           in it was touched";
            Err(Unrecognised::Another(Failure::new(Exit::Failed, another).hint(
                "start with the kubeconfig of the right one; if it was replaced and everything shall be \
                 made anew there, start once with --replace-cluster",
            )))
        }
    }
}
