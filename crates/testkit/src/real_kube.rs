//! One real API server for all test processes on this machine.
//!
//! Starting one takes seconds and building it takes minutes, so the first process that needs it
//! does both and leaves it running; the next ones adopt it. Tests keep apart by namespace.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
pub use trueup_local::kube::NoNode;
use trueup_local::kube::{LocalKube, Options, build};
use trueup_local::supervise::Process;
use trueup_local::{Progress, layout};

/// Points tests at a cluster of the developer's own.
const OVERRIDE: &str = "TRUEUP_TEST_KUBECONFIG";
/// Enough for the pods of all tests at once.
const NODES: u32 = 3;

/// The administrator's kubeconfig of the shared API server, which serves when this returns.
pub async fn shared() -> PathBuf {
    match std::env::var_os(OVERRIDE) {
        Some(chosen) => PathBuf::from(chosen),
        None => started().await.kubeconfig().to_owned(),
    }
}

/// Whether the shared cluster has a node on which pods really run.
pub async fn real_node() -> Result<(), NoNode> {
    match std::env::var_os(OVERRIDE) {
        Some(_) => Err(NoNode::Unasked),
        None => started().await.real_node(),
    }
}

/// Stops the kubelet of the real node, as if the node had hung, until this is dropped.
pub fn pause_kubelet() -> Paused {
    let dir = folder().canonicalize().expect("the shared cluster should be there");
    let kubelet = kubelet_of(&dir).expect("the real node should have a kubelet");
    kubelet.signal(Signal::STOP).expect("the kubelet should be ours to stop");
    Paused { kubelet }
}

/// A kubelet that does nothing. It goes on when this is dropped, however a test ends.
#[derive(Debug)]
pub struct Paused {
    kubelet: Process,
}

impl Drop for Paused {
    fn drop(&mut self) {
        // One that is gone meanwhile is started again by its supervisor.
        let _gone = self.kubelet.signal(Signal::CONT);
    }
}

/// A cluster that belongs to one test: for what would disturb all others on a shared one. It is stopped
/// when this is dropped.
#[derive(Debug)]
pub struct OwnKube {
    kube: LocalKube,
    dir: PathBuf,
}

impl OwnKube {
    /// Starts one, without anything in it, in a folder of this name.
    ///
    /// # Panics
    /// It does not start.
    pub async fn start(name: &str) -> Self {
        let folder = layout::cache_dir().join("test-servers");
        let dir = folder.join(format!("{name}-{}", std::process::id()));
        let options = Options { dir: dir.clone(), nodes: 1, fast: true, real_node: false };
        Self { kube: start(&options).await, dir }
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        self.kube.kubeconfig()
    }
}

impl Drop for OwnKube {
    fn drop(&mut self) {
        // The components end with their supervisor; what it leaves in its folder is of no use.
        if let Some(supervisor) = Process::find(self.kube.pid()) {
            let _gone = supervisor.signal(Signal::KILL);
        }
        let _left = std::fs::remove_dir_all(&self.dir);
    }
}

async fn started() -> LocalKube {
    start(&Options { dir: folder(), nodes: NODES, fast: true, real_node: true }).await
}

async fn start(options: &Options) -> LocalKube {
    let (cache, progress) = (layout::cache_dir(), Progress::new());
    let binaries = build(&cache, &progress).await.expect("should be able to build Kubernetes");
    let started = LocalKube::adopt_or_start(&binaries, options, &progress).await;
    started.expect("should be able to start Kubernetes")
}

fn folder() -> PathBuf {
    layout::cache_dir().join("test-kube")
}

/// The process that runs the kubelet of the cluster in this folder.
fn kubelet_of(dir: &Path) -> Option<Process> {
    let entries = std::fs::read_dir("/proc").ok()?;
    entries.flatten().find_map(|entry| {
        let works_here = std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == dir);
        let program = std::fs::read_link(entry.path().join("exe")).ok()?;
        let is_kubelet = program.file_name().is_some_and(|name| name == "trueup-kubelet");
        let pid = entry.file_name().to_str()?.parse().ok()?;
        (works_here && is_kubelet).then(|| Process::find(pid))?
    })
}
