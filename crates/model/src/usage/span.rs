//! Spans of time, and quantities that are spread over them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Millionths in one: quantities are counted in millionths of a meter's unit, as money is.
pub const MICROS: i128 = 1_000_000;

/// A half-open span of time: `from` belongs to it, `until` does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// Its first moment.
    pub from: Timestamp,
    /// The first moment after it.
    pub until: Timestamp,
}

impl Span {
    /// The span between two moments; `None` if it would be empty.
    #[must_use]
    pub fn new(from: Timestamp, until: Timestamp) -> Option<Self> {
        (from < until).then_some(Self { from, until })
    }

    /// Its length in microseconds, the resolution of the database.
    #[must_use]
    pub fn micros(self) -> i64 {
        self.until.as_microsecond().saturating_sub(self.from.as_microsecond())
    }

    /// Whether a moment lies in it.
    #[must_use]
    pub fn contains(self, at: Timestamp) -> bool {
        self.from <= at && at < self.until
    }

    /// The part that both spans have.
    #[must_use]
    pub fn overlap(self, other: Self) -> Option<Self> {
        Self::new(self.from.max(other.from), self.until.min(other.until))
    }
}

/// How much an interval holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// So many units in every second.
    PerSecond(u64),
    /// So many units in all, for counters.
    Total(u64),
}

impl Quantity {
    /// The millionths of a unit in `part` of an interval's `whole` span.
    ///
    /// The parts of any split add up to the whole: each is the difference of two running totals.
    #[must_use]
    pub fn within(self, whole: Span, part: Span) -> i128 {
        self.until(whole, part.until).saturating_sub(self.until(whole, part.from))
    }

    /// The running total from the beginning of the interval to a moment.
    fn until(self, whole: Span, at: Timestamp) -> i128 {
        let elapsed =
            Span::new(whole.from, at.min(whole.until)).map_or(0, |span| i128::from(span.micros()));
        match self {
            Self::PerSecond(units) => i128::from(units).saturating_mul(elapsed),
            Self::Total(units) => i128::from(units)
                .saturating_mul(MICROS)
                .saturating_mul(elapsed)
                .checked_div(i128::from(whole.micros()))
                .unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: i64, until: i64) -> Span {
        let at = |micros| Timestamp::from_microsecond(micros).unwrap();
        Span { from: at(from), until: at(until) }
    }

    #[test]
    fn the_parts_of_a_split_add_up_to_the_whole() {
        let whole = span(0, 7_000_001);
        for quantity in [Quantity::PerSecond(250), Quantity::Total(10)] {
            let parts = [span(0, 3), span(3, 1_000_000), span(1_000_000, 7_000_001)];
            let sum: i128 = parts.into_iter().map(|part| quantity.within(whole, part)).sum();
            assert_eq!(sum, quantity.within(whole, whole), "{quantity:?}");
        }
        assert_eq!(Quantity::PerSecond(250).within(whole, whole), 250 * 7_000_001);
        assert_eq!(Quantity::Total(10).within(whole, whole), 10 * MICROS);
    }

    #[test]
    fn time_outside_of_an_interval_holds_nothing() {
        let (whole, before, after) = (span(10, 20), span(0, 10), span(20, 30));
        for quantity in [Quantity::PerSecond(1), Quantity::Total(1)] {
            assert_eq!(quantity.within(whole, before), 0);
            assert_eq!(quantity.within(whole, after), 0);
        }
        assert_eq!(whole.overlap(before), None);
        assert_eq!(whole.overlap(span(15, 30)), Some(span(15, 20)));
    }
}
