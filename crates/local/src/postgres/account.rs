//! The account that Postgres runs as.
//!
//! Postgres refuses to run as root. If we are root, it runs as an existing unprivileged account,
//! and we check in advance that this account can reach its files: the error message of Postgres
//! names neither the folder nor the fix.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::{MetadataExt, chown, fchown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::Error;
use crate::files::{At, FileError};
use crate::layout;

/// The folder of the data, in the folder of a server.
pub(super) const DATA: &str = "data";

/// Accounts that may run Postgres when we are root, best first.
const CANDIDATES: [&str; 2] = ["postgres", OWN];

/// The account that is created when there is no other.
const OWN: &str = "trueup";

/// Older versions fell back to this account, which other services may run as, too. It keeps the data
/// that it has, and gets no new data.
const FORMER: &str = "nobody";

/// The account that runs Postgres: our own, or another one if we are root.
#[derive(Clone, Debug)]
pub(super) struct Account {
    other: Option<Other>,
}

#[derive(Clone, Debug)]
struct Other {
    name: &'static str,
    uid: u32,
    gid: u32,
}

impl Account {
    /// The account for the server in this folder; as root it may be created.
    pub(super) fn choose(dir: &Path) -> Result<Self, Error> {
        if !layout::is_root() {
            return Ok(Self { other: None });
        }
        let owner = dir.join(DATA).metadata().ok().map(|data| data.uid());
        if let Some(other) = pick(&passwd()?, owner) {
            return Ok(Self { other: Some(other) });
        }
        create_own();
        pick(&passwd()?, owner).map(|other| Self { other: Some(other) }).ok_or(Error::NoAccount)
    }

    /// The mode of parent folders of the data: private, unless another account must traverse them.
    pub(super) fn dir_mode(&self) -> u32 {
        match self.other {
            Some(_) => 0o711,
            None => 0o700,
        }
    }

    /// Makes a command run as this account.
    pub(super) fn run(&self, command: &mut Command) {
        if let Some(other) = &self.other {
            command.uid(other.uid).gid(other.gid);
        }
    }

    /// Changes the owner of a file or folder to this account.
    pub(super) fn give(&self, path: &Path) -> Result<(), FileError> {
        match &self.other {
            Some(other) => {
                chown(path, Some(other.uid), Some(other.gid)).at("change the owner of", path)
            }
            None => Ok(()),
        }
    }

    /// Changes the owner of an open file, which is at this path.
    pub(super) fn give_open(&self, file: &File, path: &Path) -> Result<(), FileError> {
        match &self.other {
            Some(other) => {
                fchown(file, Some(other.uid), Some(other.gid)).at("change the owner of", path)
            }
            None => Ok(()),
        }
    }

    /// Whether a file belongs to this account or to us.
    pub(super) fn owns(&self, file: &Metadata) -> bool {
        let ours = rustix::process::geteuid().as_raw();
        file.uid() == ours || self.other.as_ref().is_some_and(|other| file.uid() == other.uid)
    }

    /// Checks that the account may traverse every folder from the root down to this one.
    pub(super) fn check_reachable(&self, folder: &Path) -> Result<(), Error> {
        let Some(other) = &self.other else {
            return Ok(());
        };
        let mut folders: Vec<&Path> = folder.ancestors().collect();
        folders.reverse();
        for folder in folders {
            let metadata = folder.metadata().at("inspect", folder)?;
            if !other.may_enter(&metadata) {
                return Err(Error::Unreachable { user: other.name, folder: folder.to_owned() });
            }
        }
        Ok(())
    }
}

impl Other {
    fn may_enter(&self, folder: &Metadata) -> bool {
        let needed = if folder.uid() == self.uid {
            0o100
        } else if folder.gid() == self.gid {
            0o010
        } else {
            0o001
        };
        folder.mode() & needed != 0
    }
}

fn passwd() -> Result<String, FileError> {
    let path = Path::new("/etc/passwd");
    fs::read_to_string(path).at("read", path)
}

/// The account for data that belongs to this user, or for new data.
fn pick(passwd: &str, owner: Option<u32>) -> Option<Other> {
    let former = find(passwd, FORMER).filter(|former| owner == Some(former.uid));
    former.or_else(|| CANDIDATES.iter().find_map(|name| find(passwd, name)))
}

/// Creates an account that nothing else uses. Where that fails, the account is still missing and the
/// error says so.
fn create_own() {
    let arguments = ["--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell"];
    let created = Command::new("useradd").args(arguments).args(["/usr/sbin/nologin", OWN]).output();
    tracing::info!(?created, "created the account of Postgres");
}

fn find(passwd: &str, name: &'static str) -> Option<Other> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Other { name, uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_their_whole_name() {
        let passwd = "postgres2:x:7:8::/:/bin/sh\nnobody:x:65534:65533::/:/bin/false\n";
        assert!(find(passwd, "postgres").is_none());
        let nobody = find(passwd, "nobody").unwrap();
        assert_eq!((nobody.uid, nobody.gid), (65534, 65533));
    }

    /// L9: an account that other services may run as gets no new data.
    #[test]
    fn nobody_runs_only_the_data_that_it_already_has() {
        let shared = "nobody:x:65534:65534::/:/bin/false\n";
        assert!(pick(shared, None).is_none());
        assert!(pick(shared, Some(0)).is_none());
        assert_eq!(pick(shared, Some(65534)).unwrap().name, FORMER);
        let both = format!("{shared}postgres:x:101:104::/:/bin/bash\ntrueup:x:9:9::/:/bin/false\n");
        assert_eq!(pick(&both, None).unwrap().name, "postgres");
        assert_eq!(pick(&both, Some(65534)).unwrap().name, FORMER);
        let own = format!("{shared}trueup:x:9:9::/:/bin/false\n");
        assert_eq!(pick(&own, None).unwrap().name, OWN);
    }
}
