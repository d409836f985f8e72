//! CPU time and memory of a process, from `/proc`.

use std::fs;

use anyhow::Context as _;

/// Clock ticks per second of CPU times in `/proc`, on every machine that we build for.
const TICKS: f64 = 100.0;

/// CPU seconds of one process, including its ended children.
pub(crate) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let ticks: u64 = times(pid)?.iter().sum();
    Ok(seconds(ticks))
}

/// CPU seconds of a process and all its descendants.
pub(crate) fn family_cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let mut sum = cpu_seconds(pid)?;
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if fields(child).is_ok_and(|fields| fields.get(1) == Some(&pid.to_string())) {
            // A child that ends meanwhile is counted with its parent.
            sum += family_cpu_seconds(child).unwrap_or_default();
        }
    }
    Ok(sum)
}

/// Resident memory of a process in MB: now, and at its peak.
pub(crate) fn memory_mb(pid: u32) -> anyhow::Result<(f64, f64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> anyhow::Result<f64> {
        let line = text.lines().find(|line| line.starts_with(name));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)).context("no memory")?;
        Ok(kib.parse::<f64>()? * 1024.0 / 1e6)
    };
    Ok((field("VmRSS")?, field("VmHWM")?))
}

/// The fields after the name in `/proc/PID/stat`: state, parent … The name may contain anything.
fn fields(pid: u32) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = text.rsplit_once(") ").context("no stat")?;
    Ok(rest.split(' ').map(str::to_owned).collect())
}

/// User and system time of the process and of its ended children.
fn times(pid: u32) -> anyhow::Result<Vec<u64>> {
    let fields = fields(pid)?;
    let times = fields.get(11..15).context("too few fields")?;
    Ok(times.iter().map(|field| field.parse()).collect::<Result<_, _>>()?)
}

fn seconds(ticks: u64) -> f64 {
    f64::from(u32::try_from(ticks).unwrap_or(u32::MAX)) / TICKS
}
