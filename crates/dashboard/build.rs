//! Lists the files of `web/build` as Rust source.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The output of `npm run build` in `web`, from this crate.
const BUILD: &str = "../../web/build";

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join(BUILD);
    // Cargo compiles this crate again on each build while a watched folder is missing.
    if !root.exists() {
        fs::create_dir_all(&root)?;
    }
    println!("cargo::rerun-if-changed={BUILD}");
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut list = String::from("&[\n");
    for file in files {
        let path = file.strip_prefix(&root)?.to_str().ok_or("a file name is not UTF-8")?;
        list.push_str(&format!("({path:?}, include_bytes!({file:?})),\n"));
    }
    list.push_str("]\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("files.rs"), list)?;
    Ok(())
}

/// Adds every file below this folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
