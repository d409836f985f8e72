//! What a process takes of the machine, by the kernel's own account.

use std::fs;

use anyhow::Context as _;

/// Parts of a second in which Linux tells CPU times, on every machine that we build for.
const TICKS: f64 = 100.0;

/// CPU seconds of one process so far, with those of its children that have ended.
pub(crate) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let ticks: u64 = times(pid)?.iter().sum();
    Ok(seconds(ticks))
}

/// CPU seconds of a process and of all that it started.
pub(crate) fn family_cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let mut sum = cpu_seconds(pid)?;
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if fields(child).is_ok_and(|fields| fields.get(1) == Some(&pid.to_string())) {
            // One that ends meanwhile is counted with its parent.
            sum += family_cpu_seconds(child).unwrap_or_default();
        }
    }
    Ok(sum)
}

/// Memory of a process in MB: what it has now, and the most that it ever had.
pub(crate) fn memory_mb(pid: u32) -> anyhow::Result<(f64, f64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> anyhow::Result<f64> {
        let line = text.lines().find(|line| line.starts_with(name));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)).context("no memory")?;
        Ok(kib.parse::<f64>()? * 1024.0 / 1e6)
    };
    Ok((field("VmRSS")?, field("VmHWM")?))
}

/// What follows the name in `/proc/PID/stat`, whose parentheses may hold anything: state, parent …
fn fields(pid: u32) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = text.rsplit_once(") ").context("no stat")?;
    Ok(rest.split(' ').map(str::to_owned).collect())
}

/// User and system time, own and of ended children.
fn times(pid: u32) -> anyhow::Result<Vec<u64>> {
    let fields = fields(pid)?;
    let times = fields.get(11..15).context("too few fields")?;
    Ok(times.iter().map(|field| field.parse()).collect::<Result<_, _>>()?)
}

fn seconds(ticks: u64) -> f64 {
    f64::from(u32::try_from(ticks).unwrap_or(u32::MAX)) / TICKS
}
