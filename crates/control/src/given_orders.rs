//! What the executor was last given for each unit, to compare it with the database.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use trueup_model::order::{Order, Unit};
use trueup_store::OrderMark;

/// The marks of the executor's orders. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenOrders {
    marks: Arc<Mutex<BTreeMap<Unit, OrderMark>>>,
}

impl GivenOrders {
    /// Notes that the executor is given this order.
    pub(crate) fn note(&self, order: &Order) {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.insert(order.unit, OrderMark::of(order));
    }

    /// The units whose order is missing or older than what was accepted. Units that are no longer
    /// accepted are forgotten.
    pub(crate) fn outdated(&self, accepted: &BTreeMap<Unit, OrderMark>) -> Vec<Unit> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.retain(|unit, _| accepted.contains_key(unit));
        let is_outdated = |(unit, accepted): &(&Unit, &OrderMark)| {
            marks.get(*unit).is_none_or(|given| given.is_older_than(accepted))
        };
        accepted.iter().filter(is_outdated).map(|(unit, _)| *unit).collect()
    }
}

#[cfg(test)]
mod tests {
    use trueup_model::drift::DriftPolicy;
    use trueup_model::freeze::{Freeze, FreezeScope};
    use trueup_model::project::Project;
    use trueup_model::service::DesiredState;

    use super::*;

    fn order(generation: i64) -> Order {
        Order::of_project(&Project {
            id: "prj_01h455vb4pex5vsknk084sn02q".parse().unwrap(),
            org: "org_01h455vb4pex5vsknk084sn02q".parse().unwrap(),
            name: "shop".parse().unwrap(),
            cluster: "cls_01h455vb4pex5vsknk084sn02q".parse().unwrap(),
            namespace: "shop-1".to_owned(),
            generation,
            drift: DriftPolicy::default(),
        })
    }

    #[test]
    fn only_missing_and_older_orders_are_outdated() {
        let freeze = Freeze {
            scope: FreezeScope::Service,
            by: "owner".to_owned(),
            why: "an audit".to_owned(),
            since: jiff::Timestamp::UNIX_EPOCH,
        };
        let given = GivenOrders::default();
        let outdated = |order: &Order| {
            given.outdated(&BTreeMap::from([(order.unit, OrderMark::of(order))])).len()
        };
        assert_eq!(outdated(&order(2)), 1, "it was never given");
        given.note(&order(2));
        assert_eq!(outdated(&order(2)), 0);
        assert_eq!(outdated(&order(1)), 0, "given after the database was read");
        assert_eq!(outdated(&order(3)), 1);
        assert_eq!(outdated(&Order { desired: DesiredState::Deleted, ..order(2) }), 1);
        assert_eq!(outdated(&Order { freeze: Some(freeze), ..order(2) }), 1);
        assert_eq!(given.outdated(&BTreeMap::new()), []);
        assert_eq!(outdated(&order(2)), 1, "it was forgotten with its row");
    }
}
