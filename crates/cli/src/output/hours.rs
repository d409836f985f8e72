//! Active hours as text: `mon-fri 15:00-23:00`, as they are typed and shown.

use jiff::Timestamp;
use trueup_api::service::{Service, ServiceSchedule};
use trueup_model::active_hours::{ActiveHours, ActiveWindow, Day, Turn};

use crate::output::human::{clean, moment};

/// Reads a window: days, if it is not for every day, and two times.
///
/// # Errors
/// What is wrong with it.
pub fn window(text: &str) -> Result<ActiveWindow, String> {
    let mut words = text.split_whitespace().rev();
    let times = words.next().unwrap_or_default();
    let mut days: Vec<&str> = words.collect();
    days.reverse();
    let (from, to) = times
        .split_once('-')
        .filter(|(from, to)| from.contains(':') && to.contains(':'))
        .ok_or_else(|| {
            format!("`{text}` is no window; write `15:00-23:00` or `mon-fri 15:00-23:00`")
        })?;
    let days = days.iter().flat_map(|word| word.split(',')).filter(|word| !word.is_empty());
    let days: Vec<Vec<Day>> = days.map(range).collect::<Result<_, _>>()?;
    Ok(ActiveWindow { days: days.concat(), from: from.to_owned(), to: to.to_owned() })
}

/// Reads a day, or the days from one to another.
fn range(text: &str) -> Result<Vec<Day>, String> {
    let day = |word: &str| {
        let short: String = word.to_lowercase().chars().take(3).collect();
        short.parse::<Day>().map_err(|_| {
            format!(
                "`{word}` is no day of the week; the days are mon, tue, wed, thu, fri, sat and sun"
            )
        })
    };
    let Some((first, last)) = text.split_once('-') else { return Ok(vec![day(text)?]) };
    let (first, last) = (day(first)?, day(last)?);
    let from_first = Day::ALL.into_iter().cycle().skip_while(|one| *one != first).take(7);
    let length = from_first.clone().position(|one| one == last).unwrap_or(0);
    Ok(from_first.take(length.saturating_add(1)).collect())
}

/// Active hours on one line.
pub fn text(hours: &ActiveHours) -> String {
    let windows: Vec<String> = hours.windows.iter().map(window_text).collect();
    clean(&format!("{} {}", windows.join(", "), hours.zone))
}

fn window_text(window: &ActiveWindow) -> String {
    let times = format!("{}-{}", window.from, window.to);
    if window.days.is_empty() { times } else { format!("{} {times}", days(&window.days)) }
}

/// Days in the order of the week, three or more in a row as a range.
fn days(days: &[Day]) -> String {
    let mut runs: Vec<Vec<Day>> = Vec::new();
    let mut follows = false;
    for day in Day::ALL {
        if !days.contains(&day) {
            follows = false;
            continue;
        }
        match runs.last_mut() {
            Some(run) if follows => run.push(day),
            Some(_) | None => runs.push(vec![day]),
        }
        follows = true;
    }
    let run = |run: &Vec<Day>| match run.as_slice() {
        [first, .., last] if run.len() > 2 => format!("{first}-{last}"),
        few => few.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// The hours of a service, and what they do next; none if it always runs.
pub fn line(service: &Service) -> Option<String> {
    let hours = text(service.active.as_ref()?);
    let next = service.schedule.as_ref().and_then(next).map(|next| format!("; {next}"));
    Some(format!("{hours}{}", next.unwrap_or_default()))
}

/// What active hours do next: `resumes at 2026-01-01 15:00:00Z`.
pub fn next(schedule: &ServiceSchedule) -> Option<String> {
    let at: Timestamp = schedule.next_at?;
    let word = match schedule.next? {
        Turn::On => "resumes",
        Turn::Off => "pauses",
    };
    Some(format!("{word} at {}", moment(at)))
}

/// What the hours of a service save per month; none without a plan.
pub fn saving(schedule: &ServiceSchedule) -> Option<String> {
    let (monthly, saved) = (schedule.monthly.as_ref()?, schedule.saved.as_ref()?);
    let hours = f64::from(schedule.minutes_per_week) / 60.0;
    let hours = format!("{hours:.1}");
    let hours = hours.strip_suffix(".0").unwrap_or(&hours);
    Some(format!(
        "runs {hours} of 168 hours a week: {} a month, which saves {}",
        monthly.text, saved.text
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_and_written_the_same() {
        let table = [
            ("15:00-23:00", "15:00-23:00"),
            ("mon-fri 15:00-23:00", "mon-fri 15:00-23:00"),
            ("Monday-FRIDAY 15:00-23:00", "mon-fri 15:00-23:00"),
            ("sat,sun 10:00-02:00", "sat,sun 10:00-02:00"),
            ("sat sun 10:00-24:00", "sat,sun 10:00-24:00"),
            ("fri-mon 18:00-23:00", "mon,fri-sun 18:00-23:00"),
            ("mon,wed-fri 08:00-12:00", "mon,wed-fri 08:00-12:00"),
        ];
        for (typed, shown) in table {
            let hours =
                ActiveHours { zone: "UTC".to_owned(), windows: vec![window(typed).unwrap()] };
            assert_eq!(text(&hours), format!("{shown} UTC"), "{typed}");
        }
        for bad in ["", "mon-fri", "15-23", "someday 15:00-23:00", "mon-xyz 15:00-23:00"] {
            assert!(window(bad).is_err(), "{bad}");
        }
    }
}
