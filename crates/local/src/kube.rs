//! The local Kubernetes: a real API server, etcd, controllers and scheduler, with simulated nodes
//! and, where the machine allows it, one [real](node) node.
//!
//! The programs are built once from Go sources embedded in this crate ([`build`]), because a plain
//! machine has no container engine and no registry. One supervisor program runs all components, so
//! that there is one process to start, adopt and stop.

mod build;
mod error;
pub mod node;
mod sources;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde::Deserialize;

use crate::files::{self, At, Lock};
use crate::progress::Progress;
use crate::supervise::{self, Process};
pub use build::{Binaries, build, find_built};
pub use error::Error;
pub use node::NoNode;

pub(crate) const PART: &str = "kubernetes";

/// In the folder of each cluster.
const PID_FILE: &str = "pid.json";

/// The supervisor itself times out after 90 s for each of two servers; this is a little longer.
const START_LIMIT: Duration = Duration::from_secs(200);
const POLL: Duration = Duration::from_millis(25);

/// The supervisor stops within ten seconds, and its components end with it in any case.
const STOP: [(Signal, Duration); 1] = [(Signal::TERM, Duration::from_secs(12))];

/// Which cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder that holds everything about this cluster.
    pub dir: PathBuf,
    /// How many simulated nodes it has at least.
    pub nodes: u32,
    /// True trades durability for speed, in tests. Such a cluster starts empty: leftovers of
    /// earlier tests would fill its nodes sooner or later.
    pub fast: bool,
    /// True adds a node whose pods really run, if this machine supports it.
    pub real_node: bool,
}

/// A running cluster. Dropping it leaves the cluster running, for the next start to adopt.
#[derive(Debug)]
pub struct LocalKube {
    process: Process,
    ready: Ready,
    pid_file: PathBuf,
}

/// The supervisor's `ready.json`, written once the cluster serves.
#[derive(Clone, Debug, Deserialize)]
struct Ready {
    kubeconfig: PathBuf,
    server: String,
    pid: u32,
    version: String,
    #[serde(default)]
    real_node: bool,
    #[serde(default)]
    no_node: Option<String>,
}

impl LocalKube {
    /// Adopts the cluster of this folder if it runs, or starts it; returns once it serves.
    pub async fn adopt_or_start(
        binaries: &Binaries,
        options: &Options,
        progress: &Progress,
    ) -> Result<Self, Error> {
        let started = Self::start(binaries, options, progress).await;
        progress.finish(PART);
        started
    }

    async fn start(
        binaries: &Binaries,
        options: &Options,
        progress: &Progress,
    ) -> Result<Self, Error> {
        files::make_dir(&options.dir, 0o700)?;
        files::make_dir(&options.dir.join("log"), 0o700)?;
        let dir = options.dir.canonicalize().at("find", &options.dir)?;
        let _lock = Lock::take(&dir.join("start.lock"), || {
            progress.begin(PART, "waiting for another trueup process that uses this folder");
        })
        .await?;

        let pid_file = dir.join(PID_FILE);
        let process = match running(&dir, &pid_file)? {
            Some(process) if runs(&process, &binaries.kube) => {
                progress.begin(PART, "adopting the running cluster");
                process
            }
            Some(outdated) => {
                progress.begin(PART, "replacing a cluster of another version");
                outdated.stop(&STOP).await?;
                supervise::spawn(command(binaries, options, &dir)?, &pid_file)?
            }
            None => supervise::spawn(command(binaries, options, &dir)?, &pid_file)?,
        };
        let ready = wait_until_ready(&dir, &process, progress).await?;
        Ok(Self { process, ready, pid_file })
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.ready.kubeconfig
    }

    /// The URL of the API server.
    pub fn server(&self) -> &str {
        &self.ready.server
    }

    /// The version of Kubernetes, such as `v1.36.3`.
    pub fn version(&self) -> &str {
        &self.ready.version
    }

    /// Whether there is a real node, or why not.
    pub fn real_node(&self) -> Result<(), NoNode> {
        match (self.ready.real_node, &self.ready.no_node) {
            (true, _) => Ok(()),
            (false, Some(why)) => Err(NoNode::Failed(why.clone())),
            (false, None) => Err(node::missing().map_or(NoNode::Unasked, NoNode::Missing)),
        }
    }

    /// The pid of the supervisor.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether the supervisor still runs. It restarts components that crash, so as long as it runs
    /// the API server is up or restarting.
    pub fn is_alive(&self) -> bool {
        self.process.is_alive()
    }

    /// Stops the cluster. A stopped cluster is a success.
    pub async fn stop(self) -> Result<(), Error> {
        self.process.stop(&STOP).await?;
        Ok(files::remove_if_there(&self.pid_file)?)
    }

    /// Kills the supervisor with SIGKILL, and its components with it, for crash tests.
    pub async fn kill(self) -> Result<(), Error> {
        Ok(self.process.stop(&[]).await?)
    }
}

/// Stops the cluster that a killed trueup left running in this folder, if any. Containers also
/// outlive a killed supervisor, and are cleaned up.
pub async fn stop_left(cache: &Path, dir: &Path) -> Result<bool, Error> {
    let stopped = supervise::stop_left(&dir.join(PID_FILE), &STOP).await?;
    if let (true, Some(binaries)) = (dir.join("node").is_dir(), find_built(cache)) {
        let mut clean = tokio::process::Command::new(&binaries.kube);
        let cleaned = clean.arg("clean").arg("--dir").arg(dir).stdin(Stdio::null()).output().await;
        match cleaned {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(Error::Clean { why });
            }
            Err(error) => return Err(Error::Clean { why: error.to_string() }),
        }
    }
    Ok(stopped)
}

/// The running supervisor of this folder. Our pid file may be missing if trueup was killed right
/// after the start; then the supervisor's own lock file, which it holds, names it.
fn running(dir: &Path, pid_file: &Path) -> Result<Option<Process>, Error> {
    if let Some(process) = supervise::adopt(pid_file)? {
        return Ok(Some(process));
    }
    let lock = dir.join("lock");
    let Some(text) = files::read_if_there(&lock)? else {
        return Ok(None);
    };
    let held = OpenOptions::new().write(true).open(&lock).at("open", &lock)?.try_lock().is_err();
    let found = text.trim().parse().ok().filter(|_| held).and_then(Process::find);
    if let Some(process) = &found {
        supervise::record(process, pid_file)?;
    }
    Ok(found)
}

/// Whether a process runs this program file. A deleted file has another path.
fn runs(process: &Process, program: &Path) -> bool {
    let actual = std::fs::read_link(format!("/proc/{}/exe", process.pid()));
    let wanted = program.canonicalize();
    matches!((actual, wanted), (Ok(actual), Ok(wanted)) if actual == wanted)
}

fn command(binaries: &Binaries, options: &Options, dir: &Path) -> Result<Command, Error> {
    // The file of the last supervisor must not be mistaken for that of the new one.
    files::remove_if_there(&dir.join("ready.json"))?;
    let path = supervisor_log(dir);
    let log = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .at("open", &path)?;
    let mut command = Command::new(&binaries.kube);
    command.arg("run").arg("--dir").arg(dir).arg("--nodes").arg(options.nodes.to_string());
    if options.fast {
        files::remove_dir_if_there(&dir.join("etcd"))?;
        command.arg("--fast");
    }
    if options.real_node && node::missing().is_none() {
        command.arg("--real-node");
    }
    // A file, not a pipe: the supervisor outlives us, and a closed pipe would kill it.
    command.current_dir(dir).stdout(log).stderr(Stdio::null());
    Ok(command)
}

fn supervisor_log(dir: &Path) -> PathBuf {
    dir.join("log").join("supervisor.log")
}

async fn wait_until_ready(
    dir: &Path,
    process: &Process,
    progress: &Progress,
) -> Result<Ready, Error> {
    let log = supervisor_log(dir);
    let served = async {
        loop {
            let ready = files::read_if_there(&dir.join("ready.json"))?
                .and_then(|text| serde_json::from_str::<Ready>(&text).ok())
                .filter(|ready| ready.pid == process.pid());
            if let Some(ready) = ready {
                return Ok(ready);
            }
            if !process.is_alive() {
                return Err(Error::Ended { tail: files::tail(&log), log: log.clone() });
            }
            if let Some(step) = last_step(&log) {
                progress.begin(PART, format!("starting, {step}"));
            }
            tokio::time::sleep(POLL).await;
        }
    };
    match tokio::time::timeout(START_LIMIT, served).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::Silent { limit: START_LIMIT, log: log.clone() }),
    }
}

/// The step and state in the supervisor's last log line.
fn last_step(log: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Line {
        step: String,
        state: String,
    }
    let tail = files::tail(log);
    let line: Line = serde_json::from_str(tail.lines().last()?).ok()?;
    Some(format!("{} {}", line.step, line.state))
}
