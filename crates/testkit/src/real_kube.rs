//! One real API server for all test processes on this machine.
//!
//! Starting one takes seconds and building it takes minutes, so the first process that needs it
//! does both and leaves it running; the next ones adopt it. Tests keep apart by namespace.

use std::path::PathBuf;

use trueup_local::kube::{LocalKube, Options, build};
use trueup_local::{Progress, layout};

/// Points tests at a cluster of the developer's own.
const OVERRIDE: &str = "TRUEUP_TEST_KUBECONFIG";
/// Enough for the pods of all tests at once.
const NODES: u32 = 3;

/// The administrator's kubeconfig of the shared API server, which serves when this returns.
pub async fn shared() -> PathBuf {
    if let Some(chosen) = std::env::var_os(OVERRIDE) {
        return PathBuf::from(chosen);
    }
    let (cache, progress) = (layout::cache_dir(), Progress::new());
    let binaries = build(&cache, &progress).await.expect("should be able to build Kubernetes");
    let options =
        Options { dir: cache.join("test-kube"), nodes: NODES, fast: true, real_node: true };
    let kube = LocalKube::adopt_or_start(&binaries, &options, &progress)
        .await
        .expect("should be able to start the shared Kubernetes");
    kube.kubeconfig().to_owned()
}
