//! Default locations of data and cache.
//!
//! Root gets `/var/lib` instead of a home directory: Postgres refuses to run as root, and the
//! unprivileged user it then runs as cannot enter `/root`.

use std::env;
use std::path::PathBuf;

const ROOT_BASE: &str = "/var/lib/trueup";

/// The data directory of the default instance.
pub fn default_data_dir() -> PathBuf {
    if is_root() {
        return PathBuf::from(ROOT_BASE).join("default");
    }
    xdg("XDG_DATA_HOME", ".local/share").join("trueup")
}

/// Where downloads and builds are kept, shared by all instances of this user.
pub fn cache_dir() -> PathBuf {
    if let Some(chosen) = absolute("TRUEUP_CACHE_DIR") {
        return chosen;
    }
    if is_root() {
        return PathBuf::from(ROOT_BASE).join("cache");
    }
    xdg("XDG_CACHE_HOME", ".cache").join("trueup")
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// An XDG folder, or its default below the home folder. A user without a home gets the temporary
/// folder, which is writable.
fn xdg(variable: &str, below_home: &str) -> PathBuf {
    absolute(variable).unwrap_or_else(|| {
        env::home_dir()
            .filter(|home| home.is_absolute())
            .unwrap_or_else(env::temp_dir)
            .join(below_home)
    })
}

/// The XDG specification says that relative paths must be ignored.
fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
