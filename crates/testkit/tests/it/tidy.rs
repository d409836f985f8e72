//! File sizes, links, crash points, and words that must not be in the repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use trueup_model::crash::POINTS;

use crate::edges::root;

/// The most lines in a source file.
const MAX_LINES: usize = 700;

/// Every file that git tracks or would add.
fn files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git should list the files");
    let text = String::from_utf8(listed.stdout).expect("file names should be UTF-8");
    let files: Vec<PathBuf> =
        text.lines().map(|line| root().join(line)).filter(|path| path.is_file()).collect();
    assert!(files.len() > 50, "git listed too few files");
    files
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension()
        .and_then(|ending| ending.to_str())
        .is_some_and(|ending| endings.contains(&ending))
}

/// Plans and reports must print in one order.
#[test]
fn pure_crates_use_ordered_collections() {
    let pure = |path: &&PathBuf| {
        let path = path.to_string_lossy();
        ["crates/model/src", "crates/rules/src"].iter().any(|part| path.contains(part))
    };
    for path in files().iter().filter(pure) {
        let text = fs::read_to_string(path).unwrap();
        for word in ["HashMap", "HashSet"] {
            assert!(!text.contains(word), "{} uses {word}; use a BTree", path.display());
        }
    }
}

#[test]
fn source_files_are_not_too_long() {
    for path in files().iter().filter(|path| has_ending(path, &["rs", "go", "sql"])) {
        let lines = fs::read_to_string(path).unwrap().lines().count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines; split it", path.display());
    }
}

#[test]
fn no_file_names_a_registry_or_a_local_path() {
    // Concatenated so that this file does not match itself.
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
            assert!(!text.contains(word.as_str()), "{} contains {word}", path.display());
        }
    }
}

#[test]
fn crash_points_in_code_match_the_declared_ones() {
    let mut used = BTreeSet::new();
    for path in files().iter().filter(|path| has_ending(path, &["rs"])) {
        let text = fs::read_to_string(path).unwrap();
        // Concatenated so that this file does not match itself.
        let call = ["crash::", "point(\""].concat();
        let names = text.split(call.as_str()).skip(1).filter_map(|rest| rest.split('"').next());
        used.extend(names.map(str::to_owned));
    }
    let declared: BTreeSet<String> = POINTS.into_iter().map(str::to_owned).collect();
    assert_eq!(used, declared, "left: in the code; right: in crash::POINTS");
}

#[test]
fn links_between_pages_lead_to_existing_files() {
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
            assert!(to.exists(), "{} links to {target}, which does not exist", path.display());
        }
    }
    assert!(links > 5, "too few links were found");
}

/// `test = false` avoids compiling a crate twice, but would hide unit tests added later.
#[test]
fn crates_with_test_false_have_no_unit_tests() {
    let files = files();
    let manifests = files.iter().filter(|path| path.ends_with("Cargo.toml"));
    let without =
        manifests.filter(|path| fs::read_to_string(path).unwrap().contains("test = false"));
    let sources: Vec<PathBuf> = without.map(|path| path.with_file_name("src")).collect();
    assert!(!sources.is_empty(), "no crate with `test = false` was found");
    for path in files.iter().filter(|path| sources.iter().any(|folder| path.starts_with(folder))) {
        let text = fs::read_to_string(path).unwrap();
        assert!(!text.contains("#[cfg(test)]"), "{} has tests that are not run", path.display());
    }
}
