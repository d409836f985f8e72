//! The process of one suite: its output is read line by line, and it is killed when it hangs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{BufRead as _, BufReader, PipeReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::ensure;
use trueup_testkit::left_out::{REPORT, REQUIRE_ALL};

use crate::MAX_FLAKY;
use crate::output::{self, Outcome};
use crate::suite::Suite;

/// A suite that prints nothing for this long hangs; the longest test takes a fraction of it.
const SILENCE: Duration = Duration::from_secs(420);

/// Locks, also after a worker panicked: the data are counters and stay valid.
pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where suites write their output.
#[derive(Debug)]
pub(crate) struct OutputPaths<'a> {
    /// The folder of their logs.
    pub(crate) logs: &'a Path,
    /// The file in which tests report the checks they leave out.
    pub(crate) left_out: &'a Path,
}

/// The result of a suite.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) suite: Suite,
    pub(crate) passed: usize,
    pub(crate) ignored: usize,
    /// The tests that failed or, in a suite that was killed because it hung, did not end.
    pub(crate) failed: Vec<String>,
    /// Why the suite did not run all of its tests, if so.
    pub(crate) broken: Option<String>,
    pub(crate) took: Duration,
    pub(crate) log: PathBuf,
}

impl Ended {
    pub(crate) const fn is_ok(&self) -> bool {
        self.failed.is_empty() && self.broken.is_none()
    }

    /// The result in one line.
    pub(crate) fn line(&self) -> String {
        let how = if self.is_ok() { "ok" } else { "failed" };
        let mut line = format!(
            "{how:<6} {:<24} {:>4} s  {} passed",
            self.suite.name,
            self.took.as_secs(),
            self.passed
        );
        for (count, what) in [(self.failed.len(), "failed"), (self.ignored, "ignored")] {
            if count > 0 {
                line.push_str(&format!(", {count} {what}"));
            }
        }
        if let Some(why) = &self.broken {
            line.push_str(&format!("; {why}"));
        }
        line
    }

    /// The output of the failed tests, or the end of the log if the suite did not complete.
    pub(crate) fn failures(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        if self.broken.is_some() {
            let lines: Vec<&str> = log.lines().collect();
            return lines[lines.len().saturating_sub(60)..].join("\n");
        }
        self.failed.iter().map(|test| output::section(&log, test)).collect()
    }
}

/// The progress of the run.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The names of each suite's tests.
    tests: BTreeMap<String, Vec<String>>,
    done: Mutex<usize>,
    /// The running suites, each with its slow tests.
    running: Mutex<Vec<(String, Vec<String>)>>,
    begun: Instant,
}

impl Progress {
    pub(crate) fn new(suites: &[Suite]) -> anyhow::Result<Self> {
        let mut tests = BTreeMap::new();
        for suite in suites {
            let listed =
                Command::new(&suite.program).args(["--list", "--format", "terse"]).output()?;
            ensure!(listed.status.success(), "{} --list failed; rebuild the tests", suite.name);
            let listed = String::from_utf8(listed.stdout)?;
            let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
            tests.insert(suite.name.clone(), names.map(str::to_owned).collect());
        }
        let (done, running) = (Mutex::default(), Mutex::default());
        Ok(Self { tests, done, running, begun: Instant::now() })
    }

    pub(crate) fn total(&self) -> usize {
        self.tests.values().map(Vec::len).sum()
    }

    fn tests_of(&self, suite: &Suite) -> &[String] {
        self.tests.get(&suite.name).map_or(&[], Vec::as_slice)
    }

    fn record_line(&self, suite: &Suite, line: &str) {
        let ended = output::outcome(line).map(|(test, _)| test);
        if ended.is_some() {
            *lock(&self.done) += 1;
        }
        let mut running = lock(&self.running);
        let Some((_, slow)) = running.iter_mut().find(|(name, _)| *name == suite.name) else {
            return;
        };
        slow.extend(output::slow(line).map(str::to_owned));
        slow.retain(|test| Some(test.as_str()) != ended);
    }

    fn suite_started(&self, suite: &Suite) {
        let mut running = lock(&self.running);
        running.push((suite.name.clone(), Vec::new()));
    }

    fn suite_ended(&self, suite: &Suite) {
        lock(&self.running).retain(|(name, _)| *name != suite.name);
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.begun.elapsed().as_secs();
        let done = *lock(&self.done);
        write!(f, "{}m{:02}s: {done} of {} tests", seconds / 60, seconds % 60, self.total())?;
        for (suite, slow) in lock(&self.running).iter() {
            write!(f, ", {suite}")?;
            if let Some(test) = slow.last() {
                write!(f, " (in {test})")?;
            }
        }
        Ok(())
    }
}

/// Runs a suite to its end, or until it hangs.
pub(crate) fn run(suite: &Suite, paths: &OutputPaths<'_>, progress: &Progress) -> Ended {
    let begun = Instant::now();
    let log = paths.logs.join(format!("{}.log", suite.name.replace('/', "-")));
    progress.suite_started(suite);
    let args = ["--test-threads".to_owned(), suite.threads.to_string()];
    let lines = start(suite, &args, paths).and_then(|started| {
        let on_line = |line: &str| progress.record_line(suite, line);
        started.follow(&log, SILENCE, on_line)
    });
    progress.suite_ended(suite);
    let mut ended = Ended {
        suite: suite.clone(),
        passed: 0,
        ignored: 0,
        failed: Vec::new(),
        broken: None,
        took: begun.elapsed(),
        log,
    };
    match lines {
        Ok(lines) => ended.count(&lines, progress.tests_of(suite)),
        Err(error) => ended.broken = Some(format!("the suite could not be run: {error}")),
    }
    ended
}

impl Ended {
    fn count(&mut self, lines: &[String], tests: &[String]) {
        let mut unended: BTreeSet<&str> = tests.iter().map(String::as_str).collect();
        for (test, outcome) in lines.iter().filter_map(|line| output::outcome(line)) {
            unended.remove(test);
            match outcome {
                Outcome::Passed => self.passed += 1,
                Outcome::Ignored => self.ignored += 1,
                Outcome::Failed => self.failed.push(test.to_owned()),
            }
        }
        if lines.iter().any(|line| output::is_end(line)) {
            return;
        }
        if (1..=MAX_FLAKY).contains(&unended.len()) {
            self.failed.extend(unended.into_iter().map(str::to_owned));
        } else {
            self.broken = Some(format!("did not complete: {} tests did not end", unended.len()));
        }
    }
}

/// Whether a test passes when it runs alone.
pub(crate) fn passes_alone(suite: &Suite, test: &str, paths: &OutputPaths<'_>) -> io::Result<bool> {
    let args = ["--exact", test].map(str::to_owned);
    let log = paths.logs.join("alone.log");
    let lines = start(suite, &args, paths)?.follow(&log, SILENCE, |_| ())?;
    let passed = Some((test, Outcome::Passed));
    Ok(lines.iter().any(|line| output::outcome(line) == passed))
}

/// A process and its output.
struct Started {
    child: Child,
    output: PipeReader,
}

fn start(suite: &Suite, args: &[String], paths: &OutputPaths<'_>) -> io::Result<Started> {
    let mut command = Command::new(&suite.program);
    command.args(args).current_dir(&suite.folder);
    // The assertion message is enough; a backtrace through the runtime would bury it.
    command.env("RUST_BACKTRACE", "0").env(REPORT, paths.left_out);
    // CI has every dependency, so no check may be left out there.
    if std::env::var_os("CI").is_some() {
        command.env(REQUIRE_ALL, "1");
    }
    Started::new(command)
}

impl Started {
    fn new(mut command: Command) -> io::Result<Self> {
        let (output, input) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
        Ok(Self { child: command.spawn()?, output })
    }

    /// Reads all lines and writes them to the log; kills the process when it hangs.
    fn follow(
        mut self,
        log: &Path,
        silence: Duration,
        mut on_line: impl FnMut(&str),
    ) -> io::Result<Vec<String>> {
        let (sender, lines) = mpsc::channel();
        let reader = BufReader::new(self.output);
        thread::spawn(move || {
            for line in reader.split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
        let mut all = Vec::new();
        loop {
            match lines.recv_timeout(silence) {
                Ok(line) => {
                    on_line(&line);
                    let end = output::is_end(&line);
                    all.push(line);
                    // Servers that tests share keep running and hold the pipe open.
                    if end {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    all.extend(stacks(self.child.id()).lines().map(str::to_owned));
                    self.child.kill()?;
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.child.wait()?;
        fs::write(log, all.join("\n") + "\n")?;
        Ok(all)
    }
}

/// The stacks of all threads of a process that hangs, if gdb is installed.
fn stacks(pid: u32) -> String {
    let mut gdb = Command::new("timeout");
    gdb.args(["60", "gdb", "-batch", "-ex", "thread apply all backtrace 40", "-p"]);
    let read = gdb.arg(pid.to_string()).stdin(Stdio::null()).stderr(Stdio::null()).output();
    read.map_or_else(
        |error| format!("no stacks of the suite that hangs: {error}"),
        |read| String::from_utf8_lossy(&read.stdout).into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a shell script and its log, with this limit on silence.
    fn follow(script: &str, silence: Duration) -> (Vec<String>, String) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let name = format!("trueup-follow-{}-{}", std::process::id(), script.len());
        let log = std::env::temp_dir().join(name);
        let lines = Started::new(command).and_then(|started| started.follow(&log, silence, |_| ()));
        let kept = fs::read_to_string(&log).expect("the log should be written");
        fs::remove_file(&log).expect("the log should be removed");
        (lines.expect("a shell should run"), kept)
    }

    #[test]
    fn hanging_program_is_killed_and_its_output_kept() {
        let (lines, kept) = follow("echo test a ... ok; exec sleep 600", Duration::from_secs(2));
        assert_eq!(lines[0], "test a ... ok");
        assert!(kept.starts_with("test a ... ok\n"), "{kept}");
    }

    #[test]
    fn suite_ends_although_a_background_process_keeps_the_pipe_open() {
        let (lines, _) = follow("sleep 5 & echo 'test result: ok.'", Duration::from_secs(600));
        assert_eq!(lines, ["test result: ok."]);
    }

    /// The result of a suite of these tests that printed this one line and was killed.
    fn killed(line: &str, tests: &[&str]) -> Ended {
        let suite =
            Suite { name: "a/it".into(), folder: ".".into(), program: "a".into(), threads: 1 };
        let (log, took, failed) = (PathBuf::new(), Duration::ZERO, Vec::new());
        let mut ended = Ended { suite, passed: 0, ignored: 0, failed, broken: None, took, log };
        let tests: Vec<String> = tests.iter().map(ToString::to_string).collect();
        ended.count(&[line.to_owned()], &tests);
        ended
    }

    #[test]
    fn test_that_hangs_counts_as_failed() {
        let ended = killed("test a ... ok", &["a", "b"]);
        assert_eq!((ended.passed, ended.failed.as_slice()), (1, ["b".to_owned()].as_slice()));
        assert!(!ended.is_ok() && ended.broken.is_none());
    }

    #[test]
    fn suite_with_many_tests_that_did_not_end_is_broken() {
        let ended = killed("test a ... ok", &["a", "b", "c", "d", "e"]);
        assert_eq!(ended.broken.as_deref(), Some("did not complete: 4 tests did not end"));
    }

    #[test]
    fn suite_that_is_killed_after_its_last_test_is_broken() {
        assert!(killed("test a ... ok", &["a"]).broken.is_some());
    }
}
