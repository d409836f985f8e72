//! ANSI colours.

use trueup_model::cluster::Reachability;
use trueup_model::status::{Health, Phase};

/// A colour with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// No colour.
    Plain,
    /// Healthy or done.
    Good,
    /// In progress.
    Busy,
    /// Failed.
    Bad,
    /// Unknown or unimportant.
    Faint,
    /// A heading.
    Strong,
}

impl Paint {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "32",
            Self::Busy => "33",
            Self::Bad => "31",
            Self::Faint => "90",
            Self::Strong => "1",
        }
    }
}

/// Whether to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    color: bool,
}

impl Style {
    /// With or without colour.
    pub const fn new(color: bool) -> Self {
        Self { color }
    }

    /// The text in that colour.
    pub fn paint(self, paint: Paint, text: &str) -> String {
        if self.color && paint != Paint::Plain {
            format!("\u{1b}[{}m{text}\u{1b}[0m", paint.code())
        } else {
            text.to_owned()
        }
    }
}

/// The colour of a health.
pub const fn health(health: Health) -> Paint {
    match health {
        Health::Healthy => Paint::Good,
        Health::Progressing | Health::Degraded => Paint::Busy,
        Health::Error => Paint::Bad,
        Health::Unknown => Paint::Faint,
    }
}

/// The colour of a phase.
pub const fn phase(phase: Phase) -> Paint {
    match phase {
        Phase::Running | Phase::Completed => Paint::Good,
        Phase::Accepted | Phase::Creating | Phase::Updating | Phase::Deleting => Paint::Busy,
        Phase::Blocked => Paint::Bad,
        Phase::Paused | Phase::Deleted => Paint::Faint,
    }
}

/// The colour of a reachability. An unreachable cluster is shown as busy, not as failed.
pub const fn reachability(reachability: Reachability) -> Paint {
    match reachability {
        Reachability::Reachable => Paint::Good,
        Reachability::Unreachable => Paint::Busy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colour_text_stays_as_it_is() {
        assert_eq!(Style::new(false).paint(Paint::Bad, "x"), "x");
        assert_eq!(Style::new(true).paint(Paint::Plain, "x"), "x");
        assert_eq!(Style::new(true).paint(health(Health::Healthy), "x"), "\u{1b}[32mx\u{1b}[0m");
    }
}
