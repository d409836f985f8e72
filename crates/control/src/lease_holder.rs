//! Holds the cluster lease and runs the cluster's loops.
//!
//! The loops start when the lease is acquired and are stopped when it is lost, so that no loop
//! works on a cluster without its lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trueup_cluster::kube::DEADLINE;
use trueup_cluster::{Cluster, Executor, Fence, InFlightWindow, Notices, Parts};
use trueup_model::cluster::Freshness;
use trueup_model::freeze::Freeze;
use trueup_model::report::Report;
use trueup_model::secret::MasterKey;
use trueup_model::usage::GapPolicy;
use trueup_model::{Clock, ClusterId, crash};
use trueup_rules::envelope::Decryptor;
use trueup_rules::render::proof::ProofKey;
use trueup_store::{App, Error, Lease, Observer, Signals, Turn, Worker};

use crate::acceptance_timer::AcceptanceTimer;
use crate::adopter::Adopter;
use crate::backlog::Backlog;
use crate::capacity_check::CapacityCheck;
use crate::contact::{Contact, Contacted};
use crate::deadline::{within, within_time};
use crate::driver::Driver;
use crate::finding_recorder::FindingRecorder;
use crate::given_orders::GivenOrders;
use crate::hours_follower::HoursFollower;
use crate::metrics::Metrics;
use crate::order_check::OrderCheck;
use crate::overdue::Overdue;
use crate::preview_filler::PreviewFiller;
use crate::reachability_recorder::ReachabilityRecorder;
use crate::recorder::Recorder;
use crate::report_tap::ReportTap;
use crate::report_writer::ReportWriter;
use crate::reprojector::Reprojector;
use crate::service_meter::ServiceMeter;
use crate::silence::Silence;
use crate::usage_meter::UsageMeter;

/// How often freezes are read without a notification.
const FREEZE_POLL: Duration = Duration::from_secs(1);

/// Competes for a cluster's lease and works on the cluster while holding it.
#[derive(Debug, Clone)]
pub struct LeaseHolder {
    /// The database.
    pub worker: Worker,
    /// The door, for values that a drift policy adopts.
    pub app: App,
    /// Signals from and to the other parts of this process.
    pub signals: Signals,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The metrics.
    pub metrics: Metrics,
    /// The cluster's API.
    pub cluster: Arc<dyn Cluster>,
    /// The cluster's id.
    pub cluster_id: ClusterId,
    /// The name of this process: the same after a restart, so that it need not wait for its own
    /// lease to expire.
    pub holder: String,
    /// The key that generated secrets and proofs are derived from.
    pub master_key: MasterKey,
    /// Decrypts the secrets that users set.
    pub decryptor: Decryptor,
    /// What a time without observation costs.
    pub gap_policy: GapPolicy,
}

/// An acquired lease, and what was read with it.
struct Acquired {
    lease: Lease,
    fence: Arc<Fence>,
    freeze: Option<Freeze>,
    /// The freshness of each kind's watch under the previous holder.
    before: Freshness,
}

impl LeaseHolder {
    /// Works on the cluster whenever this process holds the lease, until `stop` is cancelled. The
    /// backlog is measured all the time.
    pub async fn run(self, stop: CancellationToken) {
        let backlog = Backlog {
            worker: self.worker.clone(),
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            cluster: self.cluster_id,
        };
        tokio::select! {
            () = self.acquire_and_hold(&stop) => {}
            () = backlog.run() => {}
        }
    }

    async fn acquire_and_hold(&self, stop: &CancellationToken) {
        let mut silence = Silence::default();
        while !stop.is_cancelled() {
            match self.acquire(&mut silence).await {
                Ok(Some(acquired)) => self.hold(acquired, stop).await,
                Ok(None) => {
                    tracing::debug!(cluster = %self.cluster_id, "another process holds the lease")
                }
                Err(error) => tracing::warn!(%error, "cannot acquire the lease; will retry"),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.clock.sleep(Lease::RENEW_EVERY / 3) => {}
            }
        }
    }

    async fn acquire(&self, silence: &mut Silence) -> Result<Option<Acquired>, Error> {
        let asked_at = self.clock.monotonic();
        let now = self.clock.now();
        let dead = silence.longer_than(Lease::TTL, asked_at);
        let acquiring = self.worker.acquire_lease(self.cluster_id, &self.holder, dead, now);
        let lease = match within(&*self.clock, acquiring).await? {
            Turn::Ours(lease) => lease,
            Turn::Theirs { until } => {
                silence.note(until, asked_at);
                return Ok(None);
            }
        };
        let fence = Arc::new(Fence::closed(Arc::clone(&self.clock)));
        fence.open(asked_at, Lease::WRITE_FOR);
        crash::point("lease_holder.leased").await;
        // A new executor starts without orders: every unit is queued once.
        let woken = within(&*self.clock, self.worker.wake_all(self.cluster_id, now)).await?;
        tracing::info!(cluster = %self.cluster_id, epoch = lease.epoch, woken, "lease acquired");
        // Before the first order, so that nothing frozen is ever written.
        let freeze = within(&*self.clock, self.worker.find_freeze(self.cluster_id)).await?;
        // Before this holder records its own: a gap begins where the previous holder's watch ended.
        let before = within(&*self.clock, self.worker.freshness(self.cluster_id)).await;
        let mut before = before.unwrap_or_default();
        // What was heard and never recorded is part of the gap.
        let recorded = within(&*self.clock, self.worker.watermarks(self.cluster_id)).await?;
        let known = recorded.iter().filter_map(|(source, at)| Some((source.kind()?, at.seen_at)));
        before.heard.extend(known);
        Ok(Some(Acquired { lease, fence, freeze, before }))
    }

    /// Runs the loops until the lease is lost or `stop` is cancelled.
    async fn hold(&self, acquired: Acquired, stop: &CancellationToken) {
        let (lease, fence) = (acquired.lease, Arc::clone(&acquired.fence));
        self.metrics.lease_held.set(1);
        let mut loops = JoinSet::new();
        let executor = self.start(&acquired, &mut loops);
        let why = tokio::select! {
            () = stop.cancelled() => "shutting down",
            () = self.renew(lease, &fence) => "lease lost",
            () = self.record_freshness(lease, &executor) => "the executor ended",
            () = self.follow_freezes(&executor) => "the freeze signal was closed",
            _ = loops.join_next() => "a loop ended; restarting all loops",
        };
        tracing::info!(cluster = %self.cluster_id, epoch = lease.epoch, why, "stopping the loops");
        fence.close();
        loops.shutdown().await;
        self.metrics.stand_by();
        if stop.is_cancelled() {
            let released = self.worker.release_lease(lease, self.clock.now());
            if within_time(&*self.clock, Lease::RENEW_EVERY, released).await.is_err() {
                tracing::debug!("cannot release the lease; it will expire");
            }
        }
    }

    /// Starts the executor and the other loops of the cluster.
    fn start(&self, acquired: &Acquired, loops: &mut JoinSet<()>) -> Arc<Executor> {
        let lease = acquired.lease;
        let (reports_in, reports) = mpsc::channel(4096);
        let contact = Contact::new(Arc::clone(&self.clock), acquired.before.newest());
        let given = GivenOrders::default();
        let meter = ServiceMeter::new(self.metrics.clone(), self.cluster_id);
        let parts = Parts {
            cluster: Arc::new(Contacted::new(Arc::clone(&self.cluster), contact.clone())),
            proofs: ProofKey::new(self.master_key.reveal(), self.cluster_id),
            fence: Arc::clone(&acquired.fence),
            clock: Arc::clone(&self.clock),
            observer: format!("executor/{}", self.holder),
            in_flight: InFlightWindow { lasts: Lease::TTL + DEADLINE, inherited: lease.epoch > 1 },
        };
        let before = acquired.before.clone();
        let observer = Observer { lease, name: parts.observer.clone(), before };
        let notices = Notices::kept();
        let executor =
            Arc::new(Executor::record_updates(parts, reports_in.clone(), &notices, loops));
        executor.brake().set(acquired.freeze.clone());
        let finding_recorder = FindingRecorder {
            worker: self.worker.clone(),
            signals: self.signals.clone(),
            clock: Arc::clone(&self.clock),
            lease,
            notices: notices.clone(),
            executor: Arc::clone(&executor),
        };
        loops.spawn(finding_recorder.run());
        let adopter = Adopter {
            app: self.app.clone(),
            worker: self.worker.clone(),
            signals: self.signals.clone(),
            clock: Arc::clone(&self.clock),
            lease,
        };
        loops.spawn(adopter.run());
        self.start_usage(observer, notices, &executor, loops);
        let report_writer = ReportWriter {
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
            given: given.clone(),
            meter: meter.clone(),
            master_key: self.master_key.clone(),
            decryptor: self.decryptor.clone(),
            reports: reports_in,
        };
        let preview_filler = PreviewFiller {
            worker: self.worker.clone(),
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            lease,
            executor: Arc::clone(&executor),
            master_key: self.master_key.clone(),
            decryptor: self.decryptor.clone(),
        };
        loops.spawn(preview_filler.run());
        let reports = self.start_meters(meter, reports, loops);
        loops.spawn(report_writer.run(reports));
        loops.spawn(driver.run());
        self.start_checks(lease, contact, given, loops);
        executor
    }

    /// Starts the loops that record what is observed and meter it.
    fn start_usage(
        &self,
        observer: Observer,
        notices: Notices,
        executor: &Executor,
        loops: &mut JoinSet<()>,
    ) {
        let recorded = Arc::new(Notify::new());
        let meter = UsageMeter {
            worker: self.worker.clone(),
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            lease: observer.lease,
            policy: self.gap_policy,
            recorded: Arc::clone(&recorded),
        };
        loops.spawn(meter.run());
        let capacity = CapacityCheck {
            worker: self.worker.clone(),
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            lease: observer.lease,
        };
        loops.spawn(capacity.run());
        let recorder = Recorder {
            worker: self.worker.clone(),
            clock: Arc::clone(&self.clock),
            observer,
            notices,
            heard: executor.freshness(),
            recorded,
        };
        loops.spawn(recorder.run());
    }

    /// Starts the loops that measure reports; returns the reports that went through them.
    fn start_meters(
        &self,
        meter: ServiceMeter,
        reports: mpsc::Receiver<Report>,
        loops: &mut JoinSet<()>,
    ) -> mpsc::Receiver<Report> {
        let (healthy_in, healthy) = mpsc::channel(1024);
        let tap = ReportTap {
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            meter,
            healthy: healthy_in,
        };
        let (measured_in, measured) = mpsc::channel(512);
        loops.spawn(tap.run(reports, measured_in));
        let acceptance_timer = AcceptanceTimer {
            worker: self.worker.clone(),
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
        };
        loops.spawn(acceptance_timer.run(healthy));
        measured
    }

    /// Starts the loops that check what the others do, and the one that follows active hours.
    fn start_checks(
        &self,
        lease: Lease,
        contact: Contact,
        given: GivenOrders,
        loops: &mut JoinSet<()>,
    ) {
        let reachability_recorder = ReachabilityRecorder {
            worker: self.worker.clone(),
            signals: self.signals.clone(),
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            lease,
            contact,
        };
        loops.spawn(reachability_recorder.run());
        let order_check = OrderCheck {
            worker: self.worker.clone(),
            signals: self.signals.clone(),
            clock: Arc::clone(&self.clock),
            lease,
            given,
        };
        loops.spawn(order_check.run());
        let overdue = Overdue {
            worker: self.worker.clone(),
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            cluster: self.cluster_id,
        };
        loops.spawn(overdue.run());
        let hours_follower = HoursFollower {
            app: self.app.clone(),
            worker: self.worker.clone(),
            signals: self.signals.clone(),
            clock: Arc::clone(&self.clock),
            cluster: self.cluster_id,
        };
        loops.spawn(hours_follower.run());
        let reprojector = Reprojector {
            worker: self.worker.clone(),
            signals: self.signals.clone(),
            clock: Arc::clone(&self.clock),
            lease,
        };
        loops.spawn(reprojector.run());
    }

    /// Renews the lease; returns when it is lost.
    async fn renew(&self, lease: Lease, fence: &Fence) {
        loop {
            self.clock.sleep(Lease::RENEW_EVERY).await;
            let asked_at = self.clock.monotonic();
            // A dead connection must not cost the lease: the next attempt comes in time.
            let renewing = self.worker.renew_lease(lease, self.clock.now());
            match within_time(&*self.clock, Lease::RENEW_EVERY, renewing).await {
                Ok(()) => fence.open(asked_at, Lease::WRITE_FOR),
                Err(Error::Fenced) => return,
                Err(error) => {
                    // No new writes until the database answers again.
                    fence.close();
                    tracing::warn!(%error, "cannot renew the lease; no writes until it is renewed");
                }
            }
        }
    }

    /// Passes the freezes of the cluster and the platform to the executor: on notification, and
    /// once a second in case a notification was lost.
    async fn follow_freezes(&self, executor: &Executor) {
        let mut freezes = self.signals.freezes();
        loop {
            tokio::select! {
                changed = freezes.changed() => if changed.is_err() { return },
                () = self.clock.sleep(FREEZE_POLL) => {}
            }
            match within(&*self.clock, self.worker.find_freeze(self.cluster_id)).await {
                Ok(freeze) => executor.brake().set(freeze),
                // The last known freeze stays; without the database the fence closes anyway.
                Err(error) => tracing::debug!(%error, "cannot read freezes; will retry"),
            }
        }
    }

    /// Records the freshness of the watches: at once on the first contact, then periodically. One
    /// row for all of the cluster's objects.
    async fn record_freshness(&self, lease: Lease, executor: &Executor) {
        let mut freshness = executor.freshness();
        while freshness.changed().await.is_ok() {
            let latest = freshness.borrow_and_update().clone();
            let recorded = self.worker.record_watches(lease, &latest);
            if let Err(error) = within(&*self.clock, recorded).await {
                tracing::debug!(%error, "cannot record the freshness of the watches; will retry");
            }
            self.clock.sleep(Lease::RENEW_EVERY).await;
        }
    }
}
