//! Detects a dead lease holder by monotonic time, independent of the database's clock.
//!
//! The expiry of a lease is a time of the database. If that clock is set back by an hour just after
//! a holder died, its lease would last for that hour. A live holder moves the expiry every few
//! seconds, so an expiry that did not move for a whole lease duration belongs to a dead holder
//! (F52).

use std::time::Duration;

use jiff::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// The last observed expiry of the other's lease, and since when it has not moved.
    seen: Option<(Timestamp, Duration)>,
}

impl Silence {
    /// Records the expiry of another holder's lease.
    pub(crate) fn note(&mut self, until: Timestamp, at: Duration) {
        if self.seen.is_none_or(|(seen, _)| seen != until) {
            self.seen = Some((until, at));
        }
    }

    /// The expiry, if it has not moved for longer than `limit`.
    pub(crate) fn longer_than(&self, limit: Duration, at: Duration) -> Option<Timestamp> {
        let (until, since) = self.seen?;
        (at.saturating_sub(since) > limit).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn only_an_expiry_that_does_not_move_is_a_dead_holder() {
        let end = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut silence = Silence::default();
        assert_eq!(silence.longer_than(s(10), s(100)), None);
        silence.note(end(3_600), s(100));
        silence.note(end(3_600), s(105));
        assert_eq!(silence.longer_than(s(10), s(110)), None);
        assert_eq!(silence.longer_than(s(10), s(111)), Some(end(3_600)));
        // Moved forward or back: the holder is alive.
        silence.note(end(10), s(111));
        assert_eq!(silence.longer_than(s(10), s(112)), None);
        assert_eq!(silence.longer_than(s(10), s(122)), Some(end(10)));
    }
}
