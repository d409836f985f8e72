//! A read that finds a service diverged asks for it to be looked at, once in a while.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trueup_model::id::ServiceId;
use trueup_model::status::Reconciliation;
use trueup_store::ServiceRow;

use crate::AppState;

/// For so long one doubt about a service is enough, however many people read it.
const ENOUGH: Duration = Duration::from_secs(30);
/// More services than this in doubt at once are no business of readers.
const MOST: usize = 1000;

/// Which services were doubted lately, and when by the monotonic clock.
#[derive(Debug, Clone, Default)]
pub struct ReadRepair {
    asked: Arc<Mutex<BTreeMap<ServiceId, Duration>>>,
}

impl ReadRepair {
    /// Whether it is time to ask for this one.
    fn is_due(&self, service: ServiceId, now: Duration) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|_, at| now.saturating_sub(*at) < ENOUGH);
        if asked.contains_key(&service) || asked.len() >= MOST {
            return false;
        }
        asked.insert(service, now);
        true
    }
}

/// Asks for a diverged service to be looked at, unless that was just asked for. The reader gets its
/// answer in any case.
pub(crate) async fn doubt(state: &AppState, row: &ServiceRow, found: Reconciliation) {
    let diverged = match found {
        Reconciliation::Diverged => row.frozen.is_none(),
        Reconciliation::Settled | Reconciliation::Pending => false,
    };
    if !diverged || !state.doubts.is_due(row.service.id, state.clock.monotonic()) {
        return;
    }
    match state.app.repair_service(row, state.clock.now()).await {
        Ok(()) => state.signals.wake(),
        Err(error) => tracing::debug!(%error, "a doubt could not be recorded"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_doubt_in_a_while_is_enough() {
        let doubts = ReadRepair::default();
        let service = |n| ServiceId::from_uuid(uuid::Uuid::from_u128(n));
        let at = Duration::from_secs;
        let asked = [(1, 0), (1, 1), (2, 1), (1, 29), (1, 30), (1, 31)]
            .map(|(n, second)| doubts.is_due(service(n), at(second)));
        assert_eq!(asked, [true, false, true, false, true, false]);
        for n in 10..2000 {
            doubts.is_due(service(n), at(31));
        }
        assert!(!doubts.is_due(service(5000), at(32)), "a flood is bounded");
    }
}
