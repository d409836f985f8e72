//! Records reports in tests, without a number to keep.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use trueup_model::report::Report;
use trueup_store::{Error, Lease, Worker};

/// The number of the next batch; it counts up in each database.
pub fn next_batch() -> i64 {
    static BATCH: AtomicI64 = AtomicI64::new(1);
    BATCH.fetch_add(1, Ordering::Relaxed)
}

/// Records reports as the next batch.
pub trait RecordReports {
    /// Returns how many had news.
    ///
    /// # Errors
    /// Those of [`Worker::record_reports_once`].
    fn record_reports(
        &self,
        lease: Lease,
        reports: &[Report],
        now: Timestamp,
    ) -> impl Future<Output = Result<usize, Error>> + Send;
}

impl RecordReports for Worker {
    async fn record_reports(
        &self,
        lease: Lease,
        reports: &[Report],
        now: Timestamp,
    ) -> Result<usize, Error> {
        self.record_reports_once(lease, next_batch(), reports, now).await
    }
}
