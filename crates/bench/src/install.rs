//! The release binary with its own Postgres and Kubernetes, both empty.
//!
//! The binary is started as users start it and used through its API. The bench starts the cluster
//! itself, so that it outlives Trueup and the floor can be measured on the same objects.

use std::fs::{self, DirBuilder};
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool};
use tokio::process::Command;
use trueup_api::Client;
use trueup_api::template::TemplateManifest;
use trueup_cluster::kube::Kube;
use trueup_local::kube::{self, LocalKube, build};
use trueup_local::postgres::{self, Postgres};
use trueup_local::{Progress, layout};
use trueup_model::cluster::Reachability;

use crate::wait::until;

/// The same number as `trueup up` gives a local cluster.
const NODES: u32 = 3;
const SOON: Duration = Duration::from_secs(120);
/// An anchor, a ConfigMap, a Service and a Deployment without pods.
const TEMPLATE: &str = include_str!("template.json");

/// A Kubernetes that starts empty.
pub(crate) struct Cluster {
    local: LocalKube,
    /// A client of the cluster.
    pub(crate) kube: Kube,
}

impl Cluster {
    /// Starts a cluster, as durable as that of `trueup up`.
    pub(crate) async fn start(name: &str) -> anyhow::Result<Self> {
        let cache = layout::cache_dir();
        let dir = folder()?.join(format!("{name}-kube"));
        kube::stop_left(&cache, &dir).await?;
        remove(&dir)?;
        let progress = Progress::new();
        let binaries = build(&cache, &progress).await?;
        let options = kube::Options { dir, nodes: NODES, fast: false, real_node: false };
        let local = LocalKube::adopt_or_start(&binaries, &options, &progress).await?;
        let kube = Kube::from_kubeconfig(local.kubeconfig())?;
        Ok(Self { local, kube })
    }

    /// The supervisor process of all components.
    pub(crate) fn pid(&self) -> u32 {
        self.local.pid()
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        Ok(self.local.stop().await?)
    }
}

/// A running Trueup.
pub(crate) struct Install {
    dir: PathBuf,
    /// The client of the org's owner.
    pub(crate) client: Client,
    /// The client of the operator, for that org.
    pub(crate) operator: Client,
    /// Direct access to the database.
    pub(crate) db: PgPool,
    /// The URL of the Postgres server, without a database name.
    pub(crate) database: String,
    /// The process of `trueup`.
    pub(crate) pid: u32,
    /// The process of Postgres.
    pub(crate) postgres_pid: u32,
}

#[derive(Deserialize)]
struct PidFile {
    pid: u32,
}

#[derive(Deserialize)]
struct ClientFile {
    url: String,
    token: String,
}

impl Install {
    /// Starts Trueup on this cluster, with a large quota for its org.
    pub(crate) async fn start(name: &str, cluster: &Cluster) -> anyhow::Result<Self> {
        let dir = folder()?.join(name);
        if dir.exists() {
            trueup(&dir, &["down"]).await?;
            remove(&dir)?;
        }
        DirBuilder::new().mode(0o711).create(&dir)?;
        let kubeconfig = cluster.local.kubeconfig().to_str().context("the path is not UTF-8")?;
        let port = free_port()?.to_string();
        let up = ["up", "--detach", "--no-demo", "--port", &port, "--cluster", kubeconfig];
        trueup(&dir, &up).await?;
        let pids =
            [read::<PidFile>(&dir.join("trueup.pid.json"))?, read(&dir.join("postgres/pid.json"))?];
        let ClientFile { url, token } = read(&dir.join("client.json"))?;
        let client = Client::new(&url, &token)?;
        let operator = fs::read_to_string(dir.join("operator.token"))?;
        let operator = Client::new(&url, operator.trim())?.with_org("demo")?;
        let options = postgres::Options { dir: dir.join("postgres"), durable: true };
        let admin = Postgres::adopt_or_start(&options, &Progress::new()).await?.admin_url();
        let database = admin.rsplit_once('/').context("unexpected Postgres URL")?.0.to_owned();
        let db = PgPoolOptions::new().max_connections(2);
        let db = db.connect(&format!("{database}/trueup")).await?;
        let [pid, postgres_pid] = pids.map(|file| file.pid);
        let install = Self { dir, client, operator, db, database, pid, postgres_pid };
        install.prepare().await?;
        Ok(install)
    }

    async fn prepare(&self) -> anyhow::Result<()> {
        let quota = json!({"services": 1_000_000, "cpu_millis": 1_000_000_000, "memory_mib": 1_000_000_000,
                          "storage_gib": 0, "gpus": 0});
        self.operator.quota_put(&serde_json::from_value(quota)?).await?;
        let addressed: TemplateManifest = serde_json::from_str(TEMPLATE)?;
        self.operator.template_publish(&addressed).await?;
        let mut unaddressed: Value = serde_json::from_str(TEMPLATE)?;
        unaddressed["name"] = json!("bench-unaddressed");
        unaddressed["spec"]["ports"] = json!([]);
        self.operator.template_publish(&serde_json::from_value(unaddressed)?).await?;
        until("the cluster to be reachable", SOON, || async {
            let clusters = self.client.cluster_list().await?;
            Ok(clusters.items.iter().all(|one| one.reachability == Reachability::Reachable))
        })
        .await
    }

    /// A number from the database.
    pub(crate) async fn count(&self, statement: &str) -> anyhow::Result<i64> {
        Ok(sqlx::query_scalar(AssertSqlSafe(statement.to_owned())).fetch_one(&self.db).await?)
    }

    /// Waits until this many services are reported healthy.
    pub(crate) async fn healthy(&self, services: usize) -> anyhow::Result<()> {
        until("the services to be healthy", SOON * 5, || async {
            let healthy =
                "select count(*) from statuses where subject_kind = 'service' and health = 'healthy'";
            Ok(usize::try_from(self.count(healthy).await?)? >= services)
        })
        .await
    }

    /// Waits until no wake is queued and every event is sealed.
    pub(crate) async fn quiet(&self) -> anyhow::Result<()> {
        until("Trueup to become idle", SOON * 5, || async {
            let waiting =
                "select (select count(*) from wakes) + (select count(*) from event_queue)";
            Ok(self.count(waiting).await? == 0)
        })
        .await
    }

    /// Takes the cluster lease for the bench, so that nothing that is declared is reconciled.
    pub(crate) async fn stand_by(&self) -> anyhow::Result<()> {
        let statements = "update leases set holder = 'bench', epoch = epoch + 1;
             update lease_heartbeats h set epoch = l.epoch, expires_at = now() + interval '1 hour'
             from leases l where l.scope_id = h.scope_id";
        sqlx::raw_sql(statements).execute(&self.db).await?;
        until("Trueup to release the cluster lease", SOON, || async {
            Ok(self.metrics().await?.contains("trueup_lease_held 0\n"))
        })
        .await
    }

    /// The text of `/metrics`.
    pub(crate) async fn metrics(&self) -> anyhow::Result<String> {
        let answer = self.operator.raw("GET", "/metrics", &[], None).await?;
        ensure!(answer.status == 200, "/metrics answered {}", answer.status);
        Ok(String::from_utf8(answer.body)?)
    }

    /// Calls to Kubernetes with these verbs, by Trueup's own counter.
    pub(crate) async fn calls(&self, verbs: &[&str]) -> anyhow::Result<usize> {
        let text = self.metrics().await?;
        let verbs: Vec<String> = verbs.iter().map(|verb| format!("verb=\"{verb}\"")).collect();
        let lines = text.lines().filter(|line| line.starts_with("trueup_cluster_calls_total"));
        let counts = lines.filter(|line| verbs.iter().any(|verb| line.contains(verb)));
        let counts = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
        Ok(counts.sum())
    }

    /// Stops Trueup; the cluster stays.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.db.close().await;
        trueup(&self.dir, &["down"]).await?;
        remove(&self.dir)
    }
}

/// The folder of all benches. Others may traverse it: Postgres runs as another user if we are root.
fn folder() -> anyhow::Result<PathBuf> {
    let dir = layout::cache_dir().join("bench");
    DirBuilder::new().recursive(true).mode(0o711).create(&dir)?;
    Ok(dir)
}

/// Runs the `trueup` binary next to this one.
async fn trueup(dir: &Path, args: &[&str]) -> anyhow::Result<()> {
    let own = std::env::current_exe()?;
    let program = own.with_file_name("trueup");
    ensure!(program.is_file(), "{} does not exist; run `make bench`", program.display());
    let mut command = Command::new(program);
    command.arg("--data-dir").arg(dir).args(args).env_remove("DATABASE_URL");
    let output = command.kill_on_drop(true).output().await?;
    if !output.status.success() {
        bail!("trueup {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

fn remove(dir: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
