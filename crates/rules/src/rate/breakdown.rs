//! Breakdowns: the value of lines by service, item and day, without losing a millionth.
//!
//! A line covers all services of an org, because tiers and minimums belong to the org. Its value is
//! divided by quantity, so the parts of a breakdown always add up to the lines.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use trueup_model::price::PriceItem;
use trueup_model::usage::{Owner, Span, UsageInterval};

use super::line::{Line, LineClass, Segment};
use super::rounding::{NotComputable, allocate};

/// What a part of a breakdown is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartKey {
    /// Whose it is.
    pub owner: Owner,
    /// What was used.
    pub item: PriceItem,
    /// Who bears it.
    pub class: LineClass,
    /// The day, in the org's time zone.
    pub day: Date,
}

/// The sums of a part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartSum {
    /// How much, in millionths of the meter's unit.
    pub quantity_micros: i128,
    /// What it is worth.
    pub value_micros: i64,
    /// How much of the value was simulated.
    pub simulated_micros: i64,
}

/// The parts of these lines.
///
/// # Errors
/// An amount is too large.
pub fn parts(lines: &[Line], zone: &TimeZone) -> Result<BTreeMap<PartKey, PartSum>, NotComputable> {
    let mut parts: BTreeMap<PartKey, PartSum> = BTreeMap::new();
    for line in lines {
        if line.segments.is_empty() {
            add_fee(line, zone, &mut parts);
        }
        let pieces: Vec<(Segment, Date, i128)> =
            line.segments.iter().flat_map(|segment| days(segment, zone)).collect();
        let weights: Vec<i128> = pieces.iter().map(|(_, _, quantity)| *quantity).collect();
        let values = allocate(line.value_micros, &weights)?;
        for ((segment, day, quantity), value) in pieces.into_iter().zip(values) {
            let (item, class) = (line.key.item.clone(), line.key.class);
            let key = PartKey { owner: segment.owner, item, class, day };
            let sum = parts.entry(key).or_default();
            sum.quantity_micros = sum.quantity_micros.saturating_add(quantity);
            sum.value_micros = sum.value_micros.saturating_add(value);
            if segment.simulated {
                sum.simulated_micros = sum.simulated_micros.saturating_add(value);
            }
        }
    }
    Ok(parts)
}

/// A fee is of the org, on the day from which it is charged.
fn add_fee(line: &Line, zone: &TimeZone, parts: &mut BTreeMap<PartKey, PartSum>) {
    let key = PartKey {
        owner: Owner { org: line.key.org, project: None, service: None },
        item: line.key.item.clone(),
        class: line.key.class,
        day: zone.to_datetime(line.key.from).date(),
    };
    let sum = parts.entry(key).or_default();
    sum.quantity_micros = sum.quantity_micros.saturating_add(line.quantity_micros);
    sum.value_micros = sum.value_micros.saturating_add(line.value_micros);
}

/// The pieces of a segment, one for each day that it touches.
fn days(segment: &Segment, zone: &TimeZone) -> Vec<(Segment, Date, i128)> {
    let mut pieces = Vec::new();
    let (mut from, whole) = (segment.span.from, i128::from(segment.span.micros()));
    let share = |until: Timestamp| {
        let elapsed = Span::new(segment.span.from, until).map_or(0, |span| span.micros());
        segment.quantity_micros.saturating_mul(i128::from(elapsed)).checked_div(whole).unwrap_or(0)
    };
    while from < segment.span.until {
        let day = zone.to_datetime(from).date();
        let midnight = day.tomorrow().ok().and_then(|next| {
            zone.to_timestamp(next.at(0, 0, 0, 0)).ok().filter(|midnight| *midnight > from)
        });
        let until = midnight.unwrap_or(segment.span.until).min(segment.span.until);
        pieces.push((*segment, day, share(until).saturating_sub(share(from))));
        from = until;
    }
    pieces
}

/// The intervals as they will be at a moment if everything that runs keeps running unchanged.
#[must_use]
pub fn continued(intervals: &[UsageInterval], until: Timestamp) -> Vec<UsageInterval> {
    let mut later = intervals.to_vec();
    for interval in later.iter_mut().filter(|interval| interval.growing) {
        interval.span.until = interval.span.until.max(until);
    }
    later
}
