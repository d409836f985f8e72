//! Which suites there are: Cargo says, and the source tree says which must be among them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

/// Suites that take longest, longest first, and how many of their tests run at once. They mostly wait
/// for real processes, so more of them fit than there are cores. All others come after them.
const LONG: [(&str, usize); 5] =
    [("trueup/it", 6), ("cluster/it", 3), ("control/it", 4), ("http/it", 2), ("store/it", 2)];
/// How many tests of any other suite run at once.
const THREADS: usize = 2;

/// A program of tests.
#[derive(Debug, Clone)]
pub(crate) struct Suite {
    /// The crate and the target, such as `store/it`.
    pub(crate) name: String,
    /// The folder that its tests expect to run in.
    pub(crate) folder: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) threads: usize,
}

/// What Cargo says about something that it built.
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

/// All suites whose names contain one of the words, or all there are, in the order to run them in.
pub(crate) fn all(words: &[String]) -> anyhow::Result<Vec<Suite>> {
    let built = Command::new("cargo")
        .args(["test", "--locked", "--workspace", "--no-run", "--quiet"])
        .args(["--message-format", "json"])
        .stderr(Stdio::inherit())
        .output()
        .context("asking cargo for the suites")?;
    ensure!(built.status.success(), "the tests do not build");
    let mut suites = parse(&String::from_utf8(built.stdout)?);
    ensure_complete(&suites, Path::new("crates"))?;
    let place = |suite: &Suite| LONG.iter().position(|(name, _)| *name == suite.name);
    suites.sort_by_key(|suite| (place(suite).unwrap_or(LONG.len()), suite.name.clone()));
    if !words.is_empty() {
        suites.retain(|suite| words.iter().any(|word| suite.name.contains(word.as_str())));
        if suites.is_empty() {
            bail!("no suite has a name with one of: {}", words.join(" "));
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

/// Every crate that has integration tests must be there: a suite that Cargo was told to leave out would
/// make the run green.
fn ensure_complete(suites: &[Suite], crates: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(crates).context("reading the folder of crates")? {
        let folder = entry?.path();
        let name = format!("{}/it", folder.file_name().unwrap_or_default().display());
        let wanted = folder.join("tests/it/main.rs").exists();
        ensure!(
            !wanted || suites.iter().any(|suite| suite.name == name),
            "the suite {name} is missing: is its target left out of the build?"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_programs_are_suites() {
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
    fn a_missing_suite_is_an_error() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let error = ensure_complete(&[], &crates).expect_err("nothing was built");
        assert!(error.to_string().contains("is missing"), "{error}");
    }
}
