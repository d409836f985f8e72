//! Which units want a pass: now, in the order they asked, or later.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use trueup_model::order::Unit;

#[derive(Debug, Default)]
pub(super) struct Queue {
    now: VecDeque<Unit>,
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

    /// At this monotonic time, unless something asks for it earlier.
    pub(super) fn push_later(&mut self, unit: Unit, due: Duration) {
        if self.queued.contains(&unit) {
            return;
        }
        if let Some(old) = self.due.insert(unit, due) {
            self.drop_later(old, unit);
        }
        self.later.entry(due).or_default().insert(unit);
    }

    pub(super) fn pop(&mut self) -> Option<Unit> {
        let unit = self.now.pop_front()?;
        self.queued.remove(&unit);
        Some(unit)
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
    fn a_unit_waits_only_once_and_now_beats_later() {
        let mut queue = Queue::default();
        queue.push_later(unit(1), Duration::from_secs(9));
        queue.push(unit(1));
        queue.push(unit(1));
        assert_eq!((queue.pop(), queue.pop()), (Some(unit(1)), None));
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn what_is_due_is_released_in_time_order() {
        let mut queue = Queue::default();
        queue.push_later(unit(2), Duration::from_secs(2));
        queue.push_later(unit(1), Duration::from_secs(1));
        queue.push_later(unit(3), Duration::from_secs(3));
        queue.release_due(Duration::from_secs(2));
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some(unit(1)), Some(unit(2)), None));
        assert_eq!(queue.next_due(), Some(Duration::from_secs(3)));
    }
}
