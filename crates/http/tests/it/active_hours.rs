//! The API of active hours: what a preview says, what is shown, and what is refused.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::front::{DEVELOPER, Front, VIEWER, WEB};

/// A third of every day.
fn third() -> Value {
    json!({"active": {"zone": "Europe/Berlin", "windows": [{"from": "22:00", "to": "06:00"}]}})
}

#[tokio::test]
async fn preview_says_what_hours_save_and_the_service_says_what_comes_next() {
    let front = Front::with_web().await;
    let path = format!("{WEB}/hours");
    let before = front.get(WEB).send().await.json();
    let preview = front.post(&format!("{path}?dry_run=true")).json(&third()).send().await.json();
    let schedule = &preview["result"]["schedule"];
    assert_eq!(schedule["minutes_per_week"], 7 * 8 * 60);
    let micros = |amount: &Value| amount["micros"].as_i64().unwrap();
    let always = micros(&before["monthly"]);
    assert_eq!(micros(&schedule["saved"]), always / 3 * 2, "{schedule}");
    assert_eq!(micros(&schedule["monthly"]) + micros(&schedule["saved"]), always);
    assert_eq!(front.get(WEB).send().await.json(), before, "a preview changes nothing");
    let set = front.post(&path).token(DEVELOPER).json(&third()).send().await;
    assert_eq!(set.status, StatusCode::ACCEPTED, "{}", set.text());
    let shown = set.json();
    assert_eq!(shown["active"], third()["active"]);
    assert_eq!(shown["schedule"]["off"] == json!(true), shown["desired"] == "paused");
    let next = if shown["desired"] == "paused" { "on" } else { "off" };
    assert_eq!(shown["schedule"]["next"], next);
    assert_eq!(micros(&shown["monthly"]), always - always / 3 * 2, "whether it runs now or not");
    let again = front.post(&path).json(&third()).send().await;
    assert_eq!(again.status, StatusCode::OK);
    let none = front.post(&path).json(&json!({})).send().await.json();
    assert_eq!((none.get("active"), none.get("schedule")), (None, None));
    assert_eq!(none["desired"], "active");
}

#[tokio::test]
async fn refusals_name_the_window_and_a_viewer_sets_no_hours() {
    let front = Front::with_web().await;
    let path = format!("{WEB}/hours");
    let bad =
        json!({"active": {"zone": "Mars/Olympus", "windows": [{"from": "8:00", "to": "20:00"}]}});
    let refused = front.post(&path).json(&bad).send().await;
    let text = refused.text().to_owned();
    refused.must_be(422, "TU1201");
    for field in ["active.zone", "active.windows.0.from"] {
        assert!(text.contains(field), "{field}: {text}");
    }
    let day = json!({"active": {"zone": "UTC", "windows": [{"days": ["someday"], "from": "08:00", "to": "20:00"}]}});
    front.post(&path).json(&day).send().await.must_be(400, "TU1101");
    front.post(&path).token(VIEWER).json(&third()).send().await.must_be(403, "TU1002");
}
