//! What a machine needs for a real node: pods that are processes, with real logs, limits and
//! crashes. A cluster without one simulates all of its pods, and marks them as simulated.

use std::env;
use std::fmt;
use std::path::Path;

use crate::layout::is_root;

/// The programs that run containers, with the Debian package of each.
const PROGRAMS: [(&str, &str); 5] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("ip", "iproute2"),
    ("mount", "mount"),
];

/// Where distributions install network plugins.
const PLUGINS: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];

/// Why there is no real node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoNode {
    /// None was requested.
    Unasked,
    /// The machine lacks something; the text says what to do.
    Missing(String),
    /// Starting it failed.
    Failed(String),
}

impl fmt::Display for NoNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unasked => f.write_str("not requested"),
            Self::Missing(what) | Self::Failed(what) => f.write_str(what),
        }
    }
}

/// What to do so that this machine can have a real node; `None` if it can already.
pub fn missing() -> Option<String> {
    if !is_root() {
        return Some("containers need root; run Trueup as root to get a real node".to_owned());
    }
    let mut packages: Vec<&str> = PROGRAMS
        .into_iter()
        .filter(|(program, _)| !is_on_path(program))
        .map(|(_, package)| package)
        .collect();
    if !PLUGINS.iter().any(|folder| Path::new(folder).join("bridge").is_file()) {
        packages.push("containernetworking-plugins");
    }
    packages.dedup();
    (!packages.is_empty())
        .then(|| format!("install {} to get a real node, then start again", packages.join(", ")))
}

fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
