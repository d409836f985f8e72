//! Work queue of units: due now, in FIFO order, or later.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use trueup_model::order::Unit;

#[derive(Debug, Default)]
pub(super) struct Queue {
    now: VecDeque<Unit>,
    /// Those of `now` that have a new order.
    urgent: VecDeque<Unit>,
    queued: HashSet<Unit>,
    later: BTreeMap<Duration, BTreeSet<Unit>>,
    due: HashMap<Unit, Duration>,
}

impl Queue {
    pub(super) fn push(&mut self, unit: Unit) {
        if let Some(due) = self.due.remove(&unit) {
            self.drop_later(due, unit);
        }
        if self.queued.insert(unit) {
            self.now.push_back(unit);
        }
    }

    /// Queues a unit for this monotonic time, unless it is pushed earlier.
    pub(super) fn push_later(&mut self, unit: Unit, due: Duration) {
        if self.queued.contains(&unit) {
            return;
        }
        if let Some(old) = self.due.insert(unit, due) {
            self.drop_later(old, unit);
        }
        self.later.entry(due).or_default().insert(unit);
    }

    /// Marks a queued unit as urgent: a new order waits for its pass.
    pub(super) fn mark_urgent(&mut self, unit: Unit) {
        if self.queued.contains(&unit) {
            self.urgent.push_back(unit);
        }
    }

    /// The next unit, in FIFO order. With `urgent_first`, urgent units come first and repairs wait.
    pub(super) fn pop(&mut self, urgent_first: bool) -> Option<Unit> {
        let urgent = std::iter::from_fn(|| self.urgent.pop_front().filter(|_| urgent_first))
            .find(|unit| self.queued.contains(unit));
        if let Some(unit) = urgent {
            self.queued.remove(&unit);
            return Some(unit);
        }
        // A unit that was popped as urgent is still in `now`, but no longer in `queued`.
        let unit =
            std::iter::from_fn(|| self.now.pop_front()).find(|unit| self.queued.contains(unit))?;
        self.queued.remove(&unit);
        if self.queued.is_empty() {
            self.urgent.clear();
        }
        Some(unit)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        self.later.keys().next().copied()
    }

    pub(super) fn release_due(&mut self, now: Duration) {
        while let Some(due) = self.next_due().filter(|due| *due <= now) {
            for unit in self.later.remove(&due).unwrap_or_default() {
                self.push(unit);
            }
        }
    }

    fn drop_later(&mut self, due: Duration, unit: Unit) {
        if let Some(units) = self.later.get_mut(&due) {
            units.remove(&unit);
            if units.is_empty() {
                self.later.remove(&due);
            }
        }
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
    fn unit_is_queued_once_and_now_overrides_later() {
        let mut queue = Queue::default();
        queue.push_later(unit(1), Duration::from_secs(9));
        queue.push(unit(1));
        queue.push(unit(1));
        assert_eq!((queue.pop(false), queue.pop(false)), (Some(unit(1)), None));
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn f31_urgent_units_come_first_under_reduced_concurrency() {
        let mut queue = Queue::default();
        for n in 1..=4 {
            queue.push(unit(n));
        }
        queue.mark_urgent(unit(3));
        queue.mark_urgent(unit(9));
        assert_eq!(queue.pop(true), Some(unit(3)));
        queue.push(unit(3));
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop(true)).collect();
        assert_eq!(rest, [unit(1), unit(2), unit(3), unit(4)].to_vec());
        assert!(queue.is_empty());
    }

    #[test]
    fn due_units_are_released_in_time_order() {
        let mut queue = Queue::default();
        queue.push_later(unit(2), Duration::from_secs(2));
        queue.push_later(unit(1), Duration::from_secs(1));
        queue.push_later(unit(3), Duration::from_secs(3));
        queue.release_due(Duration::from_secs(2));
        let order = [queue.pop(false), queue.pop(false), queue.pop(false)];
        assert_eq!(order, [Some(unit(1)), Some(unit(2)), None]);
        assert_eq!(queue.next_due(), Some(Duration::from_secs(3)));
    }
}
