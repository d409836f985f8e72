//! The report writer: gathers reports for a moment and records them in one transaction.
//!
//! While the database is unavailable, reports wait here, merged by unit; whatever is lost with the
//! process the executor observes again. A batch has a number, so that a batch whose commit was not
//! acknowledged is not recorded twice.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use trueup_model::order::Unit;
use trueup_model::report::Report;
use trueup_model::{Clock, crash};
use trueup_store::{Error, Lease, Signals, Worker};

use crate::deadline::within;
use crate::metrics::{Ended, Metrics};

/// How long reports are gathered, so that one transaction records many.
const GATHER: Duration = Duration::from_millis(10);
/// The minimum time between two transactions.
const APART: Duration = Duration::from_millis(100);
const BATCH: usize = 512;
const RETRY: Duration = Duration::from_millis(500);

pub(crate) struct ReportWriter {
    pub(crate) worker: Worker,
    pub(crate) signals: Signals,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) lease: Lease,
    /// The number of the current batch.
    pub(crate) batch: i64,
}

/// The lease was lost: another process records reports now.
struct LeaseLost;

/// Reports that are not recorded yet.
struct Inbox {
    reports: mpsc::Receiver<Report>,
    waiting: BTreeMap<Unit, Report>,
}

impl ReportWriter {
    /// Runs until the lease is lost or the executor is gone.
    pub(crate) async fn run(mut self, reports: mpsc::Receiver<Report>) {
        let mut inbox = Inbox { reports, waiting: BTreeMap::new() };
        let mut next = Duration::ZERO;
        loop {
            if inbox.waiting.is_empty() {
                match inbox.reports.recv().await {
                    Some(report) => self.add(&mut inbox.waiting, report),
                    None => return,
                }
            }
            let early = next.saturating_sub(self.clock.monotonic());
            self.clock.sleep(early.max(GATHER)).await;
            next = self.clock.monotonic() + APART;
            self.gather(&mut inbox);
            let batch: Vec<Report> = mem::take(&mut inbox.waiting).into_values().collect();
            if self.record(batch, &mut inbox).await.is_err() {
                return;
            }
        }
    }

    /// Records one batch, retrying until that succeeds. The batch does not change meanwhile: if the
    /// commit succeeded without an acknowledgement, its number is stored and the retry does
    /// nothing.
    async fn record(&mut self, batch: Vec<Report>, inbox: &mut Inbox) -> Result<(), LeaseLost> {
        self.batch = self.batch.saturating_add(1);
        loop {
            let now = self.clock.now();
            let recording = self.worker.record_reports_once(self.lease, self.batch, &batch, now);
            match within(&*self.clock, recording).await {
                Ok(events) => {
                    crash::point("report.recorded").await;
                    if events > 0 {
                        self.signals.event();
                    }
                    if batch.iter().any(|report| report.survey.is_some()) {
                        // The project's deletion continues now that its survey is recorded.
                        self.signals.wake();
                    }
                    return Ok(());
                }
                Err(Error::Fenced) => return Err(LeaseLost),
                Err(error) if error.is_defect() => return self.isolate(batch, &error, inbox).await,
                Err(error) => {
                    let count = batch.len();
                    tracing::warn!(%error, count, "cannot record reports; will retry");
                    self.clock.sleep(RETRY).await;
                    self.gather(inbox);
                }
            }
        }
    }

    /// Records each report alone, to find the one that fails: its wake becomes dead, and the others
    /// are recorded.
    async fn isolate(
        &mut self,
        mut batch: Vec<Report>,
        error: &Error,
        inbox: &mut Inbox,
    ) -> Result<(), LeaseLost> {
        if batch.len() > 1 {
            for report in batch {
                Box::pin(self.record(vec![report], inbox)).await?;
            }
            return Ok(());
        }
        let Some(Report { unit, .. }) = batch.pop() else { return Ok(()) };
        tracing::error!(%unit, %error, "cannot record a report; this is a defect in Trueup");
        let why = "its stored status cannot be processed; see the server log";
        let buried = self.worker.mark_wake_dead(unit, why, self.clock.now());
        if let Err(error) = within(&*self.clock, buried).await {
            tracing::warn!(%unit, %error, "cannot mark the wake of the unit as dead");
        }
        Ok(())
    }

    fn gather(&self, inbox: &mut Inbox) {
        while inbox.waiting.len() < BATCH {
            match inbox.reports.try_recv() {
                Ok(report) => self.add(&mut inbox.waiting, report),
                Err(_) => break,
            }
        }
    }

    fn add(&self, waiting: &mut BTreeMap<Unit, Report>, report: Report) {
        let outcome = report.outcome.label();
        self.metrics.reports.get_or_create(&Ended { outcome }).inc();
        self.metrics.drift(&report.changes);
        match waiting.remove(&report.unit) {
            Some(earlier) => waiting.insert(report.unit, merge(earlier, report)),
            None => waiting.insert(report.unit, report),
        };
    }
}

/// The later report with the changes of both. The observation, receipt and survey of the earlier
/// one stay unless the later one has its own.
fn merge(earlier: Report, later: Report) -> Report {
    let mut changes = earlier.changes;
    changes.extend(later.changes);
    Report {
        observation: later.observation.or(earlier.observation),
        receipt: later.receipt.or(earlier.receipt),
        survey: later.survey.or(earlier.survey),
        changes,
        ..later
    }
}
