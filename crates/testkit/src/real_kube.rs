//! One real API server for all test processes on this machine.
//!
//! Starting one takes seconds and building it takes minutes, so the first process that needs it
//! does both and leaves it running; the next ones adopt it. Each test uses its own namespaces.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
pub use trueup_local::kube::NoNode;
use trueup_local::kube::{LocalKube, Options, build};
use trueup_local::supervise::Process;
use trueup_local::{Progress, layout};

/// The environment variable with the kubeconfig of another cluster for the tests.
const OVERRIDE: &str = "TRUEUP_TEST_KUBECONFIG";
/// Enough for the pods of all tests at once.
const NODES: u32 = 3;

/// The administrator's kubeconfig of the shared API server, which is up when this returns.
pub async fn shared() -> PathBuf {
    match std::env::var_os(OVERRIDE) {
        Some(chosen) => PathBuf::from(chosen),
        None => started().await.kubeconfig().to_owned(),
    }
}

/// Whether the shared cluster has a real node, on which containers run.
pub async fn real_node() -> Result<(), NoNode> {
    match std::env::var_os(OVERRIDE) {
        Some(_) => Err(NoNode::Unasked),
        None => started().await.real_node(),
    }
}

/// Pauses the kubelet of the real node until the guard is dropped, as if the node hung.
pub fn pause_kubelet() -> Paused {
    let dir = folder().canonicalize().expect("the folder of the shared cluster should exist");
    let kubelet = kubelet_of(&dir).expect("the real node should have a kubelet");
    kubelet.signal(Signal::STOP).expect("the kubelet should accept a signal");
    Paused { kubelet }
}

/// A paused kubelet. It resumes when this is dropped, however the test ends.
#[derive(Debug)]
pub struct Paused {
    kubelet: Process,
}

impl Drop for Paused {
    fn drop(&mut self) {
        // If the kubelet died meanwhile, its supervisor restarts it.
        let _gone = self.kubelet.signal(Signal::CONT);
    }
}

/// A cluster for one test, where a shared one would disturb other tests. Dropping this stops it.
#[derive(Debug)]
pub struct OwnKube {
    kube: LocalKube,
    dir: PathBuf,
}

impl OwnKube {
    /// Starts an empty cluster in a folder of this name.
    ///
    /// # Panics
    /// The cluster does not start.
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
        // The components end with their supervisor; its folder is not needed any more.
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
