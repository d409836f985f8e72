//! `docs/ownership.md` lists what owns each operation, and matches the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use trueup_http::document;
use trueup_model::ownership::{LOOPS, Mechanism, owner};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    let mut page = "# Ownership\n\n\
        Generated from `crates/model/src/ownership.rs` and the OpenAPI document; do not edit. After a change:\n\
        `TRUEUP_UPDATE=1 cargo test -p trueup-http --test it ownership`.\n\n\
        Every operation is owned by one mechanism. Its reconciliation owner keeps the accepted state true.\n\n\
        ## Operations\n\n\
        | operation | | mechanism | reconciliation owner |\n|---|---|---|---|\n"
        .to_owned();
    let document = document();
    let mut rows = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let (mechanism, owner) = if method == "get" {
                (Mechanism::Read, "–")
            } else {
                let owned = owner(id).unwrap_or_else(|| {
                    panic!(
                        "`{id}` has no owner: add a line for it in crates/model/src/ownership.rs"
                    )
                });
                (owned.mechanism, owned.owner)
            };
            let what = format!("{} {path}", method.to_uppercase());
            rows.push((mechanism, id.to_owned(), what, owner));
        }
    }
    // Writes come first.
    rows.sort_by_key(|(mechanism, id, ..)| (*mechanism == Mechanism::Read, id.clone()));
    for (mechanism, id, what, owner) in rows {
        page.push_str(&format!("| `{id}` | `{what}` | {} | {owner} |\n", mechanism.as_str()));
    }
    page.push_str(
        "\n## Loops\n\n| loop | mechanism | writes only | runs on | when it fails |\n|---|---|---|---|---|\n",
    );
    for one in LOOPS {
        let (name, file, mechanism) = (one.name, one.file, one.mechanism.as_str());
        page.push_str(&format!(
            "| [{name}](../{file}) | {mechanism} | {} | {} | {} |\n",
            one.writes, one.wakes, one.net
        ));
    }
    page
}

#[test]
fn page_matches_the_code() {
    let file = root().join("docs/ownership.md");
    let page = page();
    if std::env::var_os("TRUEUP_UPDATE").is_some() {
        fs::write(&file, &page).unwrap();
    }
    let stored = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(stored, page, "run this test with TRUEUP_UPDATE=1 to rewrite docs/ownership.md");
}

#[test]
fn registered_loops_are_exactly_the_existing_ones() {
    let registered: BTreeSet<PathBuf> = LOOPS.iter().map(|one| PathBuf::from(one.file)).collect();
    for folder in ["crates/control/src", "crates/cluster/src"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = PathBuf::from(folder).join(path.file_name().unwrap());
            let text = if path.is_file() { fs::read_to_string(&path).unwrap() } else { continue };
            let runs =
                ["async fn run(self", "async fn run(mut self"].iter().any(|run| text.contains(run));
            assert_eq!(runs, registered.contains(&name), "{}", name.display());
        }
    }
}
