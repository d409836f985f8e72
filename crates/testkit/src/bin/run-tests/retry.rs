//! Failed tests, run again.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::MOST_FLAKY;
use crate::output;
use crate::process::{Ended, Place};
use crate::suite::Suite;

/// How often a failed test is run again, at most.
const TRIES: usize = 2;

/// A test that failed in its suite.
#[derive(Debug)]
pub(crate) struct Retried {
    /// The suite and the test, such as `store/it prices::are_versions`.
    pub(crate) test: String,
    /// It passed alone.
    pub(crate) is_flaky: bool,
    /// What it printed when it failed.
    pub(crate) kept: PathBuf,
}

/// Runs failed tests again, one after the other, when no suite runs any more. With more of them than may be
/// flaky the run has failed either way, so none is run again.
pub(crate) fn failed_tests(
    ended: &[Ended],
    place: &Place<'_>,
    mut passes_alone: impl FnMut(&Suite, &str) -> io::Result<bool>,
) -> io::Result<Vec<Retried>> {
    let failed: Vec<(&Ended, &String)> =
        ended.iter().flat_map(|one| one.failed.iter().map(move |test| (one, test))).collect();
    let again = failed.len() <= MOST_FLAKY;
    let mut retried = Vec::new();
    for (one, test) in failed {
        let kept = place.logs.join(format!("{}.failure", test.replace("::", ".")));
        let log = fs::read_to_string(&one.log)?;
        fs::write(&kept, output::section(&log, test))?;
        let mut is_flaky = false;
        let mut tries = if again { TRIES } else { 0 };
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

    /// A suite of which these tests failed, with a log in a folder of its own.
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

    /// Runs failed tests again in a folder that is named after the test of this name.
    fn again(
        name: &str,
        failed: &[&str],
        passes: impl FnMut(&Suite, &str) -> io::Result<bool>,
    ) -> Vec<(String, bool, String)> {
        let folder =
            std::env::temp_dir().join(format!("trueup-retry-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let ended = ended(&folder, failed);
        let place = Place { logs: &folder, left_out: &folder.join("left-out") };
        let retried = failed_tests(&[ended], &place, passes).expect("should be tried");
        let kept = |one: &Retried| fs::read_to_string(&one.kept).expect("its output is kept");
        let seen = retried.iter().map(|one| (one.test.clone(), one.is_flaky, kept(one))).collect();
        fs::remove_dir_all(&folder).expect("the folder is ours");
        seen
    }

    #[test]
    fn a_test_that_passes_at_the_second_try_is_flaky_and_its_first_output_is_kept() {
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
    fn a_test_that_never_passes_has_failed() {
        let mut tries = 0;
        let seen = again("failed", &["x"], |_, _| {
            tries += 1;
            Ok(false)
        });
        assert!(!seen[0].1);
        assert_eq!(tries, TRIES);
    }

    #[test]
    fn more_failures_than_may_be_flaky_are_not_tried_again() {
        let seen = again("many", &["a", "b", "c", "d"], |_, _| unreachable!("none is run again"));
        assert!(seen.iter().all(|(_, is_flaky, _)| !is_flaky));
    }
}
