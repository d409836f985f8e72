//! `make test`, after everything is built: runs every suite, two at a time, and says what came of it.
//!
//! A test that fails is run again, alone, once all suites have ended. If it passes then, it is flaky: the run
//! goes on, ends by naming it, and keeps what it printed when it failed. A flaky test is a bug to find, so
//! more than [`MOST_FLAKY`] of them fail the run. The result is kept in `~/.cache/trueup/last-test.json`.
//!
//! `run-tests NAME…` runs only suites whose name contains one of these words, for example `control/it`.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a runner measures real time and tells people what it saw"
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

use crate::process::{Ended, Place, Progress, lock};
use crate::report::Report;
use crate::suite::Suite;

/// How many suites run at once. Three took as long on two cores.
const AT_ONCE: usize = 2;
/// How many tests may fail once and pass alone before the run counts as failed.
const MOST_FLAKY: usize = 3;
/// How often a line says how far the run is.
const SAY_SO: Duration = Duration::from_secs(30);

fn main() -> anyhow::Result<ExitCode> {
    let filters: Vec<String> = std::env::args().skip(1).collect();
    let suites = suite::all(&filters)?;
    let commit = report::Commit::here()?;
    let kept = result_dir()?;
    let logs = kept.join("test-logs");
    // What the last run kept is about another run.
    if logs.exists() {
        fs::remove_dir_all(&logs).context("removing the logs of the last run")?;
    }
    fs::create_dir_all(&logs)?;
    let left_out = logs.join("left-out");

    // Parts of a run that was killed would be adopted with everything in them.
    stop_parts()?;
    let begun = Instant::now();
    let place = Place { logs: &logs, left_out: &left_out };
    let ended = run_all(&suites, &place)?;
    let alone = |suite: &Suite, test: &str| process::passes_alone(suite, test, &place);
    let retried = retry::failed_tests(&ended, &place, alone)?;
    stop_parts()?;

    let report = Report::new(commit, &ended, &retried, &left_out, begun.elapsed())?;
    if filters.is_empty() {
        report.keep(&kept.join("last-test.json"))?;
    }
    report.print();
    Ok(if report.is_green(MOST_FLAKY) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs all suites, the long ones first, and prints a line for each that ends.
fn run_all(suites: &[Suite], place: &Place<'_>) -> anyhow::Result<Vec<Ended>> {
    let progress = Progress::new(suites)?;
    println!("{} tests in {} suites", progress.total(), suites.len());
    let waiting = Mutex::new(suites.iter());
    let ended = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let work = || {
            scope.spawn(|| {
                let next = || lock(&waiting).next();
                while let Some(suite) = next() {
                    let one = process::run(suite, place, &progress);
                    println!("{}", one.line());
                    if !one.is_ok() {
                        println!("{}", one.failures());
                    }
                    lock(&ended).push(one);
                }
            })
        };
        let workers: Vec<_> = (0..AT_ONCE).map(|_| work()).collect();
        let mut said = Instant::now();
        // A worker that panics has finished, too; leaving the scope then fails the run.
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(200));
            if said.elapsed() >= SAY_SO {
                println!("  … {progress}");
                said = Instant::now();
            }
        }
    });
    Ok(ended.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Where results are kept, the same for every clone on this machine.
fn result_dir() -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("HOME").context("HOME should say where results are kept")?;
    Ok(PathBuf::from(home).join(".cache/trueup"))
}

/// Stops the Postgres and the Kubernetes that test processes share and leave running for each other.
fn stop_parts() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        kube::stop_left(&cache_dir(), &cache_dir().join("test-kube")).await?;
        postgres::stop_left(&cache_dir().join("test-postgres")).await?;
        Ok(())
    })
}
