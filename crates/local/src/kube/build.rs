//! Builds the local Kubernetes: minutes the first time, never again for the same sources.
//!
//! The result is cached under a digest of the sources, so an upgrade builds again and a downgrade
//! finds the earlier result. All processes on the machine share one lock: two builds at a time
//! would take twice as long.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Command;

use super::{Error, PART, node, sources};
use crate::files::{self, At, Lock};
use crate::progress::Progress;

const MEASURE_EVERY: Duration = Duration::from_secs(3);

/// The build runs for minutes beside a trueup that is already in use, so it has low priority.
const NICENESS: i32 = 10;

/// The programs of the local Kubernetes. They must stay in one folder, where one finds the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// The control plane and its supervisor.
    pub kube: PathBuf,
}

/// A program: its name here, and the package that it is built from.
type Program = (&'static str, &'static str);

/// Programs of every cluster. The supervisor comes last: if it exists, the others do too.
const ALWAYS: [Program; 2] =
    [("trueup-kwok", "sigs.k8s.io/kwok/cmd/kwok"), ("trueup-kube", "./cmd/trueup-kube")];

/// Additional programs of a real node.
const FOR_A_NODE: [Program; 2] =
    [("trueup-sample", "./cmd/trueup-sample"), ("trueup-kubelet", "k8s.io/kubernetes/cmd/kubelet")];

/// The programs that this machine can use.
fn programs() -> impl Iterator<Item = Program> {
    let for_a_node: &[Program] = if node::missing().is_none() { &FOR_A_NODE } else { &[] };
    for_a_node.iter().chain(&ALWAYS).copied()
}

/// The programs of an earlier build of the same sources.
pub fn find_built(cache: &Path) -> Option<Binaries> {
    let folder = home(cache).join("bin");
    programs()
        .all(|(name, _)| folder.join(name).is_file())
        .then(|| Binaries { kube: folder.join("trueup-kube") })
}

fn home(cache: &Path) -> PathBuf {
    cache.join("kube").join(sources::key())
}

/// Builds the programs, or waits for another process that does; returns at once if they exist.
pub async fn build(cache: &Path, progress: &Progress) -> Result<Binaries, Error> {
    if let Some(binaries) = find_built(cache) {
        return Ok(binaries);
    }
    let built = build_under_lock(cache, progress).await;
    progress.finish(PART);
    built
}

async fn build_under_lock(cache: &Path, progress: &Progress) -> Result<Binaries, Error> {
    files::make_dir(&cache.join("kube"), 0o755)?;
    let _lock = Lock::take(&cache.join("kube").join("lock"), || {
        progress.begin(PART, "waiting for another trueup process that is building it");
    })
    .await?;
    if let Some(binaries) = find_built(cache) {
        return Ok(binaries);
    }

    let home = home(cache);
    let (source, attempt, done) = (home.join("src"), home.join("bin.new"), home.join("bin"));
    files::remove_dir_if_there(&source)?;
    files::remove_dir_if_there(&attempt)?;
    files::make_dir(&attempt, 0o755)?;
    files::make_dir(&done, 0o755)?;
    sources::write(&source)?;

    let cache_of_go = check_go(&source).await?;
    let meter = Meter::new(cache_of_go, progress).await;
    // One by one: existing programs are kept, also if the machine supports a real node only later.
    for (name, package) in programs().filter(|(name, _)| !done.join(name).is_file()) {
        go_build(&source, &attempt.join(name), package, &meter).await?;
        fs::rename(attempt.join(name), done.join(name)).at("create", &done.join(name))?;
    }
    find_built(cache)
        .ok_or_else(|| Error::Build { program: "trueup-kube", output: "no result".to_owned() })
}

/// Checks that a suitable Go is installed, and returns its cache folder.
async fn check_go(source: &Path) -> Result<PathBuf, Error> {
    let output = go(source).args(["env", "GOCACHE"]).output().await.map_err(explain)?;
    if output.status.success() {
        return Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    // Inside a module that requires a newer Go, every command of an older one fails.
    let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::GoTooOld { needed: sources::GO, output })
}

fn explain(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::GoMissing { needed: sources::GO },
        _ => Error::Go(error),
    }
}

/// The `go` command with the user's proxy and cache settings, and none that would change the
/// result.
fn go(source: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(source)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn go_build(
    source: &Path,
    output: &Path,
    package: &'static str,
    meter: &Meter<'_>,
) -> Result<(), Error> {
    let version = "k8s.io/component-base/version";
    let release = sources::VERSION;
    let flags = format!(
        "-s -w -X {version}.gitVersion={release} -X {version}.gitMajor=1 -X {version}.gitMinor=36"
    );
    let mut child = go(source)
        .args(["build", "-v", "-trimpath", "-ldflags", &flags, "-o"])
        .arg(output)
        .arg(package)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::Go)?;
    yield_to_others(&child);
    let output = match child.stderr.take() {
        Some(stderr) => follow(stderr, meter).await,
        None => String::new(),
    };
    let status = child.wait().await.map_err(Error::Go)?;
    if status.success() { Ok(()) } else { Err(Error::Build { program: package, output }) }
}

fn yield_to_others(child: &tokio::process::Child) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid
        && let Err(error) = rustix::process::setpriority_process(Some(pid), NICENESS)
    {
        tracing::debug!(%error, "cannot lower the priority of the build");
    }
}

/// Reads the output of Go: downloads first, then the name of each compiled package. Returns the
/// last lines, which have the cause if it fails.
async fn follow(stderr: impl AsyncRead + Unpin, meter: &Meter<'_>) -> String {
    const KEPT: usize = 12;
    let mut lines = BufReader::new(stderr).lines();
    let mut last: Vec<String> = Vec::new();
    let mut ticks = tokio::time::interval(MEASURE_EVERY);
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { break };
                meter.saw(&line);
                if last.len() == KEPT {
                    last.remove(0);
                }
                last.push(line);
            }
            _ = ticks.tick() => meter.measure().await,
        }
    }
    last.join("\n")
}

/// Reports the progress of the build. Its size is the growth of Go's cache: the programs themselves
/// are written only at the end.
struct Meter<'a> {
    cache: PathBuf,
    before: u64,
    progress: &'a Progress,
}

impl<'a> Meter<'a> {
    async fn new(cache: PathBuf, progress: &'a Progress) -> Self {
        let before = size_of(cache.clone()).await;
        progress.begin(PART, "building");
        Self { cache, before, progress }
    }

    fn saw(&self, line: &str) {
        let step = if line.starts_with("go: ") { "downloading sources" } else { "compiling" };
        self.progress.begin(PART, step);
    }

    async fn measure(&self) {
        let grown = size_of(self.cache.clone()).await.saturating_sub(self.before);
        if grown > 0 {
            self.progress.bytes(PART, grown);
        }
    }
}

async fn size_of(folder: PathBuf) -> u64 {
    // An unknown size must not fail the build.
    tokio::task::spawn_blocking(move || size_below(&folder)).await.unwrap_or(0)
}

fn size_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size_below(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
