//! Stops all writes to a cluster when the database seems to be restored from an old backup.
//!
//! A service whose anchor has a newer generation than its order is stopped by its own plan. Several
//! such services mean that the whole database went back in time: the orders of other services are
//! as old without showing it, so nothing is written to this cluster.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use trueup_model::order::Unit;
use trueup_model::report::Outcome;

/// How many services ahead of the database stop all writes to the cluster.
const LIMIT: usize = 3;

/// The services that are ahead of the database.
#[derive(Debug, Default)]
pub(crate) struct RestoreGuard {
    ahead: Mutex<BTreeSet<Unit>>,
}

impl RestoreGuard {
    /// Records the outcome of a unit's plan. Returns the outcome to report instead of writing, if
    /// writes to this cluster are stopped.
    pub(crate) fn check(&self, unit: Unit, outcome: &Outcome) -> Option<Outcome> {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(outcome, Outcome::Outdated { .. }) {
            ahead.insert(unit);
        } else {
            ahead.remove(&unit);
        }
        (ahead.len() >= LIMIT).then(|| Outcome::Outdated {
            why: format!(
                "{} services in this cluster have a newer generation than the database, so all \
                 writes to the cluster are stopped; if the database was restored from a backup, \
                 find out which changes it lost before you continue",
                ahead.len()
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trueup_model::ServiceId;

    fn unit(n: u128) -> Unit {
        Unit::Service(ServiceId::from_uuid(uuid::Uuid::from_u128(n)))
    }

    #[test]
    fn f25_three_services_ahead_of_the_database_stop_all_writes_to_the_cluster() {
        let guard = RestoreGuard::default();
        let ahead = Outcome::Outdated { why: String::new() };
        for n in 1..3 {
            assert_eq!(guard.check(unit(n), &ahead), None);
            assert_eq!(guard.check(unit(n), &ahead), None, "each counts once");
        }
        assert!(guard.check(unit(3), &ahead).is_some());
        assert!(guard.check(unit(9), &Outcome::Converged).is_some(), "others stop, too");
        assert_eq!(guard.check(unit(2), &Outcome::Converged), None, "one less");
    }
}
