//! Finds the suites that Cargo built, and checks that none of the source tree is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

/// The slowest suites, slowest first, and how many of their tests run at once.
///
/// Their tests mostly wait for real processes, so more of them run than there are cores. All other
/// suites run after them.
const LONG: [(&str, usize); 5] =
    [("trueup/it", 6), ("cluster/it", 3), ("control/it", 4), ("http/it", 2), ("store/it", 2)];
/// How many tests of any other suite run at once.
const THREADS: usize = 2;

/// A test program.
#[derive(Debug, Clone)]
pub(crate) struct Suite {
    /// The crate and the target, such as `store/it`.
    pub(crate) name: String,
    /// The working directory of its tests.
    pub(crate) folder: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) threads: usize,
}

/// A build artifact, as Cargo reports it.
#[derive(Debug, Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// The suites whose names contain one of the words, or all suites, in the order to run them.
pub(crate) fn all(words: &[String]) -> anyhow::Result<Vec<Suite>> {
    let built = Command::new("cargo")
        .args(["test", "--locked", "--workspace", "--no-run", "--quiet"])
        .args(["--message-format", "json"])
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo to list the suites")?;
    ensure!(built.status.success(), "the tests do not compile; see the errors above");
    let mut suites = parse(&String::from_utf8(built.stdout)?);
    ensure_complete(&suites, Path::new("crates"))?;
    let place = |suite: &Suite| LONG.iter().position(|(name, _)| *name == suite.name);
    suites.sort_by_key(|suite| (place(suite).unwrap_or(LONG.len()), suite.name.clone()));
    if !words.is_empty() {
        suites.retain(|suite| words.iter().any(|word| suite.name.contains(word.as_str())));
        if suites.is_empty() {
            bail!("no suite matches: {}", words.join(" "));
        }
    }
    Ok(suites)
}

/// The suites among Cargo's messages, one JSON value a line.
fn parse(messages: &str) -> Vec<Suite> {
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    artifacts
        .filter(|artifact| artifact.profile.test)
        .filter_map(|artifact| {
            let folder = artifact.manifest_path.parent()?.to_owned();
            let name = format!("{}/{}", folder.file_name()?.to_str()?, artifact.target.name);
            let threads = LONG.iter().find(|(long, _)| *long == name).map_or(THREADS, |one| one.1);
            Some(Suite { name, folder, program: artifact.executable?, threads })
        })
        .collect()
}

/// Checks that every crate with integration tests has a suite.
///
/// Otherwise a suite that is missing from the build would leave the run green.
fn ensure_complete(suites: &[Suite], crates: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(crates).context("reading the folder of crates")? {
        let folder = entry?.path();
        let name = format!("{}/it", folder.file_name().unwrap_or_default().display());
        let wanted = folder.join("tests/it/main.rs").exists();
        ensure!(
            !wanted || suites.iter().any(|suite| suite.name == name),
            "the suite {name} is missing; check that Cargo builds its test target"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_artifacts_are_suites() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/x/crates/trueup/Cargo.toml","#,
            r#""target":{"name":"it"},"profile":{"test":true},"executable":"/t/it-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/x/crates/trueup/Cargo.toml","#,
            r#""target":{"name":"trueup"},"profile":{"test":false},"executable":"/t/trueup"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#
        );
        let suites = parse(messages);
        assert_eq!(suites.len(), 1);
        assert_eq!((suites[0].name.as_str(), suites[0].threads), ("trueup/it", 6));
    }

    #[test]
    fn missing_suite_is_an_error() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let error = ensure_complete(&[], &crates).expect_err("nothing was built");
        assert!(error.to_string().contains("is missing"), "{error}");
    }
}
