//! The test runner of `make test`: runs every suite, two at a time, and reports the results.
//!
//! A failed test is retried alone once all suites have ended. If it passes then, it is flaky: the
//! report names it, and its first output is kept. A flaky test is a bug, so more than
//! [`MAX_FLAKY`] of them fail the run. The result is stored in `~/.cache/trueup/last-test.json`.
//!
//! `run-tests NAME…` runs only suites whose name contains one of these words, such as
//! `control/it`.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test runner measures real time and prints its results"
)]

mod output;
mod process;
mod report;
mod retry;
mod suite;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::Context as _;
use trueup_local::layout::cache_dir;
use trueup_local::{kube, postgres};

use crate::process::{Ended, OutputPaths, Progress, lock};
use crate::report::Report;
use crate::suite::Suite;

/// How many suites run at once. Three were no faster on two cores.
const AT_ONCE: usize = 2;
/// How many tests may be flaky before the run fails.
const MAX_FLAKY: usize = 3;
/// How often to print the progress of the run.
const PROGRESS_EVERY: Duration = Duration::from_secs(30);

fn main() -> anyhow::Result<ExitCode> {
    let filters: Vec<String> = std::env::args().skip(1).collect();
    let suites = suite::all(&filters)?;
    let commit = report::Commit::here()?;
    let kept = result_dir()?;
    let logs = kept.join("test-logs");
    if logs.exists() {
        fs::remove_dir_all(&logs).context("removing the logs of the last run")?;
    }
    fs::create_dir_all(&logs)?;
    let left_out = logs.join("left-out");

    // Otherwise this run would adopt the servers of a killed run, with their data.
    stop_shared_servers()?;
    let started = Instant::now();
    let paths = OutputPaths { logs: &logs, left_out: &left_out };
    let ended = run_all(&suites, &paths)?;
    let alone = |suite: &Suite, test: &str| process::passes_alone(suite, test, &paths);
    let retried = retry::failed_tests(&ended, &paths, alone)?;
    stop_shared_servers()?;

    let report = Report::new(commit, &ended, &retried, &left_out, started.elapsed())?;
    if filters.is_empty() {
        report.keep(&kept.join("last-test.json"))?;
    }
    report.print();
    Ok(if report.is_green(MAX_FLAKY) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs all suites in this order and prints a line for each when it ends.
fn run_all(suites: &[Suite], paths: &OutputPaths<'_>) -> anyhow::Result<Vec<Ended>> {
    let progress = Progress::new(suites)?;
    println!("{} tests in {} suites", progress.total(), suites.len());
    let waiting = Mutex::new(suites.iter());
    let ended = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let work = || {
            scope.spawn(|| {
                let next = || lock(&waiting).next();
                while let Some(suite) = next() {
                    let one = process::run(suite, paths, &progress);
                    println!("{}", one.line());
                    if !one.is_ok() {
                        println!("{}", one.failures());
                    }
                    lock(&ended).push(one);
                }
            })
        };
        let workers: Vec<_> = (0..AT_ONCE).map(|_| work()).collect();
        let mut printed = Instant::now();
        // A worker that panicked has finished, too; leaving the scope then fails the run.
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(200));
            if printed.elapsed() >= PROGRESS_EVERY {
                println!("  … {progress}");
                printed = Instant::now();
            }
        }
    });
    Ok(ended.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The folder of the results, shared by all clones on this machine.
fn result_dir() -> anyhow::Result<PathBuf> {
    let home =
        std::env::var_os("HOME").context("HOME is not set; test results are stored below it")?;
    Ok(PathBuf::from(home).join(".cache/trueup"))
}

/// Stops the Postgres and Kubernetes that test processes share and leave running.
fn stop_shared_servers() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        kube::stop_left(&cache_dir(), &cache_dir().join("test-kube")).await?;
        postgres::stop_left(&cache_dir().join("test-postgres")).await?;
        Ok(())
    })
}
