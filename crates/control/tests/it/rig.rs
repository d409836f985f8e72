//! A control plane for one test: its own database, its own fake cluster, loops that can be stopped.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trueup_cluster::Cluster;
use trueup_control::{LeaseHolder, Measured, Metrics, Sealer};
use trueup_model::Clock;
use trueup_model::drift::DriftPolicy;
use trueup_model::secret::MasterKey;
use trueup_model::status::{Health, Phase};
use trueup_model::usage::GapPolicy;
use trueup_rules::admit::AdmissionRequest;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_rules::envelope::{Keyring, SharedKeyring};
use trueup_store::door::{RequestContext, ServiceRequest};
use trueup_store::{DbClock, ServiceDetail, Signals, Worker};
use trueup_testkit::fake_cluster::FakeCluster;
use trueup_testkit::test_db::{TestDb, name};

use crate::scaled_clock::ScaledClock;

/// Longer than any wait of a passing test, in real time and on a very busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(300);
/// How often a test polls the condition it waits for, in real time.
pub(crate) const POLL: Duration = Duration::from_millis(25);

pub(crate) struct Rig {
    pub(crate) db: TestDb,
    pub(crate) fake: FakeCluster,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) signals: Signals,
    /// The database connection of the loops.
    pub(crate) worker: Worker,
    /// The keys of the process that is started next.
    pub(crate) keys: SharedKeyring,
    tasks: JoinSet<()>,
    /// Advances the clock, whether or not any loop runs.
    time: JoinSet<()>,
    registry: Registry,
}

impl Rig {
    /// Loops on a fast clock.
    pub(crate) async fn new() -> Self {
        let clock = ScaledClock::new();
        let mut rig = Self::on(Arc::new(clock.clone())).await;
        rig.time.spawn(clock.run(rig.db.app.clone()));
        rig
    }

    /// Loops in real time, for tests with a slow database.
    pub(crate) async fn in_real_time() -> Self {
        Self::on(Arc::new(DbClock::unanchored())).await
    }

    /// Loops on this clock.
    pub(crate) async fn on(clock: Arc<dyn Clock>) -> Self {
        let db = TestDb::new().await;
        Self {
            worker: db.worker.clone(),
            db,
            fake: FakeCluster::new(),
            clock,
            signals: Signals::default(),
            keys: SharedKeyring::new(Keyring::new(&[7; 32])),
            tasks: JoinSet::new(),
            time: JoinSet::new(),
            registry: Registry::default(),
        }
    }

    /// Starts the loops of one process; cancelling the token shuts them down gracefully.
    pub(crate) fn start(&mut self, holder: &str) -> CancellationToken {
        let cluster: Arc<dyn Cluster> = Arc::new(self.fake.clone());
        self.start_on(holder, cluster)
    }

    pub(crate) fn start_on(
        &mut self,
        holder: &str,
        cluster: Arc<dyn Cluster>,
    ) -> CancellationToken {
        let metrics = Metrics::register(&mut self.registry);
        let cluster = Arc::new(Measured::new(cluster, Arc::clone(&self.clock), metrics.clone()));
        let stop = CancellationToken::new();
        let lease_holder = LeaseHolder {
            worker: self.worker.clone(),
            app: self.db.app.clone(),
            signals: self.signals.clone(),
            clock: Arc::clone(&self.clock),
            metrics: metrics.clone(),
            cluster,
            cluster_id: self.db.cluster,
            holder: holder.to_owned(),
            master_key: MasterKey::new([7; 32]),
            decryptor: self.keys.decryptor(),
            gap_policy: GapPolicy::default(),
        };
        let sealer = Sealer {
            worker: self.worker.clone(),
            signals: self.signals.clone(),
            clock: Arc::clone(&self.clock),
            metrics,
        };
        self.tasks.spawn(lease_holder.run(stop.clone()));
        let sealing = stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = sealer.run() => {}
                () = sealing.cancelled() => {}
            }
        });
        stop
    }

    /// The metrics of the processes, as text.
    pub(crate) fn metrics_text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("metrics should be encoded");
        text
    }

    /// Waits until every loop that was started has ended.
    pub(crate) async fn ended(&mut self) {
        let ended = tokio::time::timeout(LONG, async {
            while let Some(ended) = self.tasks.join_next().await {
                ended.expect("a loop should not panic");
            }
        });
        assert!(ended.await.is_ok(), "every loop should end");
    }

    /// Aborts all loops at once, as a crash would.
    pub(crate) async fn crash(&mut self) {
        self.tasks.shutdown().await;
    }

    pub(crate) async fn declare_project(&self) {
        let owner = self.db.owner();
        let context = RequestContext::new(&owner, None);
        let now = self.clock.now();
        self.db
            .app
            .accept_project(self.db.org, &name("shop"), &DriftPolicy::default(), &context, now)
            .await
            .expect("a project should be accepted");
        self.signals.wake();
        self.signals.event();
    }

    /// Declares a web service with this image.
    pub(crate) async fn declare(&self, service: &str, image: &str) {
        let owner = self.db.owner();
        let context = RequestContext::new(&owner, None);
        let parameters: Map<String, Value> = Map::from_iter([("image".to_owned(), json!(image))]);
        let template = "web@1".parse().expect("a template should be named");
        let request = AdmissionRequest {
            template,
            plan: None,
            parameters,
            drift: DriftPolicy::default(),
            active: None,
        };
        let name = name(service);
        let wanted = ServiceRequest::declare("shop", &name, &request);
        let accepted =
            self.db.app.accept_service(self.db.org, &wanted, &context, self.clock.now()).await;
        assert!(accepted.expect("a service should be accepted").changed);
        self.signals.wake();
        self.signals.event();
    }

    pub(crate) async fn delete(&self, service: &str) -> String {
        let owner = self.db.owner();
        let context = RequestContext::new(&owner, None);
        let wanted = ServiceRequest::act("shop", service, &ServiceOperation::Delete);
        let accepted =
            self.db.app.accept_service(self.db.org, &wanted, &context, self.clock.now()).await;
        self.signals.wake();
        accepted.expect("a deletion should be accepted").row.service.id.to_string()
    }

    pub(crate) async fn get(&self, service: &str) -> ServiceDetail {
        let found = self.db.app.find_service(self.db.org, "shop", service).await;
        found.expect("the database should answer").expect("the service should be there")
    }

    pub(crate) async fn until(
        &self,
        service: &str,
        wanted: impl Fn(&ServiceDetail) -> bool,
    ) -> ServiceDetail {
        let reached = tokio::time::timeout(LONG, async {
            loop {
                let detail = self.get(service).await;
                if wanted(&detail) {
                    return detail;
                }
                tokio::time::sleep(POLL).await;
            }
        });
        if let Ok(detail) = reached.await {
            return detail;
        }
        let detail = self.get(service).await;
        let (status, in_progress) = (&detail.row.status, self.db.under_way().await);
        assert!(
            wanted(&detail),
            "{service} did not reach the expected state: {status:#?}, {in_progress:#?}"
        );
        detail
    }

    /// Waits until this many wakes are left.
    pub(crate) async fn until_wakes(&self, wanted: i64) {
        let reached = tokio::time::timeout(LONG, async {
            loop {
                let (queued, running) = self.db.count_wakes().await;
                if queued + running == wanted {
                    return;
                }
                tokio::time::sleep(POLL).await;
            }
        });
        assert!(reached.await.is_ok(), "there should be {wanted} wakes left");
    }

    pub(crate) async fn until_running(&self, service: &str) -> ServiceDetail {
        self.until(service, running).await
    }
}

pub(crate) fn running(detail: &ServiceDetail) -> bool {
    let status = &detail.row.status;
    (status.phase, status.health) == (Phase::Running, Health::Healthy)
        && status.applied_generation == Some(detail.row.service.generation)
}

pub(crate) fn deleted(detail: &ServiceDetail) -> bool {
    detail.row.status.phase == Phase::Deleted && detail.receipt.is_some()
}
