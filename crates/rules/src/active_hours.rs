//! Active hours: whether a service runs at a moment, and when that changes next.
//!
//! Windows are times on a clock on the wall, which time zones change twice a year. Each window is turned into
//! an interval of real time, on the date on which it begins: a time that is skipped is as much later as the
//! clock was put forward, and of a time that occurs twice the first one counts. Windows that overlap
//! or touch are one interval, so that nothing is paused only to be resumed in the same moment.

use std::collections::BTreeSet;

use jiff::civil::{Date, time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use trueup_model::active_hours::{ActiveHours, ActiveWindow, Day, MAX_WINDOWS, Turn};
use trueup_model::service::{DesiredState, Service};

use crate::admit::{FieldError, ReleaseSpec};

/// Minutes of a day.
const DAY: u16 = 24 * 60;
/// Minutes of a week.
pub const WEEK: u32 = 7 * 24 * 60;
/// How many days ahead an edge is looked for: with a week of windows there is one within it, or none.
const AHEAD: i32 = 9;

/// When something changes next, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The moment.
    pub at: Timestamp,
    /// What happens then.
    pub turn: Turn,
}

/// An interval of real time, half-open.
#[derive(Debug, Clone, Copy)]
struct Interval {
    from: Timestamp,
    until: Timestamp,
}

/// The time zone of active hours; none if there is no such zone.
#[must_use]
pub fn zone(hours: &ActiveHours) -> Option<TimeZone> {
    TimeZone::get(&hours.zone).ok()
}

/// Whether a service with these hours runs at a moment. Hours of an unknown zone pause nothing.
#[must_use]
pub fn is_on(hours: &ActiveHours, at: Timestamp) -> bool {
    let Some(intervals) = around(hours, at) else { return true };
    intervals.iter().any(|one| one.from <= at && at < one.until)
}

/// The next edge after a moment; none if there is never one.
#[must_use]
pub fn next_edge(hours: &ActiveHours, after: Timestamp) -> Option<Edge> {
    around(hours, after)?.into_iter().find_map(|one| {
        let begins = Edge { at: one.from, turn: Turn::On };
        let ends = Edge { at: one.until, turn: Turn::Off };
        [begins, ends].into_iter().find(|edge| edge.at > after)
    })
}

/// The minutes of a week without a change of the clock in which a service with these hours runs.
#[must_use]
pub fn minutes_per_week(hours: &ActiveHours) -> u32 {
    let mut minutes = BTreeSet::new();
    for window in &hours.windows {
        let Some((from, length)) = bounds(window) else { continue };
        for (day, number) in Day::ALL.into_iter().zip(0_u32..) {
            if window.days.is_empty() || window.days.contains(&day) {
                let start = number.saturating_mul(u32::from(DAY)).saturating_add(u32::from(from));
                let end = start.saturating_add(u32::from(length));
                minutes.extend((start..end).map(|minute| minute % WEEK));
            }
        }
    }
    u32::try_from(minutes.len()).unwrap_or(WEEK)
}

/// What active hours make of a release, and what that is: when they are new, they take effect at once.
///
/// A service that a person paused stays paused. One that its hours paused is resumed when they are removed.
pub fn settle(release: &mut ReleaseSpec, before: Option<&Service>, now: Timestamp) -> Option<Turn> {
    let known = before.and_then(|before| before.active.as_ref());
    if known == release.active.as_ref() {
        return None;
    }
    let state = (release.desired, release.scheduled_off);
    let (desired, scheduled_off) = follow(release.active.as_ref(), state, now)?;
    release.desired = desired;
    release.scheduled_off = scheduled_off;
    Some(if scheduled_off { Turn::Off } else { Turn::On })
}

/// The desired state by active hours at a moment, and whether they paused it; none if it stays.
#[must_use]
pub fn follow(
    hours: Option<&ActiveHours>,
    (desired, scheduled_off): (DesiredState, bool),
    at: Timestamp,
) -> Option<(DesiredState, bool)> {
    let on = hours.is_none_or(|hours| is_on(hours, at));
    match (desired, on) {
        (DesiredState::Active, false) => Some((DesiredState::Paused, true)),
        (DesiredState::Paused, true) if scheduled_off => Some((DesiredState::Active, false)),
        (DesiredState::Active | DesiredState::Paused | DesiredState::Deleted, _) => None,
    }
}

/// Every rule that active hours break.
#[must_use]
pub fn errors(hours: &ActiveHours, field: &str) -> Vec<FieldError> {
    let at = |place: String, message: String| FieldError::at(format!("{field}.{place}"), message);
    let mut errors = Vec::new();
    if zone(hours).is_none() {
        let message = format!(
            "there is no time zone `{}`; use an IANA name such as `Europe/Berlin` or `UTC`",
            hours.zone
        );
        errors.push(at("zone".to_owned(), message));
    }
    if hours.windows.is_empty() || hours.windows.len() > MAX_WINDOWS {
        let message =
            format!("needs 1 to {MAX_WINDOWS} windows, such as {{from: \"15:00\", to: \"23:00\"}}");
        errors.push(at("windows".to_owned(), message));
    }
    for (number, window) in hours.windows.iter().enumerate() {
        errors.extend(
            window_errors(window)
                .into_iter()
                .map(|(name, message)| at(format!("windows.{number}.{name}"), message)),
        );
    }
    if errors.is_empty() && minutes_per_week(hours) == WEEK {
        let message =
            "cover the whole week, so the service would never be paused; leave `active` out";
        errors.push(at("windows".to_owned(), message.to_owned()));
    }
    errors
}

fn window_errors(window: &ActiveWindow) -> Vec<(&'static str, String)> {
    let mut errors = Vec::new();
    let (from, to) = (minutes(&window.from), minutes(&window.to));
    if from.is_none_or(|from| from == DAY) {
        let message = format!("`{}` is no time of day; write it as `15:00`", window.from);
        errors.push(("from", message));
    }
    if to.is_none() {
        let message = format!(
            "`{}` is no time of day; write it as `23:00`, or `24:00` for midnight",
            window.to
        );
        errors.push(("to", message));
    }
    if from.is_some() && from == to {
        let message = "is the time at which it begins; a whole day is from `00:00` to `24:00`";
        errors.push(("to", message.to_owned()));
    }
    let days: BTreeSet<Day> = window.days.iter().copied().collect();
    if days.len() < window.days.len() {
        errors.push(("days", "name a day twice; name each once".to_owned()));
    }
    errors
}

/// The intervals from before a moment to some days after it: in order, merged.
fn around(hours: &ActiveHours, at: Timestamp) -> Option<Vec<Interval>> {
    let zone = zone(hours)?;
    let today = zone.to_datetime(at).date();
    let mut found: Vec<Interval> = (-2..=AHEAD)
        .filter_map(|days| today.checked_add(days.days()).ok())
        .flat_map(|date| hours.windows.iter().map(move |window| (date, window)))
        .filter_map(|(date, window)| interval(&zone, date, window))
        .collect();
    found.sort_by_key(|one| one.from);
    let mut merged: Vec<Interval> = Vec::new();
    for one in found {
        match merged.last_mut() {
            Some(last) if one.from <= last.until => last.until = last.until.max(one.until),
            Some(_) | None => merged.push(one),
        }
    }
    Some(merged)
}

/// The interval of a window that begins on a date; none if it does not begin on that day.
fn interval(zone: &TimeZone, date: Date, window: &ActiveWindow) -> Option<Interval> {
    if !window.days.is_empty() && !window.days.contains(&Day::of(date.weekday())) {
        return None;
    }
    let (from, length) = bounds(window)?;
    let from_at = instant(zone, date, from)?;
    let until = instant(zone, date, from.checked_add(length)?)?;
    // Both ends may fall into the same skipped hour.
    (from_at < until).then_some(Interval { from: from_at, until })
}

/// The moment at which the clock shows so many minutes after midnight of a date.
fn instant(zone: &TimeZone, date: Date, minutes: u16) -> Option<Timestamp> {
    let date = date.checked_add(i32::from(minutes / DAY).days()).ok()?;
    let rest = minutes % DAY;
    let (hour, minute) = (i8::try_from(rest / 60).ok()?, i8::try_from(rest % 60).ok()?);
    zone.to_timestamp(date.to_datetime(time(hour, minute, 0, 0))).ok()
}

/// When a window begins, in minutes after midnight, and how many minutes it lasts on the clock.
fn bounds(window: &ActiveWindow) -> Option<(u16, u16)> {
    let (from, to) = (minutes(&window.from)?, minutes(&window.to)?);
    let end = if to <= from { to.checked_add(DAY)? } else { to };
    Some((from, end.checked_sub(from)?))
}

/// A time of day in minutes after midnight: `HH:MM`.
fn minutes(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let number = |part: &str| {
        let is_plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u16>().ok().filter(|_| is_plain)
    };
    let (hour, minute) = (number(hour)?, number(minute)?);
    let minutes = hour.checked_mul(60)?.checked_add(minute)?;
    (minute < 60 && minutes <= DAY).then_some(minutes)
}
