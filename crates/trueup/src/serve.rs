//! Serving: everything of one install in one process, wired together and taken down in order.
//!
//! The parts below (Postgres, the local Kubernetes) are kept alive for as long as the loops and the
//! API run, and are stopped after them.

mod logs;
mod parts;
mod seed;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use trueup_api::Client;
use trueup_cluster::Switch;
use trueup_control::{Measured, Metrics, Sealer, Sweep, Tenure};
use trueup_http::{Door, Doubts, Limits, LiveLogs, Streams};
use trueup_local::{Progress, kube};
use trueup_model::Clock;
use trueup_rules::envelope::Keyring;
use trueup_store::{App, DbClock, Signals, Worker, bootstrap};

use crate::cli::connection::ClientFile;
use crate::cli::secret::Secret;
use crate::demo;
use crate::install::{Install, role_passwords};

/// What to serve.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The port on 127.0.0.1.
    pub(crate) port: u16,
    /// A kubeconfig, instead of the local cluster.
    pub(crate) cluster: Option<PathBuf>,
    /// Whether to declare the demo data.
    pub(crate) demo: bool,
    /// Whether all pods of the local cluster are simulated, also where they could really run.
    pub(crate) simulated: bool,
}

impl Options {
    /// Whether there will be a node on which pods really run, as far as this machine can tell.
    pub(crate) fn expects_real_node(&self) -> bool {
        self.cluster.is_none() && !self.simulated && kube::node::missing().is_none()
    }
}

/// Serves until `stop`; says through `ready` when requests are answered.
pub(crate) async fn run(
    install: &Install,
    options: &Options,
    progress: &Progress,
    ready: oneshot::Sender<ClientFile>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // The port first: it is the one thing that a person may have to change.
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("port {} is taken; choose another with --port, or stop what uses it", options.port)
    })?;
    let postgres = parts::start_postgres(install, progress).await?;
    let system = System::build(install, postgres.admin_url(), options).await?;
    let url = format!("http://{}", listener.local_addr()?);

    let stop_parts = CancellationToken::new();
    let front = async {
        let served = system.serve(listener, url, options, ready, stop).await;
        stop_parts.cancel();
        served
    };
    let (served, kube, postgres) = tokio::join!(
        front,
        parts::keep_cluster(install, options, progress, &system, &stop_parts),
        parts::keep_postgres(install, postgres, progress, &stop_parts),
    );
    if let Some(kube) = kube {
        progress.begin("kubernetes", "stopping");
        kube.stop().await?;
        progress.finish("kubernetes");
    }
    if let Some(postgres) = postgres {
        postgres.stop().await?;
    }
    served
}

/// What every part of a serving process shares.
struct System {
    app: App,
    worker: Worker,
    signals: Signals,
    clock: Arc<DbClock>,
    switch: Arc<Switch>,
    logs: Arc<logs::ClusterLogs>,
    seeded: seed::Seeded,
    master_key: [u8; 32],
    keys: Keyring,
    holder: String,
}

impl System {
    /// Makes the database ready and opens it.
    async fn build(
        install: &Install,
        admin_url: String,
        options: &Options,
    ) -> anyhow::Result<Self> {
        let master_key = install.master_key()?;
        let urls = bootstrap(&admin_url, "trueup", &role_passwords(&master_key)).await?;
        let app = App::connect(&urls.app)?;
        let clock = Arc::new(DbClock::unanchored());
        clock.anchor(&app).await?;
        let keys = install.keyring(&master_key)?;
        let real_node = options.expects_real_node();
        let seeded = seed::seed(install, &urls.owner, &keys, real_node, clock.now()).await?;
        Ok(Self {
            app,
            worker: Worker::connect(&urls.worker)?,
            signals: Signals::default(),
            clock,
            switch: Arc::default(),
            logs: Arc::default(),
            seeded,
            master_key,
            keys,
            holder: install.holder()?,
        })
    }

    /// Runs the API and the loops until `stop`.
    async fn serve(
        &self,
        listener: TcpListener,
        url: String,
        options: &Options,
        ready: oneshot::Sender<ClientFile>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let door = Door {
            app: self.app.clone(),
            signals: self.signals.clone(),
            clock: self.clock(),
            sealer: self.keys.clone().sealer(),
            registry: Arc::new(registry),
            stop: stop.clone(),
            streams: Streams::default(),
            doubts: Doubts::default(),
            logs: self.logs(),
        };
        let router = trueup_http::router(door);
        let server = trueup_http::serve(listener, router, Limits::default(), stop.clone());
        let announce = async {
            let announced = self.announce(url, options, ready).await;
            if announced.is_err() {
                // Nobody was told that it is up, so it must not stay up.
                stop.cancel();
            }
            announced
        };
        let server = async { server.await.context("the API stopped") };
        let sealer = Sealer {
            worker: self.worker.clone(),
            signals: self.signals.clone(),
            clock: self.clock(),
            metrics: metrics.clone(),
        };
        let sweep = Sweep { worker: self.worker.clone(), clock: self.clock() };
        let loops = async {
            tokio::select! {
                () = self.tenure(metrics).run(stop.clone()) => {}
                () = sealer.run() => {}
                () = sweep.run() => {}
            }
        };
        let (served, announced, ()) = tokio::join!(server, announce, loops);
        announced.and(served)
    }

    /// Declares the demo and says that requests are answered.
    async fn announce(
        &self,
        url: String,
        options: &Options,
        ready: oneshot::Sender<ClientFile>,
    ) -> anyhow::Result<()> {
        let token = Secret::from(self.seeded.owner_token.clone());
        let project = options.demo.then(|| demo::PROJECT.to_owned());
        let client = ClientFile { url, token, project, kubeconfig: options.cluster.clone() };
        if options.demo {
            let client = Client::new(&client.url, client.token.reveal())?;
            demo::declare(&client, options.expects_real_node()).await?;
        }
        // Nobody listens any more only if the process is already on its way out.
        let _unheard = ready.send(client);
        Ok(())
    }

    fn clock(&self) -> Arc<dyn Clock> {
        let clock: Arc<DbClock> = Arc::clone(&self.clock);
        clock
    }

    fn logs(&self) -> Arc<dyn LiveLogs> {
        let logs: Arc<logs::ClusterLogs> = Arc::clone(&self.logs);
        logs
    }

    fn tenure(&self, metrics: Metrics) -> Tenure {
        let switch: Arc<Switch> = Arc::clone(&self.switch);
        Tenure {
            worker: self.worker.clone(),
            signals: self.signals.clone(),
            clock: self.clock(),
            metrics: metrics.clone(),
            cluster: Arc::new(Measured::new(switch, self.clock(), metrics)),
            cluster_id: self.seeded.cluster,
            holder: self.holder.clone(),
            master_key: self.master_key,
            opener: self.keys.clone().opener(),
        }
    }
}
