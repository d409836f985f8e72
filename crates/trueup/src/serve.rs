//! The serving process: wires all parts of an install together and shuts them down in order.
//!
//! Postgres and the local Kubernetes are kept running while the API and the loops run, and are
//! stopped after them.

mod files;
mod keys;
mod listen;
mod logs;
mod outbox;
mod parts;
mod providers;
mod recognise;
mod seed;

pub(crate) use seed::OWNER;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use trueup_api::Client;
use trueup_cluster::Switch;
use trueup_cluster::kube::Kube;
use trueup_control::dns::{Dns, Names};
use trueup_control::{
    Accruer, Closer, DomainVerifier, LeaseHolder, Measured, Metrics, Notifier, Purge, Sealer,
};
use trueup_http::{AppState, Dashboard, LiveLogs, Passwords, ReadRepair, SpendCache};
use trueup_local::Progress;
use trueup_local::postgres::Postgres;
use trueup_model::Clock;
use trueup_model::usage::GapPolicy;
use trueup_rules::event::checkpoint::CheckpointKey;
use trueup_rules::password::Cost;
use trueup_store::{App, DbClock, Signals, Urls, Worker, bootstrap, is_ours};

use crate::config::Config;
use crate::demo;
use crate::install::{Install, role_passwords};
use trueup_cli::connect::connection::ClientFile;
use trueup_cli::failure::{Exit, Failure};
use trueup_model::secret::{MasterKey, SecretValue};

use files::Capacity;
use keys::LiveKeys;
use listen::Listeners;
use outbox::Outbox;
use providers::Providers;
use recognise::{Unrecognised, recognise};

/// The name of the database.
const DATABASE: &str = "trueup";
/// How often the clock is synchronised with the database.
const CLOCK_SYNC_INTERVAL: Duration = Duration::from_secs(60);

/// Options of the serving process.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The configuration.
    pub(crate) config: Config,
    /// Whether another cluster replaces the recorded one.
    pub(crate) replaced: bool,
}

/// Serves until `stop`; signals through `ready` when the API accepts requests.
pub(crate) async fn run(
    install: &Install,
    options: &Options,
    progress: &Progress,
    ready: oneshot::Sender<ClientFile>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // The addresses first: they are the most likely to be unavailable.
    let listeners = Listeners::bind(&options.config).await?;
    let postgres = match options.config.database {
        Some(_) => None,
        None => Some(parts::start_postgres(install, progress).await?),
    };
    let system = System::build(install, postgres.as_ref(), options).await?;
    refuse_wrong_cluster(&system, options).await?;

    let stop_parts = CancellationToken::new();
    let front = async {
        let served = Box::pin(system.serve(listeners, options, ready, stop.clone())).await;
        stop_parts.cancel();
        served
    };
    let (served, kept, postgres) = tokio::join!(
        front,
        parts::keep_cluster(install, options, progress, &system, (&stop, &stop_parts)),
        parts::keep_postgres(install, postgres, progress, &stop_parts),
    );
    if let Some(kube) = kept.kube {
        progress.begin("kubernetes", "stopping");
        kube.stop().await?;
        progress.finish("kubernetes");
    }
    if let Some(postgres) = postgres {
        postgres.stop().await?;
    }
    kept.wrong_cluster.map_or(served, |failure| Err(failure.into()))
}

/// Fails early if the given cluster is the wrong one; an unreachable cluster is checked later.
async fn refuse_wrong_cluster(system: &System, options: &Options) -> anyhow::Result<()> {
    let given = options.config.kubeconfig.as_deref().map(Kube::from_kubeconfig);
    let Some(Ok(kube)) = given else { return Ok(()) };
    match recognise(system, &kube, options.replaced).await {
        Err(Unrecognised::WrongCluster(failure)) => Err(failure.into()),
        Err(Unrecognised::Unavailable(_)) | Ok(()) => Ok(()),
    }
}

/// Prepares an external database; refuses one that belongs to another master key.
async fn prepare_external(
    install: &Install,
    given: &SecretValue,
    master_key: &MasterKey,
) -> anyhow::Result<Urls> {
    let (url, passwords) = (given.reveal(), role_passwords(master_key.reveal()));
    if !is_ours(url, DATABASE, &passwords).await.context("cannot use the given database")? {
        let foreign = "this database belongs to another master key, and nothing in it was changed";
        return Err(Failure::new(Exit::Failed, foreign)
            .hint(format!(
                "copy master.key and every secrets.key.N from a replica of this database to {}, and \
                 start again",
                install.dir().display()
            ))
            .into());
    }
    let ready = bootstrap(url, DATABASE, &passwords).await;
    ready.context("cannot prepare the given database")
}

/// Asks the configured name servers, or those of this machine.
fn names(options: &Options) -> Arc<dyn Names> {
    Arc::new(match options.config.name_servers.as_slice() {
        [] => Dns::system(),
        servers => Dns::servers(servers),
    })
}

/// State shared by all parts of the serving process.
struct System {
    app: App,
    worker: Worker,
    signals: Signals,
    clock: Arc<DbClock>,
    switch: Arc<Switch>,
    logs: Arc<logs::ClusterLogs>,
    seeded: seed::Seeded,
    master_key: MasterKey,
    keys: LiveKeys,
    holder: String,
    outbox: PathBuf,
}

impl System {
    /// Prepares the database and opens it.
    async fn build(
        install: &Install,
        postgres: Option<&Postgres>,
        options: &Options,
    ) -> anyhow::Result<Self> {
        let master_key = install.master_key()?;
        let urls = match (&options.config.database, postgres) {
            (Some(given), _) => prepare_external(install, given, &master_key).await?,
            (None, postgres) => {
                let admin_url = postgres.context("no database")?.admin_url();
                bootstrap(&admin_url, DATABASE, &role_passwords(master_key.reveal())).await?
            }
        };
        let app = App::connect(&urls.app)?;
        let clock = Arc::new(DbClock::unanchored());
        clock.anchor(&app).await?;
        let keys = LiveKeys::read(install, master_key.clone(), urls.owner.clone())?;
        let present = keys.shared().current();
        let seeded = seed::seed(install, &urls.owner, &present, options, clock.now()).await?;
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
            outbox: install.outbox(),
        })
    }

    /// Runs the API and the loops until `stop`.
    async fn serve(
        &self,
        listeners: Listeners,
        options: &Options,
        ready: oneshot::Sender<ClientFile>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let billing = Arc::new(options.config.billing.clone());
        let (url, capacity) = (listeners.local_url()?, Capacity::of(files::raise()));
        let address = options.config.public_address().unwrap_or_else(|| url.clone());
        let providers = Providers::new(self, options, &address)?;
        let names = names(options);
        let identity_reconciler = providers.reconciler(self, Arc::clone(&names));
        let state = AppState {
            app: self.app.clone(),
            signals: self.signals.clone(),
            clock: self.clock(),
            encryptor: self.keys.shared().encryptor(),
            registry: Arc::new(registry),
            stop: stop.clone(),
            streams: capacity.streams(),
            read_repair: ReadRepair::default(),
            passwords: Passwords::new(Cost::RECOMMENDED)?,
            mail: Arc::new(Outbox { folder: self.outbox.clone(), address }),
            logs: self.logs(),
            providers: Arc::new(providers),
            billing: Arc::clone(&billing),
            spend: SpendCache::default(),
            dashboard: Dashboard::new(trueup_dashboard::FILES),
            checkpoints: Arc::new(CheckpointKey::new(self.master_key.reveal())),
        };
        let router = trueup_http::router(state);
        let server =
            listeners.serve(router, &capacity, &options.config, self.clock(), stop.clone());
        let announce = async {
            let announced = self.announce(url, options, ready).await;
            if announced.is_err() {
                // Startup failed: stop the server.
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
        let purge = Purge { worker: self.worker.clone(), clock: self.clock() };
        let notifier = self.notifier();
        let domain_verifier = self.domain_verifier(names, metrics.clone());
        let accruer = Accruer {
            app: self.app.clone(),
            signals: self.signals.clone(),
            worker: self.worker.clone(),
            clock: self.clock(),
            settings: Arc::clone(&billing),
        };
        let closer = Closer {
            app: self.app.clone(),
            worker: self.worker.clone(),
            signals: self.signals.clone(),
            clock: self.clock(),
            settings: Arc::clone(&billing),
        };
        let loops = async {
            tokio::select! {
                () = notifier.run() => {}
                () = self.sync_clock() => {}
                () = self.keys.follow(&*self.clock) => {}
                () = self.lease_holder(metrics, billing.gap_policy).run(stop.clone()) => {}
                () = accruer.run() => {}
                () = closer.run() => {}
                () = sealer.run() => {}
                () = purge.run() => {}
                () = domain_verifier.run() => {}
                () = identity_reconciler.run() => {}
            }
        };
        let (served, announced, ()) = tokio::join!(server, announce, loops);
        announced.and(served)
    }

    /// Synchronises the clock with the database: replicas share its time.
    async fn sync_clock(&self) {
        loop {
            self.clock.sleep(CLOCK_SYNC_INTERVAL).await;
            if let Err(error) = self.clock.anchor(&self.app).await {
                tracing::debug!(%error, "cannot read the database time; keeping the last one");
            }
        }
    }

    /// Declares the demo data and signals that the API is ready.
    async fn announce(
        &self,
        url: String,
        options: &Options,
        ready: oneshot::Sender<ClientFile>,
    ) -> anyhow::Result<()> {
        let token = SecretValue::from(self.seeded.owner_token.clone());
        let config = &options.config;
        let project = config.demo.then(|| demo::PROJECT.to_owned());
        let (public_url, kubeconfig) = (config.public_address(), config.kubeconfig.clone());
        let client = ClientFile { url, token, project, public_url, kubeconfig };
        if config.demo {
            let client = Client::new(&client.url, client.token.reveal())?;
            demo::declare(&client, config.expects_real_node()).await?;
        }
        // The receiver is only gone if the process is shutting down.
        let _dropped = ready.send(client);
        Ok(())
    }

    fn notifier(&self) -> Notifier {
        Notifier {
            worker: self.worker.clone(),
            signals: self.signals.clone(),
            clock: self.clock(),
            name: format!("{}/{}", self.holder, std::process::id()),
        }
    }

    fn domain_verifier(&self, names: Arc<dyn Names>, metrics: Metrics) -> DomainVerifier {
        DomainVerifier {
            worker: self.worker.clone(),
            app: self.app.clone(),
            signals: self.signals.clone(),
            clock: self.clock(),
            metrics,
            names,
        }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        let clock: Arc<DbClock> = Arc::clone(&self.clock);
        clock
    }

    fn logs(&self) -> Arc<dyn LiveLogs> {
        let logs: Arc<logs::ClusterLogs> = Arc::clone(&self.logs);
        logs
    }

    fn lease_holder(&self, metrics: Metrics, gap_policy: GapPolicy) -> LeaseHolder {
        let switch: Arc<Switch> = Arc::clone(&self.switch);
        LeaseHolder {
            worker: self.worker.clone(),
            app: self.app.clone(),
            signals: self.signals.clone(),
            clock: self.clock(),
            metrics: metrics.clone(),
            cluster: Arc::new(Measured::new(switch, self.clock(), metrics)),
            cluster_id: self.seeded.cluster,
            holder: self.holder.clone(),
            master_key: self.master_key.clone(),
            decryptor: self.keys.shared().decryptor(),
            gap_policy,
        }
    }
}
