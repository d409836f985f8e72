//! The Go sources, embedded in the program.
//!
//! A trueup that was installed as a single file must also be able to build its cluster, without a
//! clone of the repository.

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::files::{self, At, FileError};

/// The version of Kubernetes that the sources require.
pub(super) const VERSION: &str = "v1.36.3";

/// The oldest Go that builds them; the same as in `go.mod`.
pub(super) const GO: &str = "1.26";

macro_rules! embed {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../local/kube/", $path)))),*]
    };
}

const FILES: &[(&str, &str)] = embed![
    "go.mod",
    "go.sum",
    "cmd/trueup-kube/main.go",
    "cmd/trueup-sample/main.go",
    "internal/child/child.go",
    "internal/node/clean.go",
    "internal/node/config.go",
    "internal/node/image.go",
    "internal/node/network.go",
    "internal/node/node.go",
    "internal/node/volumes.go",
    "internal/parts/parts.go",
    "internal/pki/issue.go",
    "internal/pki/kubeconfig.go",
    "internal/pki/pki.go",
    "internal/place/place.go",
    "internal/place/ports.go",
    "internal/seed/seed.go",
    "internal/stages/node-heartbeat.yaml",
    "internal/stages/node-initialize.yaml",
    "internal/stages/pod-complete.yaml",
    "internal/stages/pod-delete.yaml",
    "internal/stages/pod-ready.yaml",
    "internal/stages/pod-recover.yaml",
    "internal/stages/simulate-crash.yaml",
    "internal/stages/simulate-leave.yaml",
    "internal/stages/simulate-slow.yaml",
    "internal/stages/simulate-wait.yaml",
    "internal/stages/stages.go",
    "internal/supervisor/command.go",
    "internal/supervisor/realnode.go",
    "internal/supervisor/report.go",
    "internal/supervisor/supervisor.go",
    "internal/supervisor/wait.go",
];

/// A digest of these sources; names the cached build.
pub(super) fn key() -> String {
    let mut digest = Sha256::new();
    for (path, content) in FILES {
        for part in [path, content] {
            // Lengths keep the boundaries between parts unambiguous.
            digest.update(part.len().to_string());
            digest.update(":");
            digest.update(part);
        }
    }
    let digest: String =
        digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{VERSION}-{digest}")
}

/// Writes the module into a folder.
pub(super) fn write(folder: &Path) -> Result<(), FileError> {
    for (path, content) in FILES {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            files::make_dir(parent, 0o755)?;
        }
        fs::write(&path, content).at("write", &path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    fn list(root: &Path, folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                list(root, &path, found);
            } else if !path.to_string_lossy().ends_with("_test.go") {
                found.insert(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
            }
        }
    }

    #[test]
    fn every_file_of_the_go_module_is_embedded() {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../local/kube");
        let mut found = BTreeSet::new();
        list(&root, &root, &mut found);
        let embedded = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(found, embedded);
    }

    #[test]
    fn versions_match_the_go_module() {
        let module = FILES.iter().find(|(path, _)| *path == "go.mod").unwrap().1;
        assert!(module.contains(&format!("k8s.io/kubernetes {VERSION}\n")));
        assert!(module.contains(&format!("\ngo {GO}.0\n")));
    }
}
