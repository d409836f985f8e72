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

/// An XDG folder, or its default below the home folder.
fn xdg(variable: &str, below_home: &str) -> PathBuf {
    let uid = rustix::process::geteuid().as_raw();
    absolute(variable).unwrap_or_else(|| base(env::home_dir(), uid).join(below_home))
}

/// The home folder. A user without one gets their runtime folder: in a temporary folder, another user
/// could have made ours first, and would read the keys in it.
fn base(home: Option<PathBuf>, uid: u32) -> PathBuf {
    home.filter(|home| home.is_absolute())
        .unwrap_or_else(|| PathBuf::from(format!("/run/user/{uid}")))
}

/// The XDG specification says that relative paths must be ignored.
fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L8: no default is in a folder that everybody may write.
    #[test]
    fn user_without_a_home_gets_a_folder_of_their_own() {
        assert_eq!(base(Some("/home/one".into()), 7), PathBuf::from("/home/one"));
        for no_home in [None, Some(PathBuf::from("relative"))] {
            assert_eq!(base(no_home, 7), PathBuf::from("/run/user/7"));
        }
    }
}
