//! Cron schedules: five fields, parsed as strictly as Kubernetes does.
//!
//! A schedule that the cluster would reject is rejected on admission, naming the wrong field.

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

/// Words that stand for a whole schedule.
const WORDS: [&str; 5] = ["@hourly", "@daily", "@weekly", "@monthly", "@yearly"];

/// Whether a text is a schedule.
///
/// # Errors
/// Which field is wrong and what it allows.
pub fn check(text: &str) -> Result<(), String> {
    if WORDS.contains(&text) {
        return Ok(());
    }
    let parts: Vec<&str> = text.split(' ').collect();
    if parts.len() != FIELDS.len() || parts.contains(&"") {
        return Err(format!(
            "must be five fields with one space between them (minute hour day month weekday), such \
             as `*/15 * * * *`, or one of {}",
            WORDS.join(", ")
        ));
    }
    for (field, part) in FIELDS.iter().zip(parts) {
        if !part.split(',').all(|one| is_entry(field, one)) {
            return Err(format!(
                "has `{part}` as its {}; allowed are `*`, numbers from {} to {}, ranges such as \
                 `{}-{}`, steps such as `*/2`, and lists of these",
                field.name, field.low, field.high, field.low, field.high
            ));
        }
    }
    Ok(())
}

/// `*`, a number or a range, with or without a step.
fn is_entry(field: &Field, entry: &str) -> bool {
    let (range, step) = match entry.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (entry, None),
    };
    let good_step =
        step.is_none_or(|step| number(step).is_some_and(|step| (1..=field.high).contains(&step)));
    let good_range = range == "*"
        || match range.split_once('-') {
            Some((from, to)) => match (value(field, from), value(field, to)) {
                (Some(from), Some(to)) => from <= to,
                (Some(_) | None, _) => false,
            },
            None => value(field, range).is_some(),
        };
    good_step && good_range
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
