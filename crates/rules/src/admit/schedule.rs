//! Cron schedules: five fields, parsed as strictly as Kubernetes does.
//!
//! A schedule that the cluster would reject is rejected on admission, naming the wrong field.

use std::collections::BTreeSet;
use std::iter;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// A field: its name, its bounds, and the names of its values.
struct Field {
    name: &'static str,
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", low: 0, high: 59, names: &[] },
    Field { name: "hour", low: 0, high: 23, names: &[] },
    Field { name: "day of the month", low: 1, high: 31, names: &[] },
    Field {
        name: "month",
        low: 1,
        high: 12,
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    },
    Field {
        name: "day of the week",
        low: 0,
        high: 6,
        names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    },
];

/// Words that stand for a whole schedule, and that schedule.
const WORDS: [(&str, &str); 5] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
];

/// The longest time between two runs: from one leap day to the next.
const DAYS: usize = 8 * 366;

/// Whether a text is a schedule.
///
/// # Errors
/// Which field is wrong and what it allows.
pub fn check(text: &str) -> Result<(), String> {
    if WORDS.iter().any(|(word, _)| *word == text) {
        return Ok(());
    }
    let parts: Vec<&str> = text.split(' ').collect();
    if parts.len() != FIELDS.len() || parts.contains(&"") {
        return Err(format!(
            "must be five fields with one space between them (minute hour day month weekday), such \
             as `*/15 * * * *`, or one of {}",
            WORDS.map(|(word, _)| word).join(", ")
        ));
    }
    for (field, part) in FIELDS.iter().zip(parts) {
        if values(field, part).is_none() {
            return Err(format!(
                "has `{part}` as its {}; allowed are `*`, numbers from {} to {}, ranges such as \
                 `{}-{}`, steps such as `*/2`, and lists of these",
                field.name, field.low, field.high, field.low, field.high
            ));
        }
    }
    Ok(())
}

/// When a schedule is due for the first time after this time, in UTC. `None` if the text is not a
/// schedule, or one that never comes, such as the 31st of February.
#[must_use]
pub fn next_after(text: &str, after: Timestamp) -> Option<Timestamp> {
    let text = WORDS.iter().find(|(word, _)| *word == text).map_or(text, |(_, same)| *same);
    let parts: Vec<&str> = text.split(' ').collect();
    let [minute, hour, day, month, weekday] = parts.as_slice() else { return None };
    let [of_minute, of_hour, of_day, of_month, of_weekday] = &FIELDS;
    let (minutes, hours) = (values(of_minute, minute)?, values(of_hour, hour)?);
    let (days, months) = (values(of_day, day)?, values(of_month, month)?);
    let weekdays = values(of_weekday, weekday)?;
    // If both are limited, a day of either kind counts.
    let either = !is_any(day) && !is_any(weekday);
    let is_due = |date: Date| {
        let right_day = holds(&days, date.day());
        let right_weekday = holds(&weekdays, date.weekday().to_sunday_zero_offset());
        let right = if either { right_day || right_weekday } else { right_day && right_weekday };
        right && holds(&months, date.month())
    };
    let first = TimeZone::UTC.to_datetime(after).date();
    let dates = iter::successors(Some(first), |date| date.tomorrow().ok()).take(DAYS);
    dates.filter(|date| is_due(*date)).find_map(|date| {
        let midnight = TimeZone::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?.as_second();
        let times = hours.iter().flat_map(|hour| {
            minutes.iter().map(move |minute| i64::from(*hour) * 3600 + i64::from(*minute) * 60)
        });
        times.filter_map(|time| Timestamp::from_second(midnight + time).ok()).find(|at| *at > after)
    })
}

/// Whether a field does not limit the day, as Kubernetes reads it.
fn is_any(part: &str) -> bool {
    part.split(',').any(|entry| entry == "*" || entry == "*/1")
}

fn holds(values: &BTreeSet<u32>, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| values.contains(&number))
}

/// The values that a field's list of entries allows; `None` if one of them is wrong.
fn values(field: &Field, part: &str) -> Option<BTreeSet<u32>> {
    let mut values = BTreeSet::new();
    for one in part.split(',') {
        values.extend(entry(field, one)?);
    }
    Some(values)
}

/// The values of `*`, a number or a range, with or without a step. `5/10` begins at five.
fn entry(field: &Field, text: &str) -> Option<impl Iterator<Item = u32>> {
    let (range, step) = match text.split_once('/') {
        Some((range, step)) => {
            (range, Some(number(step).filter(|step| (1..=field.high).contains(step))?))
        }
        None => (text, None),
    };
    let (from, to) = if range == "*" {
        (field.low, field.high)
    } else if let Some((from, to)) = range.split_once('-') {
        (value(field, from)?, value(field, to)?)
    } else {
        let from = value(field, range)?;
        (from, if step.is_some() { field.high } else { from })
    };
    let step = usize::try_from(step.unwrap_or(1)).ok()?;
    (from <= to).then(|| (from..=to).step_by(step))
}

fn value(field: &Field, text: &str) -> Option<u32> {
    let named = field.names.iter().position(|name| text.eq_ignore_ascii_case(name));
    let number = match named {
        Some(index) => u32::try_from(index).ok()?.checked_add(field.low)?,
        None => number(text)?,
    };
    (field.low..=field.high).contains(&number).then_some(number)
}

/// Parses one or two digits: no sign, no space.
fn number(text: &str) -> Option<u32> {
    (text.bytes().all(|b| b.is_ascii_digit()) && text.len() <= 2).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_schedules_are_accepted() {
        for good in [
            "* * * * *",
            "*/15 * * * *",
            "0 3 * * 1-5",
            "0,30 8-18/2 1 jan,JUL mon",
            "59 23 31 12 6",
            "5/10 * * * *",
            "@daily",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn next_run_follows_the_schedule() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        // A Monday.
        let after = time("2026-11-16T18:30:30Z");
        for (schedule, next) in [
            ("* * * * *", "2026-11-16T18:31:00Z"),
            ("*/15 * * * *", "2026-11-16T18:45:00Z"),
            ("5/10 * * * *", "2026-11-16T18:35:00Z"),
            ("30 18 * * *", "2026-11-17T18:30:00Z"),
            ("0 3 * * 2-5", "2026-11-17T03:00:00Z"),
            ("0,40 8-18/2 * * mon", "2026-11-16T18:40:00Z"),
            ("0 0 20 * *", "2026-11-20T00:00:00Z"),
            // The first of the month, and every Thursday.
            ("0 0 1 * thu", "2026-11-19T00:00:00Z"),
            ("0 0 1 * */1", "2026-12-01T00:00:00Z"),
            ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
            ("0 12 31 dec *", "2026-12-31T12:00:00Z"),
            ("@hourly", "2026-11-16T19:00:00Z"),
            ("@weekly", "2026-11-22T00:00:00Z"),
            ("@yearly", "2027-01-01T00:00:00Z"),
        ] {
            assert_eq!(next_after(schedule, after), Some(time(next)), "{schedule}");
        }
        let exact = time("2026-11-16T18:45:00Z");
        assert_eq!(next_after("*/15 * * * *", exact), Some(time("2026-11-16T19:00:00Z")));
        for never in ["0 0 31 2 *", "* * *", "60 * * * *", ""] {
            assert_eq!(next_after(never, after), None, "{never:?}");
        }
    }

    #[test]
    fn schedules_that_kubernetes_rejects_are_refused() {
        for bad in [
            "",
            "*",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "5-1 * * * *",
            "*/0 * * * *",
            "*/99 * * * *",
            "a * * * *",
            "+1 * * * *",
            " * * * * *",
            "*  * * * *",
            "*\n* * * *",
            "* * * * *\n",
            "@every 1s",
            "@reboot",
            "TZ=UTC * * * * *",
            "1- * * * *",
            "-1 * * * *",
            "1,,2 * * * *",
            "*-5 * * * *",
            "1/2/3 * * * *",
            "\u{0661} * * * *",
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        let error = check("0 25 * * *").unwrap_err();
        assert!(error.contains("`25` as its hour") && error.contains("0 to 23"), "{error}");
    }
}
