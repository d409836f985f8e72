//! Times, durations and untrusted text, formatted for people.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

/// How long ago, in one or two units: `42s`, `5m`, `3h12m`, `8d`.
pub fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, 1..=9) if seconds % 60 != 0 => format!("{minutes}m{}s", seconds % 60),
        (0, 0, _) => format!("{minutes}m"),
        (0, 1..=9, _) if minutes % 60 != 0 => format!("{hours}h{}m", minutes % 60),
        (0, _, _) => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

/// The time of day, in UTC, to the second.
pub fn clock_time(at: Timestamp) -> String {
    at.strftime("%H:%M:%SZ").to_string()
}

/// A moment, in UTC, to the second.
pub fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Reads `90`, `30s`, `5m`, `1h30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration; write it like 30s, 5m or 1h30m");
    let mut seconds: u64 = 0;
    let mut digits = String::new();
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86400,
            _ => return Err(wrong()),
        };
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        seconds =
            number.checked_mul(unit).and_then(|n| seconds.checked_add(n)).ok_or_else(wrong)?;
        digits.clear();
    }
    if !digits.is_empty() {
        // A bare number is seconds; after a unit it is a typo.
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        if seconds != 0 {
            return Err(wrong());
        }
        seconds = number;
    }
    // Limited to a year: long enough for any wait, and every timer can represent it.
    if text.is_empty() || seconds > 366 * 86400 {
        return Err(wrong());
    }
    Ok(Duration::from_secs(seconds))
}

/// Formats a duration: `1h30m`.
pub fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts = [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let text: String =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Thousandths of a core, as cores: `0.25 cores`, `1 core`, `87.5 cores`.
pub fn cores(millis: i64) -> String {
    if millis == 1000 {
        return "1 core".to_owned();
    }
    let sign = if millis < 0 { "-" } else { "" };
    let (whole, part) = (millis.abs() / 1000, millis.abs() % 1000);
    let text = format!("{sign}{whole}.{part:03}");
    format!("{} cores", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Mebibytes: `256 MiB`, `39.5 GiB`; in GiB where two decimals are exact.
pub fn memory(mib: i64) -> String {
    if mib.abs() < 1024 || mib % 256 != 0 {
        return format!("{mib} MiB");
    }
    let sign = if mib < 0 { "-" } else { "" };
    let text = format!("{sign}{}.{:02}", mib.abs() / 1024, mib.abs() % 1024 * 100 / 1024);
    format!("{} GiB", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A number of things: `1 object`, `3 objects`.
pub fn count(number: usize, thing: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{end}")
}

/// Replaces control characters, so that untrusted text cannot move the cursor.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_invisible(c) { ' ' } else { c }).collect()
}

/// A JSON value as a person writes it: a string without its quotes.
pub fn json_text(value: &Value) -> String {
    match value {
        Value::String(text) => clean(text),
        other => clean(&other.to_string()),
    }
}

/// Whether a character changes how others are shown and is not seen itself: marks of writing
/// direction, which can make a name look like another one, and characters without a width.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_at_most_two_units() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        for (then, text) in [
            ("2026-01-10T00:00:05Z", "0s"),
            ("2026-01-09T23:59:18Z", "42s"),
            ("2026-01-09T23:58:30Z", "1m30s"),
            ("2026-01-09T23:30:30Z", "29m"),
            ("2026-01-09T22:48:00Z", "1h12m"),
            ("2026-01-09T04:10:00Z", "19h"),
            ("2026-01-02T00:00:00Z", "8d"),
        ] {
            assert_eq!(age(now, then.parse().unwrap()), text);
        }
    }

    #[test]
    fn durations_parse_and_format() {
        for (text, seconds) in
            [("90", 90), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("2d", 172_800), ("0", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "m", "5x", "5m3", "-1s", "99999999999999999999s", "1000d"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(duration_text(Duration::from_secs(5400)), "1h30m");
        assert_eq!(duration_text(Duration::ZERO), "0s");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(clean("a\u{1b}[31m\nb"), "a [31m b");
        assert_eq!(clean("a\u{9b}b\u{202e}c\u{2066}d\u{200b}e"), "a b c d e");
    }

    #[test]
    fn sizes_are_in_units_for_people() {
        for (millis, text) in [
            (0, "0 cores"),
            (250, "0.25 cores"),
            (1000, "1 core"),
            (87_000, "87 cores"),
            (87_500, "87.5 cores"),
            (-250, "-0.25 cores"),
        ] {
            assert_eq!(cores(millis), text);
        }
        for (mib, text) in [
            (0, "0 MiB"),
            (256, "256 MiB"),
            (2048, "2 GiB"),
            (40_448, "39.5 GiB"),
            (1100, "1100 MiB"),
            (-1280, "-1.25 GiB"),
        ] {
            assert_eq!(memory(mib), text);
        }
    }

    #[test]
    fn counts_are_pluralised() {
        assert_eq!(count(0, "object"), "0 objects");
        assert_eq!(count(1, "object"), "1 object");
    }
}
