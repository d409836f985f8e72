//! Colour, by hand: five codes do not need a library.

/// A colour with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// As it is.
    Plain,
    /// It is as promised.
    Good,
    /// On its way.
    Busy,
    /// Wrong.
    Bad,
    /// Not known, or not important.
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

/// Whether there are colours at all.
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
pub fn health(text: &str) -> Paint {
    match text {
        "healthy" => Paint::Good,
        "progressing" | "degraded" => Paint::Busy,
        "error" => Paint::Bad,
        _ => Paint::Faint,
    }
}

/// The colour of a phase.
pub fn phase(text: &str) -> Paint {
    match text {
        "running" | "completed" => Paint::Good,
        "accepted" | "creating" | "updating" | "deleting" => Paint::Busy,
        "blocked" => Paint::Bad,
        _ => Paint::Faint,
    }
}

/// The colour of a reachability. A cluster that is away is not an error of anybody's.
pub fn reachability(text: &str) -> Paint {
    if text == "reachable" { Paint::Good } else { Paint::Busy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colour_text_stays_as_it_is() {
        assert_eq!(Style::new(false).paint(Paint::Bad, "x"), "x");
        assert_eq!(Style::new(true).paint(Paint::Plain, "x"), "x");
        assert_eq!(Style::new(true).paint(health("healthy"), "x"), "\u{1b}[32mx\u{1b}[0m");
    }
}
