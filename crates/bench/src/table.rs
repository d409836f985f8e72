//! Results: a table for display, and a JSON file to compare runs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use crate::machine::Machine;

/// Where results are written.
const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/results");

/// One measurement.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Row {
    /// What was done.
    pub(crate) work: String,
    /// Trueup's result, in `unit`.
    pub(crate) ours: f64,
    /// The floor's result, in `unit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) floor: Option<f64>,
    /// Trueup's result divided by the floor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    pub(crate) unit: &'static str,
    /// The target.
    pub(crate) wanted: &'static str,
    /// Milliseconds of single operations, if they were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_ms: Option<f64>,
    /// CPU seconds of the process `trueup`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_s: Option<f64>,
    /// Memory of the process, in MB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rss_mb: Option<f64>,
    /// Additional information.
    pub(crate) note: String,
}

impl Row {
    /// A row with a floor.
    pub(crate) fn beside(
        work: impl Into<String>,
        unit: &'static str,
        ours: f64,
        floor: f64,
    ) -> Self {
        let ratio = (floor > 0.0).then(|| ours / floor);
        Self { work: work.into(), ours, floor: Some(floor), ratio, unit, ..Self::default() }
    }

    /// A row without a floor.
    pub(crate) fn alone(work: impl Into<String>, unit: &'static str, ours: f64) -> Self {
        Self { work: work.into(), ours, unit, ..Self::default() }
    }

    /// Adds percentiles of single operations.
    pub(crate) fn with_times(mut self, times: &mut [Duration]) -> Self {
        (self.p50_ms, self.p99_ms) = (Some(percentile(times, 50)), Some(percentile(times, 99)));
        self
    }
}

/// The percentile of the times, in milliseconds.
pub(crate) fn percentile(times: &mut [Duration], share: usize) -> f64 {
    times.sort_unstable();
    let index = (times.len() * share / 100).min(times.len().saturating_sub(1));
    times.get(index).copied().unwrap_or_default().as_secs_f64() * 1000.0
}

/// All rows as a Markdown table.
pub(crate) fn show(rows: &[Row]) -> String {
    let mut text = String::from(
        "| work | ours | floor | ratio | wanted | p50 ms | p99 ms | CPU s | RSS MB | |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let unit = row.unit;
        let floor = row.floor.map(|floor| format!("{floor:.2} {unit}")).unwrap_or_default();
        text.push_str(&format!(
            "| {} | {:.2} {unit} | {floor} | {} | {} | {} | {} | {} | {} | {} |",
            row.work,
            row.ours,
            number(row.ratio, 2),
            row.wanted,
            number(row.p50_ms, 1),
            number(row.p99_ms, 1),
            number(row.cpu_s, 2),
            number(row.rss_mb, 0),
            row.note,
        ));
        text.push('\n');
    }
    text
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map(|value| format!("{value:.digits$}")).unwrap_or_default()
}

/// Writes the results of a bench to `bench/results/<name>.json`.
pub(crate) fn write(name: &str, machine: &Machine, rows: &[Row]) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Result<'a> {
        bench: &'a str,
        machine: &'a Machine,
        rows: &'a [Row],
    }
    let folder = Path::new(RESULTS);
    fs::create_dir_all(folder).context("cannot create bench/results")?;
    let text = serde_json::to_string_pretty(&Result { bench: name, machine, rows })?;
    Ok(fs::write(folder.join(format!("{name}.json")), text + "\n")?)
}
