//! Retries failed tests.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::process::{Ended, OutputPaths};
use crate::suite::Suite;
use crate::{MAX_FLAKY, output};

/// The most retries of a failed test.
const MAX_RETRIES: usize = 2;

/// A test that failed in its suite.
#[derive(Debug)]
pub(crate) struct Retried {
    /// The suite and the test, such as `store/it prices::are_versions`.
    pub(crate) test: String,
    /// Whether it passed alone.
    pub(crate) is_flaky: bool,
    /// The file with its output when it failed.
    pub(crate) kept: PathBuf,
}

/// Retries failed tests one by one, after all suites have ended.
///
/// With more than [`MAX_FLAKY`] failures the run fails in any case, so none is retried.
pub(crate) fn failed_tests(
    ended: &[Ended],
    paths: &OutputPaths<'_>,
    mut passes_alone: impl FnMut(&Suite, &str) -> io::Result<bool>,
) -> io::Result<Vec<Retried>> {
    let failed: Vec<(&Ended, &String)> =
        ended.iter().flat_map(|one| one.failed.iter().map(move |test| (one, test))).collect();
    let again = failed.len() <= MAX_FLAKY;
    let mut retried = Vec::new();
    for (one, test) in failed {
        let kept = paths.logs.join(format!("{}.failure", test.replace("::", ".")));
        let log = fs::read_to_string(&one.log)?;
        fs::write(&kept, output::section(&log, test))?;
        let mut is_flaky = false;
        let mut tries = if again { MAX_RETRIES } else { 0 };
        while tries > 0 && !is_flaky {
            is_flaky = passes_alone(&one.suite, test)?;
            tries -= 1;
        }
        retried.push(Retried { test: format!("{} {test}", one.suite.name), is_flaky, kept });
    }
    Ok(retried)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    /// The result of a suite in which these tests failed, with its log in this folder.
    fn ended(folder: &Path, failed: &[&str]) -> Ended {
        let log = folder.join("log");
        let sections = failed.iter().map(|test| format!("---- {test} stdout ----\nwhy {test}\n"));
        fs::write(&log, sections.collect::<String>() + "\nfailures:\n").expect("a log");
        let suite = Suite {
            name: "a/it".to_owned(),
            folder: folder.into(),
            program: "a".into(),
            threads: 1,
        };
        let failed = failed.iter().map(|&test| test.to_owned()).collect();
        let took = Duration::ZERO;
        Ended { suite, passed: 1, ignored: 0, failed, broken: None, took, log }
    }

    /// Retries failed tests in a temporary folder with this name in it.
    fn again(
        name: &str,
        failed: &[&str],
        passes: impl FnMut(&Suite, &str) -> io::Result<bool>,
    ) -> Vec<(String, bool, String)> {
        let folder =
            std::env::temp_dir().join(format!("trueup-retry-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let ended = ended(&folder, failed);
        let paths = OutputPaths { logs: &folder, left_out: &folder.join("left-out") };
        let retried =
            failed_tests(&[ended], &paths, passes).expect("failed tests should be retried");
        let kept =
            |one: &Retried| fs::read_to_string(&one.kept).expect("the output should be kept");
        let seen = retried.iter().map(|one| (one.test.clone(), one.is_flaky, kept(one))).collect();
        fs::remove_dir_all(&folder).expect("the folder should be removed");
        seen
    }

    #[test]
    fn test_that_passes_on_retry_is_flaky_and_its_first_output_is_kept() {
        let mut tries = 0;
        let seen = again("flaky", &["x::y"], |_, _| {
            tries += 1;
            Ok(tries == 2)
        });
        assert_eq!(
            seen,
            [("a/it x::y".to_owned(), true, "---- x::y stdout ----\nwhy x::y\n".to_owned())]
        );
        assert_eq!(tries, 2);
    }

    #[test]
    fn test_that_never_passes_is_failed() {
        let mut tries = 0;
        let seen = again("failed", &["x"], |_, _| {
            tries += 1;
            Ok(false)
        });
        assert!(!seen[0].1);
        assert_eq!(tries, MAX_RETRIES);
    }

    #[test]
    fn more_failures_than_max_flaky_are_not_retried() {
        let seen =
            again("many", &["a", "b", "c", "d"], |_, _| unreachable!("none should be retried"));
        assert!(seen.iter().all(|(_, is_flaky, _)| !is_flaky));
    }
}
