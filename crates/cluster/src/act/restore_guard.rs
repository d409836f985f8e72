//! Whether the database can be believed at all.
//!
//! One service that was told a newer generation than its order has is stopped by its own plan. Many
//! such services mean that the whole database went back in time: then orders of other services are
//! as old, only nothing shows it, and nothing at all is written to this cluster.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use trueup_model::order::Unit;
use trueup_model::report::Outcome;

/// So many services that are ahead of the database stop the cluster.
const MANY: usize = 3;

/// The services that are ahead of the database.
#[derive(Debug, Default)]
pub(crate) struct RestoreGuard {
    ahead: Mutex<BTreeSet<Unit>>,
}

impl RestoreGuard {
    /// Notes what the plan of a unit came to; the outcome instead of writing, if nothing may be
    /// written to this cluster.
    pub(crate) fn weigh(&self, unit: Unit, outcome: &Outcome) -> Option<Outcome> {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(outcome, Outcome::Outdated { .. }) {
            ahead.insert(unit);
        } else {
            ahead.remove(&unit);
        }
        (ahead.len() >= MANY).then(|| Outcome::Outdated {
            why: format!(
                "{} services of this cluster were told more than the database knows, so nothing is \
                 written to it; if the database was restored, find out what it lost before you go on",
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
    fn f25_many_services_ahead_of_the_database_stop_the_cluster_until_they_are_explained() {
        let doubt = RestoreGuard::default();
        let ahead = Outcome::Outdated { why: String::new() };
        for n in 1..3 {
            assert_eq!(doubt.weigh(unit(n), &ahead), None);
            assert_eq!(doubt.weigh(unit(n), &ahead), None, "each counts once");
        }
        assert!(doubt.weigh(unit(3), &ahead).is_some());
        assert!(doubt.weigh(unit(9), &Outcome::Converged).is_some(), "others stop, too");
        assert_eq!(doubt.weigh(unit(2), &Outcome::Converged), None, "one less");
    }
}
