//! Slowing down when a cluster asks for it: one pause for all work on it, and less at once after it.
//!
//! Every call that is sent during the pause would be refused again and make the server's trouble
//! worse, so none is sent. Afterwards the width of the work grows back one by one.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::verbs::CallError;

/// The longest pause that is believed: a server that asks for hours is asked again sooner.
const LONGEST: Duration = Duration::from_secs(120);

/// The pause of one cluster.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// Milliseconds on the monotonic clock.
    until: AtomicU64,
    /// How many units may be worked on side by side.
    width: AtomicUsize,
    widest: usize,
}

impl Throttle {
    pub(crate) const fn new(widest: usize) -> Self {
        Self { until: AtomicU64::new(0), width: AtomicUsize::new(widest), widest }
    }

    /// What is left of the pause.
    pub(crate) fn left(&self, now: Duration) -> Option<Duration> {
        let until = Duration::from_millis(self.until.load(Ordering::Acquire));
        until.checked_sub(now).filter(|left| !left.is_zero())
    }

    /// Takes note of an answer that asks to slow down; many at once count as one.
    pub(crate) fn heed(&self, error: &CallError, now: Duration) {
        let CallError::Throttled { after } = error else { return };
        if self.left(now).is_none() {
            let width = self.width.load(Ordering::Acquire);
            self.width.store((width / 2).max(1), Ordering::Release);
        }
        let until = u64::try_from((now + (*after).min(LONGEST)).as_millis()).unwrap_or(u64::MAX);
        self.until.fetch_max(until, Ordering::AcqRel);
    }

    /// A pass ended well: a little more may be done at once.
    pub(crate) fn widen(&self) {
        let width = self.width.load(Ordering::Acquire);
        if width < self.widest {
            self.width.store(width.saturating_add(1), Ordering::Release);
        }
    }

    /// How many units may be worked on side by side now.
    pub(crate) fn width(&self, now: Duration) -> usize {
        if self.left(now).is_some() { 0 } else { self.width.load(Ordering::Acquire) }
    }

    /// Whether there is less room than there could be: then what people wait for goes first.
    pub(crate) fn is_narrow(&self) -> bool {
        self.width.load(Ordering::Acquire) < self.widest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f31_a_cluster_that_asks_to_slow_down_gets_its_pause_and_then_less_at_once() {
        let throttle = Throttle::new(32);
        let at = Duration::from_secs;
        for _ in 0..10 {
            throttle.heed(&CallError::Throttled { after: at(60) }, at(100));
        }
        assert_eq!(throttle.left(at(100)), Some(at(60)));
        assert_eq!((throttle.width(at(159)), throttle.width(at(160))), (0, 16), "halved once");
        throttle.heed(&CallError::Throttled { after: at(99_999) }, at(200));
        assert_eq!(throttle.left(at(200)), Some(LONGEST));
        for _ in 0..50 {
            throttle.widen();
        }
        assert_eq!(throttle.width(at(1_000)), 32);
        throttle.heed(&CallError::Expired, at(2_000));
        assert_eq!(throttle.left(at(2_000)), None);
    }
}
