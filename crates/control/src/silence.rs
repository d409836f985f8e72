//! How long another holder has been silent, by the one clock that never jumps.
//!
//! A lease ends at a time of the database. Should that clock be set back by an hour just after a holder
//! died, its lease would last for that hour. A holder that lives moves the end of its lease every few
//! seconds, so an end that stands still for as long as a lease lasts belongs to nobody (F52).

use std::time::Duration;

use jiff::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// The end of the other's lease as it was last seen, and since when it has been that.
    seen: Option<(Timestamp, Duration)>,
}

impl Silence {
    /// Notes when another's lease ends.
    pub(crate) fn note(&mut self, until: Timestamp, at: Duration) {
        if self.seen.is_none_or(|(seen, _)| seen != until) {
            self.seen = Some((until, at));
        }
    }

    /// The end that has stood still for so long, if it has.
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
    fn only_an_end_that_stands_still_is_silence() {
        let end = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut silence = Silence::default();
        assert_eq!(silence.longer_than(s(10), s(100)), None);
        silence.note(end(3_600), s(100));
        silence.note(end(3_600), s(105));
        assert_eq!(silence.longer_than(s(10), s(110)), None);
        assert_eq!(silence.longer_than(s(10), s(111)), Some(end(3_600)));
        // Whether it moves forward or back: somebody moved it.
        silence.note(end(10), s(111));
        assert_eq!(silence.longer_than(s(10), s(112)), None);
        assert_eq!(silence.longer_than(s(10), s(122)), Some(end(10)));
    }
}
