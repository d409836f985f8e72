//! Times, durations and untrusted text, formatted for people.

use std::time::Duration;

use jiff::Timestamp;

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

/// A number of things: `1 object`, `3 objects`.
pub fn count(number: usize, thing: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{end}")
}

/// Replaces control characters, so that untrusted text cannot move the cursor.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_invisible(c) { ' ' } else { c }).collect()
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
    fn counts_are_pluralised() {
        assert_eq!(count(0, "object"), "0 objects");
        assert_eq!(count(1, "object"), "1 object");
    }
}
