//! Output formats. Programs get the wire types as JSON or YAML, unchanged.

use clap::ValueEnum;
use serde::Serialize;

use crate::output::terminal::Terminal;

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Output {
    /// A table.
    #[default]
    Table,
    /// A table with more columns.
    Wide,
    /// JSON as the API returns it.
    Json,
    /// The same as YAML.
    Yaml,
}

impl Output {
    /// Whether the output is JSON or YAML, without the lines meant for people.
    pub fn is_for_programs(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }

    /// Prints the value as JSON or YAML; returns false for table formats.
    pub fn print<T: Serialize>(self, terminal: Terminal, value: &T) -> anyhow::Result<bool> {
        let text = match self {
            Self::Table | Self::Wide => return Ok(false),
            Self::Json => serde_json::to_string_pretty(value)?,
            Self::Yaml => serde_saphyr::to_string(value)?,
        };
        terminal.line(&text)?;
        Ok(true)
    }

    /// The same for one stream item: JSON on one line, YAML as one document.
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
