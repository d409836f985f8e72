//! Results for programs: the wire types as JSON or YAML, unchanged.

use clap::ValueEnum;
use serde::Serialize;

use crate::output::terminal::Terminal;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// For people with room: more columns.
    Wide,
    /// JSON, as the API sends it.
    Json,
    /// The same as YAML.
    Yaml,
}

impl Output {
    /// Whether nobody reads the lines that are for people.
    pub fn is_for_programs(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }

    /// Prints the value if a program reads it; says `false` if a person does.
    pub fn print<T: Serialize>(self, terminal: Terminal, value: &T) -> anyhow::Result<bool> {
        let text = match self {
            Self::Table | Self::Wide => return Ok(false),
            Self::Json => serde_json::to_string_pretty(value)?,
            Self::Yaml => serde_saphyr::to_string(value)?,
        };
        terminal.line(&text)?;
        Ok(true)
    }

    /// The same for one item of a stream: JSON on one line, YAML as one document.
    pub fn print_item<T: Serialize>(self, terminal: Terminal, value: &T) -> anyhow::Result<bool> {
        let text = match self {
            Self::Table | Self::Wide => return Ok(false),
            Self::Json => serde_json::to_string(value)?,
            Self::Yaml => format!("---\n{}", serde_saphyr::to_string(value)?),
        };
        terminal.line(&text)?;
        Ok(true)
    }
}
