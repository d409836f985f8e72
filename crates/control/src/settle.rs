//! The settle loop: gathers reports for a moment and writes them down in one transaction.
//!
//! While the database is away, reports wait here, merged by unit, and nothing is lost that the
//! executor could not see again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use trueup_model::order::Unit;
use trueup_model::report::Report;
use trueup_model::{Clock, crash};
use trueup_store::{Error, Lease, Signals, Worker};

use crate::metrics::{Ended, Metrics};

/// How long reports are gathered, so that one transaction carries many.
const GATHER: Duration = Duration::from_millis(10);
const BATCH: usize = 512;
const AWAY: Duration = Duration::from_millis(500);

pub(crate) struct Settle {
    pub(crate) worker: Worker,
    pub(crate) signals: Signals,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) lease: Lease,
}

impl Settle {
    /// Settles until the lease is over or nobody reports any more.
    pub(crate) async fn run(self, mut reports: mpsc::Receiver<Report>) {
        let mut waiting: BTreeMap<Unit, Report> = BTreeMap::new();
        loop {
            if waiting.is_empty() {
                match reports.recv().await {
                    Some(report) => self.add(&mut waiting, report),
                    None => return,
                }
                self.clock.sleep(GATHER).await;
            }
            while waiting.len() < BATCH {
                match reports.try_recv() {
                    Ok(report) => self.add(&mut waiting, report),
                    Err(_) => break,
                }
            }
            let batch: Vec<Report> = waiting.values().cloned().collect();
            match self.worker.settle(self.lease, &batch, self.clock.now()).await {
                Ok(news) => {
                    crash::point("settle.settled").await;
                    waiting.clear();
                    if news > 0 {
                        self.signals.event();
                    }
                }
                Err(Error::Fenced) => return,
                Err(error) if error.is_defect() => self.settle_apart(&mut waiting).await,
                Err(error) => {
                    tracing::warn!(%error, reports = waiting.len(), "reports cannot be settled now");
                    self.clock.sleep(AWAY).await;
                }
            }
        }
    }

    /// Settles each report alone, to find the one that cannot be: its unit is left for an operator, and
    /// the others go on.
    async fn settle_apart(&self, waiting: &mut BTreeMap<Unit, Report>) {
        while let Some((unit, report)) = waiting.pop_first() {
            let settled = self
                .worker
                .settle(self.lease, std::slice::from_ref(&report), self.clock.now())
                .await;
            let Err(error) = settled else { continue };
            if !error.is_defect() {
                waiting.insert(unit, report);
                return;
            }
            tracing::error!(%unit, %error, "a report cannot be settled; this is a defect in Trueup");
            let why = "what is stored of its status cannot be worked with; see the log";
            if let Err(error) = self.worker.bury_unit(unit, why, self.clock.now()).await {
                tracing::warn!(%unit, %error, "nobody could be told of it");
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
        changes,
        ..later
    }
}
