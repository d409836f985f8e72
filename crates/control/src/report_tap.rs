//! The report tap: measures the executor's reports on their way to the report writer.
//!
//! It changes nothing and waits for nothing but the report writer.

use std::sync::Arc;

use tokio::sync::mpsc;
use trueup_model::Clock;
use trueup_model::report::Report;

use crate::metrics::{ByCause, Metrics};
use crate::service_meter::{FirstHealthy, ServiceMeter, changed_externally};

pub(crate) struct ReportTap {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) meter: ServiceMeter,
    /// Where services go that became healthy.
    pub(crate) healthy: mpsc::Sender<FirstHealthy>,
}

impl ReportTap {
    /// Runs until the executor or the report writer is gone.
    pub(crate) async fn run(self, mut from: mpsc::Receiver<Report>, to: mpsc::Sender<Report>) {
        while let Some(report) = from.recv().await {
            self.measure(&report);
            if to.send(report).await.is_err() {
                return;
            }
        }
    }

    fn measure(&self, report: &Report) {
        let at = self.clock.monotonic();
        let repaired = report.changes.iter().filter_map(changed_externally);
        if let Some(took) = self.metrics.repair_times.repaired(repaired, at) {
            let by = ByCause { cause: "repair" };
            self.metrics.reconcile_seconds.get_or_create(&by).observe(took.as_secs_f64());
        }
        if let Some(first) = self.meter.reported(report, self.clock.now(), at) {
            // A full channel costs a sample, and nothing waits for samples.
            let _full = self.healthy.try_send(first);
        }
    }
}
