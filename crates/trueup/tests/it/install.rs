//! Test installs, each in its own directory.
//!
//! Starting Kubernetes takes seconds, so tests share two installs that have one: [`shared`] is used
//! by many tests at once and stays up; [`alone`] is for one test at a time, which may break it. A
//! test that needs its own install uses the Kubernetes of the shared one.
//!
//! A shell process outlives the test process and stops the install when that process ends in any
//! way: statics are never dropped, and a killed test must not leave servers running.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::ops::Deref;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use trueup_api::Client;
use trueup_api::client::ServiceQuery;
use trueup_api::service::Service;
use trueup_cluster::kube::Kube;
use trueup_local::supervise::Process;
use trueup_local::{Progress, kube, layout};
use trueup_model::cluster::Reachability;

pub(crate) use crate::wait::SOON;
use crate::wait::eventually;

pub(crate) const TRUEUP: &str = env!("CARGO_BIN_EXE_trueup");
/// Longer than any command takes on a busy machine: waits time out after five minutes.
const COMMAND: Duration = Duration::from_secs(360);

static SHARED: OnceCell<Install> = OnceCell::const_new();
static ALONE: OnceCell<Install> = OnceCell::const_new();
static TURN: Mutex<()> = Mutex::const_new(());
static COUNT: AtomicU16 = AtomicU16::new(0);

/// A data directory, and the arguments of its `trueup up`.
#[derive(Debug)]
pub(crate) struct Install {
    dir: PathBuf,
    port: u16,
    cluster: Option<PathBuf>,
    keeper: Child,
}

/// The exit code and output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    /// Fails unless the command succeeded.
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// The printed JSON values.
    pub(crate) fn json(&self) -> Vec<Value> {
        serde_json::Deserializer::from_str(&self.out)
            .into_iter()
            .collect::<Result<_, _>>()
            .unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Fails unless the exit code matches and stderr contains every word.
    pub(crate) fn failed_with(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for word in words {
            assert!(self.err.contains(word), "`{word}` is not in {self:#?}");
        }
    }
}

/// Exclusive use of the install that a test may break.
pub(crate) struct Turn {
    install: &'static Install,
    _guard: MutexGuard<'static, ()>,
}

impl Deref for Turn {
    type Target = Install;

    fn deref(&self) -> &Install {
        self.install
    }
}

/// The shared install, running with its cluster.
pub(crate) async fn shared() -> &'static Install {
    SHARED.get_or_init(with_kubernetes).await
}

/// The install that a test may break, running with its cluster; one test at a time.
pub(crate) async fn alone() -> Turn {
    let guard = TURN.lock().await;
    let install = ALONE.get_or_init(with_kubernetes).await;
    // Restart it if the last test left it down, so that one failure does not cause others.
    install.up(&[]).await.succeeded();
    install.reachable().await;
    Turn { install, _guard: guard }
}

/// A new running install with its own Kubernetes.
async fn with_kubernetes() -> Install {
    kube::build(&layout::cache_dir(), &Progress::new()).await.unwrap();
    let install = Install::new(None);
    install.up(&[]).await.succeeded();
    install.reachable().await;
    install
}

impl Install {
    /// An install that is not running yet; it uses this cluster, or starts its own.
    pub(crate) fn new(cluster: Option<&Path>) -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir =
            layout::cache_dir().join("test-installs").join(format!("{}-{number}", process_id()));
        // Traversable by others: Postgres runs as another user if the test runs as root.
        DirBuilder::new().recursive(true).mode(0o711).create(&dir).unwrap();
        let keeper = Command::new("sh")
            .args(["-c", r#"read -r _; "$TRUEUP" --data-dir "$DIR" down; rm -rf "$DIR""#])
            .env("TRUEUP", TRUEUP)
            .env("DIR", &dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        Self { dir, port: free_port(), cluster: cluster.map(Path::to_owned), keeper }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The context file of this install's commands.
    pub(crate) fn config(&self) -> PathBuf {
        self.dir.join("reader-config.yaml")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A `trueup` command for this install, without inherited `TRUEUP_` variables.
    pub(crate) fn command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(TRUEUP);
        command.arg("--data-dir").arg(&self.dir).args(args).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let ours = name.to_str().is_some_and(|name| name.starts_with("TRUEUP_"));
            if ours && name != "TRUEUP_CACHE_DIR" {
                command.env_remove(name);
            }
        }
        command.env("TRUEUP_CONFIG", self.config()).env_remove("DATABASE_URL");
        command
    }

    /// Runs a command, and again while the server answers that its database is unavailable: on a starved
    /// machine a connection may come too late, and the problem says to retry.
    pub(crate) async fn trueup(&self, args: &[&str]) -> CommandOutput {
        eventually("the database to be available", SOON, || async {
            let output = self.trueup_once(args).await;
            let unavailable = ["HTTP 503", "TU2001", "database is unavailable"]
                .iter()
                .any(|text| output.err.contains(text));
            (!unavailable).then_some(output)
        })
        .await
    }

    /// Runs a command once, for tests that take the database away.
    pub(crate) async fn trueup_once(&self, args: &[&str]) -> CommandOutput {
        let running = self.command(args).kill_on_drop(true).output();
        let output = tokio::time::timeout(COMMAND, running)
            .await
            .unwrap_or_else(|_| panic!("trueup {args:?} did not end"))
            .unwrap();
        CommandOutput {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The arguments of `trueup up` for this install.
    pub(crate) fn up_args<'a>(&'a self, more: &[&'a str]) -> Vec<String> {
        let mut args = vec!["up".to_owned(), "--port".to_owned(), self.port.to_string()];
        if let Some(cluster) = &self.cluster {
            args.extend(["--cluster".to_owned(), cluster.to_str().unwrap().to_owned()]);
        }
        args.extend(more.iter().map(|&arg| arg.to_owned()));
        args
    }

    /// Starts the install in the background and waits until it is ready.
    pub(crate) async fn up(&self, more: &[&str]) -> CommandOutput {
        let args = self.up_args(more);
        let args: Vec<&str> = args.iter().map(String::as_str).chain(["--detach"]).collect();
        self.trueup(&args).await
    }

    /// Waits until the cluster is reachable.
    pub(crate) async fn reachable(&self) {
        eventually("the cluster to be reachable", COMMAND, || async {
            let clusters = self.client()?.cluster_list().await.ok()?;
            clusters
                .items
                .iter()
                .all(|one| one.reachability == Reachability::Reachable)
                .then_some(())
        })
        .await;
    }

    /// A client with the token that `trueup up` wrote; `None` before.
    pub(crate) fn client(&self) -> Option<Client> {
        let (url, token) = self.access()?;
        Some(Client::new(&url, &token).unwrap())
    }

    /// The address of the API and the token that `trueup up` wrote; `None` before.
    pub(crate) fn access(&self) -> Option<(String, String)> {
        let file: Value = self.json_file("client.json")?;
        Some((file["url"].as_str()?.to_owned(), file["token"].as_str()?.to_owned()))
    }

    /// The services with their ids and health, in order.
    pub(crate) async fn services(&self) -> Vec<Service> {
        self.client().unwrap().service_list(&ServiceQuery::default()).await.unwrap().items
    }

    /// The path of the cluster's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.cluster.clone().unwrap_or_else(|| self.dir.join("kube/kubeconfig"))
    }

    /// A client of the cluster that bypasses Trueup.
    pub(crate) fn kube(&self) -> Kube {
        Kube::from_kubeconfig(&self.kubeconfig()).unwrap()
    }

    /// Writes a file into the data directory and returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.dir.join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The process that a pid file of this install names.
    pub(crate) fn process(&self, pid_file: &str) -> Option<Process> {
        serde_json::from_value(self.json_file(pid_file)?).ok()
    }

    /// Every process with this install's directory in its arguments or as its working directory.
    pub(crate) fn processes(&self) -> Vec<(u32, String)> {
        let dir = self.dir.to_str().unwrap();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let works_here = fs::read_link(entry.path().join("cwd"))
                .is_ok_and(|folder| folder.starts_with(&self.dir));
            // `…/7-1` is also the start of `…/7-15`.
            let named = line.match_indices(dir).any(|(at, _)| {
                line[at + dir.len()..].chars().next().is_none_or(|next| !next.is_ascii_digit())
            });
            if named || works_here {
                found.push((pid, line));
            }
        }
        found
    }

    fn json_file(&self, name: &str) -> Option<Value> {
        match fs::read(self.dir.join(name)) {
            Ok(bytes) => serde_json::from_slice(&bytes).ok(),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

impl Drop for Install {
    /// Signals the shell to stop the install; no test waits for that.
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
    }
}

/// A free port below the kernel's ephemeral range. Parallel test processes start at ports that are
/// far apart.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(process_id() % 110 * 100).unwrap();
    (0..1000)
        .map(|_| 20_000 + first + NEXT.fetch_add(1, Ordering::Relaxed))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}

fn process_id() -> u32 {
    std::process::id()
}
