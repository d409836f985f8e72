//! The result of a run: printed for people and stored as JSON.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Serialize;

use crate::process::Ended;
use crate::retry::Retried;

/// The sources that were tested.
#[derive(Debug)]
pub(crate) struct Commit {
    hash: String,
    clean: bool,
}

impl Commit {
    /// The commit that is checked out, and whether the working tree is clean.
    pub(crate) fn here() -> anyhow::Result<Self> {
        let hash = git(&["rev-parse", "HEAD"])?.trim().to_owned();
        let clean = git(&["status", "--porcelain"])?.is_empty();
        Ok(Self { hash, clean })
    }
}

fn git(args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").args(args).output().context("running git")?;
    ensure!(
        output.status.success(),
        "git {args:?} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// The result of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// One line for people; `make help` prints it.
    summary: String,
    commit: String,
    /// Whether the working tree was clean.
    clean: bool,
    passed: usize,
    /// Tests that failed, also when retried.
    failed: Vec<String>,
    /// Suites that did not complete.
    broken: Vec<String>,
    /// Tests that failed in their suite and passed alone.
    flaky: Vec<String>,
    /// Checks that cannot run on this machine, and why.
    left_out: Vec<String>,
    /// Tests with a separate make target, such as `make soak`.
    ignored: usize,
    seconds: u64,
    seconds_by_suite: BTreeMap<String, u64>,
    /// The output files of failed and flaky tests.
    #[serde(skip)]
    kept: Vec<String>,
}

impl Report {
    pub(crate) fn new(
        commit: Commit,
        ended: &[Ended],
        retried: &[Retried],
        left_out: &Path,
        took: Duration,
    ) -> anyhow::Result<Self> {
        let named = |flaky: bool| {
            let those = retried.iter().filter(move |one| one.is_flaky == flaky);
            those.map(|one| one.test.clone()).collect::<Vec<_>>()
        };
        let broken = ended
            .iter()
            .filter_map(|one| one.broken.as_ref().map(|why| format!("{}: {why}", one.suite.name)));
        let seconds = ended.iter().map(|one| (one.suite.name.clone(), one.took.as_secs()));
        let mut report = Self {
            summary: String::new(),
            commit: commit.hash,
            clean: commit.clean,
            passed: ended.iter().map(|one| one.passed).sum::<usize>() + named(true).len(),
            failed: named(false),
            broken: broken.collect(),
            flaky: named(true),
            left_out: read_lines(left_out)?,
            ignored: ended.iter().map(|one| one.ignored).sum(),
            seconds: took.as_secs(),
            seconds_by_suite: seconds.collect(),
            kept: retried
                .iter()
                .map(|one| format!("{}: {}", one.test, one.kept.display()))
                .collect(),
        };
        report.summary = report.in_one_line();
        Ok(report)
    }

    /// Whether every test passed, with at most this many flaky ones.
    pub(crate) const fn is_green(&self, most_flaky: usize) -> bool {
        self.failed.is_empty()
            && self.broken.is_empty()
            && self.flaky.len() <= most_flaky
            && self.passed > 0
    }

    fn in_one_line(&self) -> String {
        let changed = if self.clean { "" } else { " with uncommitted changes" };
        let mut line = format!(
            "{} passed, {} failed, {} left out, {} flaky in {}m{:02}s at {}{changed}",
            self.passed,
            self.failed.len() + self.broken.len(),
            self.left_out.len(),
            self.flaky.len(),
            self.seconds / 60,
            self.seconds % 60,
            self.commit.get(..9).unwrap_or(&self.commit),
        );
        if let Some(first) = self.failed.iter().chain(&self.broken).chain(&self.flaky).next() {
            line.push_str(&format!(" ({first})"));
        }
        // `make help` extracts this from the JSON with sed, so it must not contain quotes.
        line.replace(['"', '\\', '\n'], " ")
    }

    /// Writes it as JSON.
    pub(crate) fn keep(&self, path: &Path) -> anyhow::Result<()> {
        fs::write(path, serde_json::to_string_pretty(self)? + "\n")
            .context("writing the test result")
    }

    /// Prints the end of the output of `make test`. CI reads the last line.
    pub(crate) fn print(&self) {
        for (what, which) in [
            ("left out", &self.left_out),
            ("flaky (failed, then passed alone)", &self.flaky),
            ("failed", &self.failed),
            ("did not complete", &self.broken),
            ("output of", &self.kept),
        ] {
            for one in which {
                println!("{what}: {one}");
            }
        }
        println!("{}", self.summary);
        println!("{} passed, {} failed", self.passed, self.failed.len() + self.broken.len());
    }
}

fn read_lines(path: &Path) -> anyhow::Result<Vec<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).context("reading the report of left-out checks"),
    }
}
