//! Budgets: how much an org may spend in a billing period.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::money::Currency;

/// The shares of a limit, in per cent, whose reaching is an event.
pub const THRESHOLDS: [i32; 3] = [50, 80, 100];

/// What happens when an org would spend more than its budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum AtLimit {
    /// Events say so; nothing is refused.
    #[default]
    Warn,
    /// A change that would cost more than what is left is refused.
    Refuse,
    /// As `refuse`; and when the limit is spent, running services are paused.
    Pause,
}

/// The budget of an org in the current billing period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// How much may be spent.
    pub limit_micros: i64,
    /// The currency.
    pub currency: Currency,
    /// What happens at the limit.
    pub at_limit: AtLimit,
    /// What was posted in this period.
    pub spent_micros: i64,
    /// What the accepted services will cost until the end of the period.
    pub held_micros: i64,
}

impl Budget {
    /// Whether what is spent and held is within a limit that refuses; `warn` refuses nothing.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        let used = self.spent_micros.saturating_add(self.held_micros);
        matches!(self.at_limit, AtLimit::Warn) || used <= self.limit_micros
    }

    /// The highest threshold that was reached, in per cent; 0 for none.
    #[must_use]
    pub fn reached(&self) -> i32 {
        let spent = i128::from(self.spent_micros).saturating_mul(100);
        let limit = i128::from(self.limit_micros);
        let is_reached = |percent: &i32| spent >= limit.saturating_mul(i128::from(*percent));
        THRESHOLDS.into_iter().filter(is_reached).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(at_limit: AtLimit, spent_micros: i64, held_micros: i64) -> Budget {
        Budget { limit_micros: 100, currency: Currency::EUR, at_limit, spent_micros, held_micros }
    }

    #[test]
    fn only_a_hard_limit_refuses() {
        let table = [
            (AtLimit::Refuse, 40, 60, true),
            (AtLimit::Refuse, 40, 61, false),
            (AtLimit::Pause, 40, 61, false),
            (AtLimit::Warn, 40, 61, true),
        ];
        for (at_limit, spent, held, expected) in table {
            let found = budget(at_limit, spent, held).is_kept();
            assert_eq!(found, expected, "{at_limit} {spent} {held}");
        }
    }

    #[test]
    fn thresholds_are_reached_in_order() {
        for (spent, expected) in [(0, 0), (49, 0), (50, 50), (80, 80), (99, 80), (100, 100)] {
            assert_eq!(budget(AtLimit::Warn, spent, 0).reached(), expected, "{spent}");
        }
    }
}
