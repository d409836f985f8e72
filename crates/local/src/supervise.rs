//! Child processes that outlive trueup, and how the next start finds them.
//!
//! A pid alone proves nothing: the kernel reuses it sooner or later. A process is therefore
//! identified by pid, start time and boot id; all three go into a pid file, and no signal is sent
//! to a process that does not match them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use crate::files::{self, At, FileError};

const POLL: Duration = Duration::from_millis(20);

/// A process could not be started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pid file cannot be used.
    #[error("cannot use the pid file; make its folder writable for this user")]
    PidFile(#[from] FileError),
    /// The program does not start.
    #[error("cannot start {program}; check that the file exists and is executable")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The process ended before it could be inspected.
    #[error("the process exited immediately; see its log")]
    Vanished,
    /// The kernel refused the signal.
    #[error("cannot signal process {pid}; stop it as the user that owns it")]
    Signal {
        /// The process.
        pid: u32,
        /// Why.
        source: io::Error,
    },
    /// The process does not end, even with SIGKILL.
    #[error(
        "process {pid} still exists after SIGKILL; it is probably blocked in the kernel, check with ps"
    )]
    Stuck {
        /// The process.
        pid: u32,
    },
}

/// One process, distinguished from any later one with the same pid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pid: u32,
    /// Clock ticks from boot to the start of the process.
    start_time: u64,
    /// The boot these ticks count from.
    boot: String,
}

impl Process {
    /// The process that has this pid now.
    pub fn find(pid: u32) -> Option<Self> {
        Some(Self { pid, start_time: running_since(pid)?, boot: boot_id() })
    }

    /// The pid, for display and comparison only.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether this same process still runs. A zombie does not.
    pub fn is_alive(&self) -> bool {
        Self::find(self.pid).as_ref() == Some(self)
    }

    /// Sends a signal to this same process; returns false if it is gone.
    ///
    /// The pidfd is opened first and the identity is checked second, so the pid cannot be reused in
    /// between.
    pub fn signal(&self, signal: Signal) -> Result<bool, Error> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Ok(false);
        };
        let refused = |source: io::Error| Error::Signal { pid: self.pid, source };
        let process = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => process,
            Err(rustix::io::Errno::SRCH) => return Ok(false),
            Err(error) => return Err(refused(error.into())),
        };
        if !self.is_alive() {
            return Ok(false);
        }
        match rustix::process::pidfd_send_signal(&process, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(refused(error.into())),
        }
    }

    /// Waits until the process is gone, for at most this long; returns whether it is.
    pub async fn gone_within(&self, limit: Duration) -> bool {
        let gone = async {
            while self.is_alive() {
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(limit, gone).await.is_ok() || !self.is_alive()
    }

    /// Sends each signal in turn and waits its time; SIGKILL comes last.
    pub async fn stop(&self, ladder: &[(Signal, Duration)]) -> Result<(), Error> {
        let last = (Signal::KILL, Duration::from_secs(5));
        for (signal, patience) in ladder.iter().copied().chain([last]) {
            if !self.signal(signal)? || self.gone_within(patience).await {
                return Ok(());
            }
            tracing::warn!(pid = self.pid, ?signal, "the process did not stop in time");
        }
        Err(Error::Stuck { pid: self.pid })
    }
}

/// The process that a pid file names, if it still runs. A stale or damaged file is removed.
pub fn adopt(pid_file: &Path) -> Result<Option<Process>, Error> {
    let Some(text) = files::read_if_there(pid_file)? else {
        return Ok(None);
    };
    match serde_json::from_str::<Process>(&text) {
        Ok(process) if process.is_alive() => Ok(Some(process)),
        Ok(_) | Err(_) => {
            files::remove_if_there(pid_file)?;
            Ok(None)
        }
    }
}

/// Starts a program in its own process group, so that Ctrl-C in the terminal does not reach it, and
/// records it in the pid file.
pub fn spawn(command: Command, pid_file: &Path) -> Result<Process, Error> {
    let program = PathBuf::from(command.get_program());
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::null()).process_group(0).kill_on_drop(false);
    // The handle is dropped: the runtime then reaps the child, and it may outlive us.
    let pid = command
        .spawn()
        .map_err(|source| Error::Spawn { program, source })?
        .id()
        .ok_or(Error::Vanished)?;
    let process = Process::find(pid).ok_or(Error::Vanished)?;
    record(&process, pid_file)?;
    Ok(process)
}

/// Writes the pid file of a process that was found by other means.
pub fn record(process: &Process, pid_file: &Path) -> Result<(), Error> {
    let content = serde_json::to_vec(process).map_err(io::Error::other).at("write", pid_file)?;
    Ok(files::write_private(pid_file, &content)?)
}

/// Stops the process that a pid file names, if it still runs; returns whether it did.
pub(crate) async fn stop_left(
    pid_file: &Path,
    ladder: &[(Signal, Duration)],
) -> Result<bool, Error> {
    let Some(process) = adopt(pid_file)? else {
        return Ok(false);
    };
    process.stop(ladder).await?;
    files::remove_if_there(pid_file)?;
    Ok(true)
}

/// The processes whose working folder is this one.
pub(crate) fn working_in(folder: &Path) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| works_in(*pid, folder))
        .filter_map(Process::find)
        .collect()
}

/// Whether a process has this working folder; false also for one that we may not inspect.
pub(crate) fn works_in(pid: u32, folder: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder)
}

/// The start time of a process that is not a zombie.
fn running_since(pid: u32) -> Option<u64> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Fields 3 (state) and 22 (start time). Field 2 is the program's name in parentheses and may hold
/// anything, so counting begins after its last parenthesis.
fn parse_stat(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.nth(18)?.parse().ok(),
    }
}

/// Start times count from boot, so they mean something only together with it.
fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_with_parentheses_does_not_shift_the_fields() {
        let fields = "1 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        assert_eq!(parse_stat(&format!("7 (a) Z 1 (b)) S {fields}")), Some(4711));
        assert_eq!(parse_stat(&format!("7 (a) Z {fields}")), None);
        assert_eq!(parse_stat("7 (a"), None);
    }
}
