//! Small files, live links, and no word that must not be in the repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use trueup_model::crash::POINTS;

use crate::edges::root;

const LONGEST: usize = 700;

/// Every file that git knows or would take.
fn files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git should list the files");
    let text = String::from_utf8(listed.stdout).expect("names should be text");
    let files: Vec<PathBuf> =
        text.lines().map(|line| root().join(line)).filter(|path| path.is_file()).collect();
    assert!(files.len() > 50, "the repository should have files");
    files
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension()
        .and_then(|ending| ending.to_str())
        .is_some_and(|ending| endings.contains(&ending))
}

#[test]
fn no_file_is_too_long_to_live_in() {
    for path in files().iter().filter(|path| has_ending(path, &["rs", "go", "sql"])) {
        let lines = fs::read_to_string(path).unwrap().lines().count();
        assert!(lines <= LONGEST, "{} has {lines} lines; split it", path.display());
    }
}

#[test]
fn no_registry_and_no_machine_is_named() {
    // Put together here so that this file does not name them itself.
    let words = [
        ["proxy.golang", ".org"],
        ["registry.npmjs", ".org"],
        ["repo1", ".maven.org"],
        ["pypi", ".org"],
        ["deb.debian", ".org"],
        ["crates.io", "/api"],
        ["/work", "/main"],
        ["/root", "/"],
    ]
    .map(|parts| parts.concat());
    for path in files() {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if has_ending(&path, &["lock"]) || name == "go.sum" {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for word in &words {
            assert!(!text.contains(word.as_str()), "{} names {word}", path.display());
        }
    }
}

#[test]
fn every_crash_point_is_in_the_code_and_every_one_in_the_code_is_declared() {
    let mut used = BTreeSet::new();
    for path in files().iter().filter(|path| has_ending(path, &["rs"])) {
        let text = fs::read_to_string(path).unwrap();
        // Put together here so that this file does not use a point itself.
        let call = ["crash::", "point(\""].concat();
        let names = text.split(call.as_str()).skip(1).filter_map(|rest| rest.split('"').next());
        used.extend(names.map(str::to_owned));
    }
    let declared: BTreeSet<String> = POINTS.into_iter().map(str::to_owned).collect();
    assert_eq!(used, declared, "on the left what the code has, on the right what is declared");
}

#[test]
fn every_link_between_our_pages_leads_somewhere() {
    let mut links = 0;
    for path in files().iter().filter(|path| has_ending(path, &["md"])) {
        let text = fs::read_to_string(path).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            links += 1;
            let to = path.parent().unwrap_or(path).join(target);
            assert!(to.exists(), "{} links to {target}, which is not there", path.display());
        }
    }
    assert!(links > 5, "our pages should link to each other");
}

/// `test = false` saves compiling a crate twice, and would hide the unit tests that it gets one day.
#[test]
fn crates_that_build_no_unit_tests_have_none() {
    let files = files();
    let manifests = files.iter().filter(|path| path.ends_with("Cargo.toml"));
    let without =
        manifests.filter(|path| fs::read_to_string(path).unwrap().contains("test = false"));
    let sources: Vec<PathBuf> = without.map(|path| path.with_file_name("src")).collect();
    assert!(!sources.is_empty(), "the check itself should see something");
    for path in files.iter().filter(|path| sources.iter().any(|folder| path.starts_with(folder))) {
        let text = fs::read_to_string(path).unwrap();
        assert!(!text.contains("#[cfg(test)]"), "{} has tests that are not run", path.display());
    }
}
