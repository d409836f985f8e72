//! A tenure: the time during which this process works on a cluster.
//!
//! It begins with the lease and ends when somebody else has it. Everything that works on the cluster
//! lives inside, so that nothing outlives the right to do so.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trueup_cluster::kube::DEADLINE;
use trueup_cluster::{Cluster, Executor, Fence, InFlightWindow, Notices, Parts};
use trueup_model::cluster::Freshness;
use trueup_model::freeze::Freeze;
use trueup_model::{Clock, ClusterId, crash};
use trueup_rules::envelope::Decryptor;
use trueup_rules::render::proof::ProofKey;
use trueup_store::{Error, Lease, Observer, Signals, Turn, Worker};

use crate::backlog::Backlog;
use crate::deadline::{within, within_time};
use crate::driver::Driver;
use crate::finding_recorder::FindingRecorder;
use crate::metrics::Metrics;
use crate::overdue::Overdue;
use crate::preview_filler::Planner;
use crate::recorder::Recorder;
use crate::report_writer::ReportWriter;
use crate::silence::Silence;

/// How often the switches are looked at when nobody says that one was turned.
const FREEZE_POLL: Duration = Duration::from_secs(1);

/// What it takes to work on a cluster.
#[derive(Debug, Clone)]
pub struct LeaseHolder {
    /// The database.
    pub worker: Worker,
    /// Who calls, and whom to tell.
    pub signals: Signals,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Counters.
    pub metrics: Metrics,
    /// The cluster to ask.
    pub cluster: Arc<dyn Cluster>,
    /// Which cluster it is.
    pub cluster_id: ClusterId,
    /// Who this process is: the same after a restart, so that it need not wait for its own lease.
    pub holder: String,
    /// For generated secrets and proofs.
    pub master_key: [u8; 32],
    /// For secrets that people brought.
    pub opener: Decryptor,
}

/// What a tenure begins with.
struct Begun {
    lease: Lease,
    fence: Arc<Fence>,
    freeze: Option<Freeze>,
    /// When each kind was last heard by the holder before.
    before: Freshness,
}

impl LeaseHolder {
    /// Works on the cluster whenever the lease can be had, until it is told to stop; says all the while
    /// what waits there.
    pub async fn run(self, stop: CancellationToken) {
        let backlog = Backlog {
            worker: self.worker.clone(),
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            cluster: self.cluster_id,
        };
        tokio::select! {
            () = self.take_turns(&stop) => {}
            () = backlog.run() => {}
        }
    }

    async fn take_turns(&self, stop: &CancellationToken) {
        let mut silence = Silence::default();
        while !stop.is_cancelled() {
            match self.acquire(&mut silence).await {
                Ok(Some(begun)) => self.hold(begun, stop).await,
                Ok(None) => {
                    tracing::debug!(cluster = %self.cluster_id, "another process holds the lease")
                }
                Err(error) => tracing::warn!(%error, "the lease cannot be asked for now"),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.clock.sleep(Lease::RENEW_EVERY / 3) => {}
            }
        }
    }

    async fn acquire(&self, silence: &mut Silence) -> Result<Option<Begun>, Error> {
        let asked_at = self.clock.monotonic();
        let now = self.clock.now();
        let dead = silence.longer_than(Lease::TTL, asked_at);
        let asked = self.worker.acquire_lease(self.cluster_id, &self.holder, dead, now);
        let lease = match within(&*self.clock, asked).await? {
            Turn::Ours(lease) => lease,
            Turn::Theirs { until } => {
                silence.note(until, asked_at);
                return Ok(None);
            }
        };
        let fence = Arc::new(Fence::closed(Arc::clone(&self.clock)));
        fence.open(asked_at, Lease::WRITE_FOR);
        crash::point("lease_holder.leased").await;
        // A new executor knows nothing: it is told everything once.
        let woken = within(&*self.clock, self.worker.wake_all(self.cluster_id, now)).await?;
        tracing::info!(cluster = %self.cluster_id, epoch = lease.epoch, woken, "working on the cluster");
        // Before the first order: what is frozen is not touched, not even once.
        let freeze = within(&*self.clock, self.worker.find_freeze(self.cluster_id)).await?;
        // Read before this observer is heard itself: a gap begins where the last one ended.
        let before = within(&*self.clock, self.worker.freshness(self.cluster_id)).await;
        let before = before.unwrap_or_default();
        Ok(Some(Begun { lease, fence, freeze, before }))
    }

    /// Runs the loops until the lease is lost or the process stops.
    async fn hold(&self, begun: Begun, stop: &CancellationToken) {
        let (lease, fence) = (begun.lease, Arc::clone(&begun.fence));
        self.metrics.lease_held.set(1);
        let mut loops = JoinSet::new();
        let executor = self.start(&begun, &mut loops);
        let why = tokio::select! {
            () = stop.cancelled() => "told to stop",
            () = self.keep(lease, &fence) => "the lease was lost",
            () = self.note_freshness(lease, &executor) => "the executor ended",
            () = self.heed_freezes(&executor) => "nobody can freeze it any more",
            _ = loops.join_next() => "a loop ended; all of them start again",
        };
        tracing::info!(cluster = %self.cluster_id, epoch = lease.epoch, why, "leaving the cluster");
        fence.close();
        loops.shutdown().await;
        self.metrics.stand_by();
        if stop.is_cancelled() {
            let given = self.worker.release_lease(lease, self.clock.now());
            if within_time(&*self.clock, Lease::RENEW_EVERY, given).await.is_err() {
                tracing::debug!("the lease could not be given back; it ends by itself");
            }
        }
    }

    /// Starts the executor, the driver, the settle loop, the recorder, the finder and the planner.
    fn start(&self, begun: &Begun, loops: &mut JoinSet<()>) -> Arc<Executor> {
        let lease = begun.lease;
        let (reports_in, reports) = mpsc::channel(4096);
        let parts = Parts {
            cluster: Arc::clone(&self.cluster),
            proofs: ProofKey::new(&self.master_key, self.cluster_id),
            fence: Arc::clone(&begun.fence),
            clock: Arc::clone(&self.clock),
            observer: format!("executor/{}", self.holder),
            echo: InFlightWindow { lasts: Lease::TTL + DEADLINE, inherited: lease.epoch > 1 },
        };
        let before = begun.before.clone();
        let observer = Observer { lease, name: parts.observer.clone(), before };
        let notices = Notices::kept();
        let executor = Arc::new(Executor::start_noting(parts, reports_in.clone(), &notices, loops));
        executor.brake().set(begun.freeze.clone());
        let finder = FindingRecorder {
            worker: self.worker.clone(),
            signals: self.signals.clone(),
            clock: Arc::clone(&self.clock),
            lease,
            notices: notices.clone(),
            executor: Arc::clone(&executor),
        };
        loops.spawn(finder.run());
        let recorder = Recorder {
            worker: self.worker.clone(),
            clock: Arc::clone(&self.clock),
            observer,
            notices,
        };
        loops.spawn(recorder.run());
        let settle = ReportWriter {
            worker: self.worker.clone(),
            signals: self.signals.clone(),
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            lease,
            batch: 0,
        };
        let driver = Driver {
            worker: self.worker.clone(),
            signals: self.signals.clone(),
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            lease,
            executor: Arc::clone(&executor),
            master_key: self.master_key,
            opener: self.opener.clone(),
            reports: reports_in,
        };
        let planner = Planner {
            worker: self.worker.clone(),
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            lease,
            executor: Arc::clone(&executor),
            master_key: self.master_key,
            opener: self.opener.clone(),
        };
        loops.spawn(planner.run());
        let overdue = Overdue {
            worker: self.worker.clone(),
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            cluster: self.cluster_id,
        };
        loops.spawn(overdue.run());
        loops.spawn(settle.run(reports));
        loops.spawn(driver.run());
        executor
    }

    /// Renews the lease; ends when it is lost.
    async fn keep(&self, lease: Lease, fence: &Fence) {
        loop {
            self.clock.sleep(Lease::RENEW_EVERY).await;
            let asked_at = self.clock.monotonic();
            // A connection that is dead must not cost the lease: the next one is tried in time.
            let asked = self.worker.renew_lease(lease, self.clock.now());
            match within_time(&*self.clock, Lease::RENEW_EVERY, asked).await {
                Ok(()) => fence.open(asked_at, Lease::WRITE_FOR),
                Err(Error::Fenced) => return,
                Err(error) => {
                    // Nothing new is begun until the database answers again.
                    fence.close();
                    tracing::warn!(%error, "the lease could not be renewed; no writes until it is");
                }
            }
        }
    }

    /// Keeps the executor's brake as the switches of the cluster and the platform are: at once when
    /// somebody says so, and once a second in case that was not heard.
    async fn heed_freezes(&self, executor: &Executor) {
        let mut freezes = self.signals.freezes();
        loop {
            tokio::select! {
                told = freezes.changed() => if told.is_err() { return },
                () = self.clock.sleep(FREEZE_POLL) => {}
            }
            match within(&*self.clock, self.worker.find_freeze(self.cluster_id)).await {
                Ok(freeze) => executor.brake().set(freeze),
                // The switches stay as they were; without the database the fence closes anyway.
                Err(error) => tracing::debug!(%error, "the switches cannot be read now"),
            }
        }
    }

    /// Records when each kind was last heard: at once when the first one is, then now and then. One
    /// row for all of the cluster's objects.
    async fn note_freshness(&self, lease: Lease, executor: &Executor) {
        let mut freshness = executor.freshness();
        while freshness.changed().await.is_ok() {
            let heard = freshness.borrow_and_update().clone();
            if let Err(error) = within(&*self.clock, self.worker.heard_kinds(lease, &heard)).await {
                tracing::debug!(%error, "the cluster's freshness could not be recorded");
            }
            self.clock.sleep(Lease::RENEW_EVERY).await;
        }
    }
}
