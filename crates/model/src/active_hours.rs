//! Active hours: when a service runs, by the clock of a place. Outside of them it is paused.

use jiff::civil::Weekday;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};
use utoipa::ToSchema;

/// The most windows of a service.
pub const MAX_WINDOWS: usize = 21;

/// When a service runs: within any of its windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ActiveHours {
    /// The IANA name of the time zone of all windows: `Europe/Berlin`.
    #[schema(
        example = "Europe/Berlin",
        pattern = "^[A-Za-z0-9_+/-]+$",
        min_length = 1,
        max_length = 64
    )]
    pub zone: String,
    /// The windows; the service runs while it is within one of them.
    #[schema(min_items = 1, max_items = 21)]
    pub windows: Vec<ActiveWindow>,
}

/// A window that repeats every week.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ActiveWindow {
    /// The days on which it begins; none for every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 7)]
    pub days: Vec<Day>,
    /// When it begins: `15:00`.
    #[schema(
        example = "15:00",
        pattern = "^(?:[01][0-9]|2[0-3]):[0-5][0-9]$",
        min_length = 5,
        max_length = 5
    )]
    pub from: String,
    /// When it ends: `23:00`, or `24:00` for midnight. An end before its beginning is on the next day.
    #[schema(
        example = "23:00",
        pattern = "^(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]|24:00)$",
        min_length = 5,
        max_length = 5
    )]
    pub to: String,
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
#[schema(as = ActiveDay)]
pub enum Day {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

impl Day {
    /// All of them, from Monday.
    pub const ALL: [Self; 7] =
        [Self::Mon, Self::Tue, Self::Wed, Self::Thu, Self::Fri, Self::Sat, Self::Sun];

    /// The day of a date.
    #[must_use]
    pub const fn of(day: Weekday) -> Self {
        match day {
            Weekday::Monday => Self::Mon,
            Weekday::Tuesday => Self::Tue,
            Weekday::Wednesday => Self::Wed,
            Weekday::Thursday => Self::Thu,
            Weekday::Friday => Self::Fri,
            Weekday::Saturday => Self::Sat,
            Weekday::Sunday => Self::Sun,
        }
    }
}

/// What active hours do at an edge of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
#[schema(as = ActiveTurn)]
pub enum Turn {
    /// The service is resumed.
    On,
    /// The service is paused.
    Off,
}
