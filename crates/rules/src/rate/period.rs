//! Billing periods: calendar months in the time zone of an org.
//!
//! A period is computed once and stored in UTC, half-open. The end of one is the beginning of the
//! next by construction, so no second is billed twice or never, whatever a time zone does.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use trueup_model::usage::Span;

/// The month that a moment belongs to; `None` outside of the calendar's range.
#[must_use]
pub fn month(zone: &TimeZone, at: Timestamp) -> Option<Span> {
    let first = zone.to_datetime(at).date().first_of_month();
    let next = first.last_of_month().tomorrow().ok()?;
    Span::new(midnight(zone, first)?, midnight(zone, next)?)
}

fn midnight(zone: &TimeZone, date: Date) -> Option<Timestamp> {
    zone.to_timestamp(date.at(0, 0, 0, 0)).ok()
}
