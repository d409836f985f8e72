//! The settle loop: gathers reports for a moment and writes them down in one transaction.
//!
//! While the database is away, reports wait here, merged by unit, and nothing is lost that the
//! executor could not see again. A batch has a number, so that one whose answer was lost is not told twice.

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

/// How long reports are gathered, so that one transaction carries many.
const GATHER: Duration = Duration::from_millis(10);
/// How far two transactions are apart at least while reports keep coming.
const APART: Duration = Duration::from_millis(100);
const BATCH: usize = 512;
const AWAY: Duration = Duration::from_millis(500);

pub(crate) struct ReportWriter {
    pub(crate) worker: Worker,
    pub(crate) signals: Signals,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) lease: Lease,
    /// The number of the batch that is being written down.
    pub(crate) batch: i64,
}

/// The lease is over: somebody else settles now.
struct Over;

/// Reports that came and are not written down yet.
struct Inbox {
    reports: mpsc::Receiver<Report>,
    waiting: BTreeMap<Unit, Report>,
}

impl ReportWriter {
    /// Settles until the lease is over or nobody reports any more.
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
            if self.settle(batch, &mut inbox).await.is_err() {
                return;
            }
        }
    }

    /// Writes one batch down, for as long as that takes. It stays as it is meanwhile: if the answer was
    /// lost and not the question, its number is known already and it is not written again.
    async fn settle(&mut self, batch: Vec<Report>, inbox: &mut Inbox) -> Result<(), Over> {
        self.batch = self.batch.saturating_add(1);
        loop {
            let now = self.clock.now();
            let settled = self.worker.settle_once(self.lease, self.batch, &batch, now);
            match within(&*self.clock, settled).await {
                Ok(news) => {
                    crash::point("report.recorded").await;
                    if news > 0 {
                        self.signals.event();
                    }
                    if batch.iter().any(|report| report.survey.is_some()) {
                        // The project goes on now that its look is on record.
                        self.signals.wake();
                    }
                    return Ok(());
                }
                Err(Error::Fenced) => return Err(Over),
                Err(error) if error.is_defect() => return self.part(batch, &error, inbox).await,
                Err(error) => {
                    tracing::warn!(%error, reports = batch.len(), "reports cannot be settled now");
                    self.clock.sleep(AWAY).await;
                    self.gather(inbox);
                }
            }
        }
    }

    /// Settles each report alone, to find the one that cannot be: its unit is left for an operator, and
    /// the others go on.
    async fn part(
        &mut self,
        mut batch: Vec<Report>,
        error: &Error,
        inbox: &mut Inbox,
    ) -> Result<(), Over> {
        if batch.len() > 1 {
            for report in batch {
                Box::pin(self.settle(vec![report], inbox)).await?;
            }
            return Ok(());
        }
        let Some(Report { unit, .. }) = batch.pop() else { return Ok(()) };
        tracing::error!(%unit, %error, "a report cannot be settled; this is a defect in Trueup");
        let why = "what is stored of its status cannot be worked with; see the log";
        let buried = self.worker.bury_unit(unit, why, self.clock.now());
        if let Err(error) = within(&*self.clock, buried).await {
            tracing::warn!(%unit, %error, "nobody could be told of it");
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

/// The later report with the changes of both; sight and proof of the earlier one stand until renewed.
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
