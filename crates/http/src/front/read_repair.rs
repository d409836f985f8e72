//! Read repair: reading a diverged service requests a reconcile, at a limited rate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trueup_model::id::ServiceId;
use trueup_model::status::Reconciliation;
use trueup_store::ServiceRow;

use crate::AppState;

/// The shortest time between two repair requests for one service, however often it is read.
const INTERVAL: Duration = Duration::from_secs(30);
/// The most services with a recent repair request. Reads of others request nothing.
const MOST: usize = 1000;

/// The services with a recent repair request, each with its time by the monotonic clock.
#[derive(Debug, Clone, Default)]
pub struct ReadRepair {
    requested: Arc<Mutex<BTreeMap<ServiceId, Duration>>>,
}

impl ReadRepair {
    /// Whether a repair of this service may be requested now.
    fn is_due(&self, service: ServiceId, now: Duration) -> bool {
        let mut requested = self.requested.lock().unwrap_or_else(PoisonError::into_inner);
        requested.retain(|_, at| now.saturating_sub(*at) < INTERVAL);
        if requested.contains_key(&service) || requested.len() >= MOST {
            return false;
        }
        requested.insert(service, now);
        true
    }
}

/// Requests a reconcile of a diverged service, unless one was requested recently.
///
/// A failure is only logged: the reader gets its response in any case.
pub(crate) async fn request_repair(state: &AppState, row: &ServiceRow, found: Reconciliation) {
    let diverged = match found {
        Reconciliation::Diverged => row.frozen.is_none(),
        Reconciliation::Settled | Reconciliation::Pending => false,
    };
    if !diverged || !state.read_repair.is_due(row.service.id, state.clock.monotonic()) {
        return;
    }
    match state.app.repair_service(row, state.clock.now()).await {
        Ok(()) => state.signals.wake(),
        Err(error) => tracing::debug!(%error, "cannot record a repair request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repair_requests_are_limited_per_service_and_in_total() {
        let repairs = ReadRepair::default();
        let service = |n| ServiceId::from_uuid(uuid::Uuid::from_u128(n));
        let at = Duration::from_secs;
        let requested = [(1, 0), (1, 1), (2, 1), (1, 29), (1, 30), (1, 31)]
            .map(|(n, second)| repairs.is_due(service(n), at(second)));
        assert_eq!(requested, [true, false, true, false, true, false]);
        for n in 10..2000 {
            repairs.is_due(service(n), at(31));
        }
        assert!(!repairs.is_due(service(5000), at(32)), "at most MOST services");
    }
}
