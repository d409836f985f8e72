//! Active hours: edges of windows, also on the nights on which the clock changes.

use jiff::Timestamp;
use serde_json::{Value, json};
use trueup_model::active_hours::{ActiveHours, Turn};
use trueup_model::service::DesiredState;
use trueup_rules::active_hours::{errors, follow, is_on, minutes_per_week, next_edge, settle};
use trueup_rules::admit::operation::ServiceOperation;
use trueup_rules::admit::{
    AdmissionContext, AdmissionRequest, Admitted, Refused, ReleaseSpec, admit,
};

use crate::given;

fn hours(zone: &str, windows: &Value) -> ActiveHours {
    serde_json::from_value(json!({"zone": zone, "windows": windows})).expect("active hours")
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

/// The next edges after a moment, as text.
fn edges(hours: &ActiveHours, after: &str, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut now = at(after);
    while found.len() < count
        && let Some(edge) = next_edge(hours, now)
    {
        found.push(format!("{} {}", edge.turn, edge.at));
        now = edge.at;
    }
    found
}

#[test]
fn edges_follow_the_clock_on_the_wall_also_when_it_changes() {
    let daily = |from: &str, to: &str| hours("Europe/Berlin", &json!([{"from": from, "to": to}]));
    let table: [(&str, ActiveHours, &str, &[&str]); 8] = [
        (
            "winter and summer: another time in UTC",
            daily("15:00", "23:00"),
            "2026-03-28T12:00:00Z",
            &["on 2026-03-28T14:00:00Z", "off 2026-03-28T22:00:00Z", "on 2026-03-29T13:00:00Z"],
        ),
        (
            "a night that is an hour shorter",
            daily("22:00", "06:00"),
            "2026-03-28T12:00:00Z",
            &["on 2026-03-28T21:00:00Z", "off 2026-03-29T04:00:00Z"],
        ),
        (
            "a night that is an hour longer",
            daily("22:00", "06:00"),
            "2026-10-24T12:00:00Z",
            &["on 2026-10-24T20:00:00Z", "off 2026-10-25T05:00:00Z"],
        ),
        (
            "a beginning that is skipped: as much later as the clock goes forward",
            daily("02:30", "04:00"),
            "2026-03-28T12:00:00Z",
            &["on 2026-03-29T01:30:00Z", "off 2026-03-29T02:00:00Z", "on 2026-03-30T00:30:00Z"],
        ),
        (
            "an end that is skipped",
            daily("01:00", "02:30"),
            "2026-03-28T12:00:00Z",
            &["on 2026-03-29T00:00:00Z", "off 2026-03-29T01:30:00Z"],
        ),
        (
            "a beginning after its end, because it is skipped: not on that day",
            daily("02:30", "03:10"),
            "2026-03-28T12:00:00Z",
            &["on 2026-03-30T00:30:00Z", "off 2026-03-30T01:10:00Z"],
        ),
        (
            "a beginning that occurs twice: the first one",
            daily("02:30", "04:00"),
            "2026-10-24T12:00:00Z",
            &["on 2026-10-25T00:30:00Z", "off 2026-10-25T03:00:00Z"],
        ),
        (
            "an end that occurs twice: the first one, and no second beginning",
            daily("01:00", "02:30"),
            "2026-10-24T12:00:00Z",
            &["on 2026-10-24T23:00:00Z", "off 2026-10-25T00:30:00Z", "on 2026-10-26T00:00:00Z"],
        ),
    ];
    for (name, hours, after, expected) in table {
        assert_eq!(edges(&hours, after, expected.len()), expected, "{name}");
    }
}

#[test]
fn windows_overlap_touch_and_pass_midnight_as_one_interval() {
    let table: [(&str, Value, &[&str]); 5] = [
        (
            "two windows on one day",
            json!([{"from": "08:00", "to": "12:00"}, {"from": "14:00", "to": "18:00"}]),
            &["on 2026-01-05T08:00:00Z", "off 2026-01-05T12:00:00Z", "on 2026-01-05T14:00:00Z"],
        ),
        (
            "they touch",
            json!([{"from": "08:00", "to": "12:00"}, {"from": "12:00", "to": "18:00"}]),
            &["on 2026-01-05T08:00:00Z", "off 2026-01-05T18:00:00Z"],
        ),
        (
            "one within the other",
            json!([{"from": "08:00", "to": "20:00"}, {"from": "10:00", "to": "11:00"}]),
            &["on 2026-01-05T08:00:00Z", "off 2026-01-05T20:00:00Z"],
        ),
        (
            "from Friday evening until Sunday night",
            json!([{"days": ["fri"], "from": "18:00", "to": "24:00"},
                   {"days": ["sat", "sun"], "from": "00:00", "to": "24:00"}]),
            &["on 2026-01-09T18:00:00Z", "off 2026-01-12T00:00:00Z", "on 2026-01-16T18:00:00Z"],
        ),
        (
            "the day is that of the beginning",
            json!([{"days": ["sun"], "from": "20:00", "to": "02:00"}]),
            &["off 2026-01-05T02:00:00Z", "on 2026-01-11T20:00:00Z", "off 2026-01-12T02:00:00Z"],
        ),
    ];
    for (name, windows, expected) in table {
        // A Monday.
        let hours = hours("UTC", &windows);
        assert_eq!(edges(&hours, "2026-01-05T00:00:00Z", expected.len()), expected, "{name}");
    }
}

#[test]
fn state_between_edges_agrees_with_the_edges() {
    let hours = hours(
        "Europe/Berlin",
        &json!([{"days": ["sat"], "from": "20:00", "to": "03:30"}, {"from": "02:10", "to": "02:50"}]),
    );
    // Every ten minutes over both changes of the clock.
    for start in ["2026-03-27T00:00:00Z", "2026-10-23T00:00:00Z"] {
        let start = at(start);
        for step in 0..(4 * 24 * 6) {
            let now = start + jiff::SignedDuration::from_mins(step * 10);
            let edge = next_edge(&hours, now).expect("an edge");
            assert_eq!(edge.turn == Turn::Off, is_on(&hours, now), "{now}");
            assert!(edge.at > now, "{now}");
            assert_eq!(is_on(&hours, edge.at), edge.turn == Turn::On, "{now}: {edge:?}");
        }
    }
}

#[test]
fn errors_name_each_field() {
    let table: [(Value, &[&str]); 7] = [
        (json!({"zone": "UTC", "windows": [{"from": "08:00", "to": "20:00"}]}), &[]),
        (json!({"zone": "Mars/Olympus", "windows": []}), &["active.zone", "active.windows"]),
        (
            json!({"zone": "UTC", "windows": [{"from": "24:00", "to": "8:00"}]}),
            &["active.windows.0.from", "active.windows.0.to"],
        ),
        (
            json!({"zone": "UTC", "windows": [{"from": "08:00", "to": "08:00"}]}),
            &["active.windows.0.to"],
        ),
        (
            json!({"zone": "UTC", "windows": [{"days": ["mon", "mon"], "from": "08:00", "to": "09:00"}]}),
            &["active.windows.0.days"],
        ),
        (
            json!({"zone": "UTC", "windows": [{"from": "00:00", "to": "24:00"}]}),
            &["active.windows"],
        ),
        (
            json!({"zone": "UTC", "windows": [{"from": "12:00", "to": "11:00"}, {"from": "10:00", "to": "13:00"}]}),
            &["active.windows"],
        ),
    ];
    for (given, expected) in table {
        let hours: ActiveHours = serde_json::from_value(given.clone()).expect("active hours");
        let fields: Vec<String> =
            errors(&hours, "active").into_iter().map(|error| error.field).collect();
        assert_eq!(fields, expected, "{given}");
    }
}

#[test]
fn minutes_of_a_week_count_overlaps_once() {
    let table = [
        (json!([{"from": "08:00", "to": "20:00"}]), 7 * 12 * 60),
        (json!([{"days": ["mon"], "from": "22:00", "to": "02:00"}]), 4 * 60),
        (
            json!([{"days": ["sun"], "from": "22:00", "to": "02:00"}, {"days": ["mon"], "from": "01:00", "to": "03:00"}]),
            5 * 60,
        ),
    ];
    for (windows, minutes) in table {
        assert_eq!(minutes_per_week(&hours("UTC", &windows)), minutes, "{windows}");
    }
}

#[test]
fn person_wins_until_the_next_edge() {
    let day = hours("UTC", &json!([{"from": "08:00", "to": "20:00"}]));
    let (noon, night) = (at("2026-01-05T12:00:00Z"), at("2026-01-05T23:00:00Z"));
    let (active, paused) = (DesiredState::Active, DesiredState::Paused);
    let table = [
        ("it is time", (active, false), night, Some((paused, true))),
        ("it is time again", (paused, true), noon, Some((active, false))),
        ("paused by a person", (paused, false), noon, None),
        ("paused by a person at night", (paused, false), night, None),
        ("nothing to do", (active, false), noon, None),
        ("still night", (paused, true), night, None),
        ("being deleted", (DesiredState::Deleted, false), night, None),
    ];
    for (name, state, now, expected) in table {
        assert_eq!(follow(Some(&day), state, now), expected, "{name}");
    }
    assert_eq!(follow(None, (paused, true), night), Some((active, false)), "hours were removed");
    assert_eq!(follow(None, (paused, false), night), None);
}

#[test]
fn new_hours_take_effect_at_once_and_the_same_hours_do_not() {
    let template = given::template("web");
    let service = given::accepted(&template, json!({"image": "shop:1"}));
    let day = hours("UTC", &json!([{"from": "08:00", "to": "20:00"}]));
    let night = at("2026-01-05T23:00:00Z");
    let request =
        AdmissionRequest { active: Some(day.clone()), ..AdmissionRequest::again(&service) };
    let context =
        AdmissionContext { template: Some(&template), plan: None, current: Some(&service) };
    let Ok(Admitted::Changed(mut release)) = admit(&request, context) else {
        panic!("hours are a change")
    };
    assert_eq!(settle(&mut release, Some(&service), night), Some(Turn::Off));
    assert_eq!((release.desired, release.scheduled_off), (DesiredState::Paused, true));
    // A person resumed it at night; another change of the service pauses nothing.
    let mut resumed = service;
    resumed.active = Some(day);
    let mut release = ReleaseSpec::of(&resumed);
    assert_eq!(settle(&mut release, Some(&resumed), night), None);
    assert_eq!(release.desired, DesiredState::Active);
}

#[test]
fn what_ends_by_itself_has_no_hours() {
    let template = given::template("job");
    let service = given::accepted(&template, json!({"image": "shop:1"}));
    let active = Some(hours("UTC", &json!([{"from": "08:00", "to": "20:00"}])));
    let request = AdmissionRequest { active, ..AdmissionRequest::again(&service) };
    let context =
        AdmissionContext { template: Some(&template), plan: None, current: Some(&service) };
    let Err(Refused::Invalid(errors)) = admit(&request, context) else {
        panic!("a job has no hours")
    };
    assert_eq!(errors.into_iter().map(|error| error.field).collect::<Vec<_>>(), ["active"]);
    assert_eq!(ServiceOperation::Hours { active: None }.as_str(), "hours");
}
