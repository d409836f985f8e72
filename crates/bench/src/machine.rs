//! The machine that was measured.

use std::fmt;
use std::fs;

use jiff::Timestamp;
use serde::Serialize;

/// Hardware and time of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    processor: String,
    cores: usize,
    memory_gib: u64,
    kernel: String,
    measured_at: String,
}

impl Machine {
    /// This machine, now.
    pub(crate) fn here() -> anyhow::Result<Self> {
        let field = |path: &str, name: &str| -> anyhow::Result<String> {
            let text = fs::read_to_string(path)?;
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim());
            Ok(value.unwrap_or("unknown").to_owned())
        };
        let memory = field("/proc/meminfo", "MemTotal")?;
        let kib: u64 = memory.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        Ok(Self {
            processor: field("/proc/cpuinfo", "model name")?,
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: kib / 1_048_576,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            measured_at: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, cores, memory_gib, kernel, measured_at } = self;
        write!(f, "{processor}, {cores} cores, {memory_gib} GiB, Linux {kernel}, {measured_at}")
    }
}
