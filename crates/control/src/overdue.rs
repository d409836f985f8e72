//! Reports deletions that take too long: a gauge, and one log line for each.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use trueup_model::order::Unit;
use trueup_model::{Clock, ClusterId};
use trueup_store::Worker;

use crate::metrics::Metrics;

const EVERY: Duration = Duration::from_secs(30);
/// Longer than an unblocked deletion takes.
const LATE: SignedDuration = SignedDuration::from_mins(10);

pub(crate) struct Overdue {
    pub(crate) worker: Worker,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) cluster: ClusterId,
}

impl Overdue {
    /// Checks for ever.
    pub(crate) async fn run(self) {
        let mut known = BTreeSet::new();
        loop {
            let before = self.clock.now().checked_sub(LATE).unwrap_or_default();
            match self.worker.overdue_deletes(self.cluster, before).await {
                Ok(units) => self.report(&mut known, units),
                Err(error) => tracing::debug!(%error, "cannot count overdue deletions; will retry"),
            }
            self.clock.sleep(EVERY).await;
        }
    }

    fn report(&self, known: &mut BTreeSet<Unit>, units: Vec<Unit>) {
        self.metrics.deletes_overdue.set(i64::try_from(units.len()).unwrap_or(i64::MAX));
        for unit in units.iter().filter(|unit| !known.contains(unit)) {
            tracing::warn!(%unit, "deletion is overdue; its status says what blocks it");
        }
        *known = units.into_iter().collect();
    }
}
