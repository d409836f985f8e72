//! Rate limiting on request of the cluster: one pause for all work on it, then less concurrency.
//!
//! A call that is sent during the pause would be rejected again and add to the server's load, so
//! none is sent. Afterwards the concurrency grows back by one with each successful pass.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::verbs::CallError;

/// The longest pause that is honoured; a server that asks for more is retried sooner.
const LONGEST: Duration = Duration::from_secs(120);

/// The rate limit of one cluster.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// End of the pause, in milliseconds on the monotonic clock.
    until: AtomicU64,
    /// How many passes may run at once.
    width: AtomicUsize,
    widest: usize,
}

impl Throttle {
    pub(crate) const fn new(widest: usize) -> Self {
        Self { until: AtomicU64::new(0), width: AtomicUsize::new(widest), widest }
    }

    /// The remaining pause, if any.
    pub(crate) fn left(&self, now: Duration) -> Option<Duration> {
        let until = Duration::from_millis(self.until.load(Ordering::Acquire));
        until.checked_sub(now).filter(|left| !left.is_zero())
    }

    /// Starts a pause if the error is a 429; several during one pause count as one.
    pub(crate) fn note_error(&self, error: &CallError, now: Duration) {
        let CallError::Throttled { after } = error else { return };
        if self.left(now).is_none() {
            let width = self.width.load(Ordering::Acquire);
            self.width.store((width / 2).max(1), Ordering::Release);
        }
        let until = u64::try_from((now + (*after).min(LONGEST)).as_millis()).unwrap_or(u64::MAX);
        self.until.fetch_max(until, Ordering::AcqRel);
    }

    /// A pass succeeded: allows one more pass at once.
    pub(crate) fn widen(&self) {
        let width = self.width.load(Ordering::Acquire);
        if width < self.widest {
            self.width.store(width.saturating_add(1), Ordering::Release);
        }
    }

    /// How many passes may run now.
    pub(crate) fn width(&self, now: Duration) -> usize {
        if self.left(now).is_some() { 0 } else { self.width.load(Ordering::Acquire) }
    }

    /// Whether concurrency is reduced; urgent units then go first.
    pub(crate) fn is_narrow(&self) -> bool {
        self.width.load(Ordering::Acquire) < self.widest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f31_rate_limit_pauses_all_work_and_then_halves_concurrency() {
        let throttle = Throttle::new(32);
        let at = Duration::from_secs;
        for _ in 0..10 {
            throttle.note_error(&CallError::Throttled { after: at(60) }, at(100));
        }
        assert_eq!(throttle.left(at(100)), Some(at(60)));
        assert_eq!((throttle.width(at(159)), throttle.width(at(160))), (0, 16), "halved once");
        throttle.note_error(&CallError::Throttled { after: at(99_999) }, at(200));
        assert_eq!(throttle.left(at(200)), Some(LONGEST));
        for _ in 0..50 {
            throttle.widen();
        }
        assert_eq!(throttle.width(at(1_000)), 32);
        throttle.note_error(&CallError::Expired, at(2_000));
        assert_eq!(throttle.left(at(2_000)), None);
    }
}
