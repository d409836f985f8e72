//! An install: a data directory with everything that must survive a restart.
//!
//! Role passwords, generated secrets and ownership proofs derive from the master key, which is
//! never stored in Postgres. Without it, Trueup cannot prove that it owns its objects.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use trueup_model::invitation::SETUP_PREFIX;
use trueup_model::secret::{MasterKey, SecretValue};
use trueup_rules::envelope::Keyring;
use trueup_rules::render::proof::derive;
use trueup_store::{RolePasswords, new_code, new_token};

use trueup_cli::clock;

/// File name prefix of rotated secrets keys; the key's number follows.
const SECRETS_KEY: &str = "secrets.key.";

/// The file of the code that creates the first account.
const SETUP_CODE: &str = "setup.code";

/// The data directory.
#[derive(Debug, Clone)]
pub(crate) struct Install {
    dir: PathBuf,
}

/// Held while a process serves this install, so that no second one does.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "holding it is its use")] File);

impl Install {
    /// Opens the install in this directory; creates what is missing.
    pub(crate) fn open(dir: &Path) -> anyhow::Result<Self> {
        // Traversable by others: the embedded Postgres runs as another user when we are root.
        DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(dir)
            .with_context(|| format!("cannot create the data directory {}", dir.display()))?;
        let dir = dir.canonicalize().context("cannot find the data directory")?;
        let install = Self { dir };
        DirBuilder::new().recursive(true).mode(0o700).create(install.dir.join("log"))?;
        Ok(install)
    }

    /// Locks the install; `None` if another process holds the lock.
    pub(crate) fn lock(&self) -> anyhow::Result<Option<Lock>> {
        let path = self.dir.join("trueup.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error.into()),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn pid_file(&self) -> PathBuf {
        self.dir.join("trueup.pid.json")
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.dir.join("log").join("trueup.log")
    }

    pub(crate) fn postgres(&self) -> PathBuf {
        self.dir.join("postgres")
    }

    pub(crate) fn kube(&self) -> PathBuf {
        self.dir.join("kube")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.kube().join("kubeconfig")
    }

    pub(crate) fn operator_token_file(&self) -> PathBuf {
        self.dir.join("operator.token")
    }

    /// Where mail is written.
    pub(crate) fn outbox(&self) -> PathBuf {
        self.dir.join("outbox")
    }

    pub(crate) fn owner_password_file(&self) -> PathBuf {
        self.dir.join("owner.password")
    }

    /// The password of the demo org's owner, created on first use.
    pub(crate) fn owner_password(&self) -> anyhow::Result<SecretValue> {
        let password = self.secret("owner.password", || new_code("").reveal()[..24].to_owned())?;
        Ok(password.into())
    }

    /// The code that creates the first account, created on first use.
    pub(crate) fn setup_code(&self) -> anyhow::Result<SecretValue> {
        let code = self.secret(SETUP_CODE, || new_code(SETUP_PREFIX).reveal().to_owned())?;
        Ok(code.into())
    }

    /// The code that creates the first account, if there is one.
    pub(crate) fn open_setup_code(&self) -> Option<SecretValue> {
        let text = fs::read_to_string(self.dir.join(SETUP_CODE)).ok()?;
        Some(text.trim().to_owned().into())
    }

    /// Removes the code that creates the first account: there is one.
    pub(crate) fn forget_setup_code(&self) {
        // It is worth nothing any more, whether the file is removed or not.
        fs::remove_file(self.dir.join(SETUP_CODE)).ok();
    }

    /// The master key, created on first use.
    pub(crate) fn master_key(&self) -> anyhow::Result<MasterKey> {
        let text = self.secret("master.key", || hex(&random::<32>()))?;
        read_key(&text).map(MasterKey::new).with_context(|| {
            let path = self.dir.join("master.key");
            format!(
                "{} is damaged: restore it from a backup; without it Trueup cannot prove that it owns \
                 its objects",
                path.display()
            )
        })
    }

    /// The secrets keys: the first is derived from the master key, the others come from rotations.
    pub(crate) fn keyring(&self, master: &[u8; 32]) -> anyhow::Result<Keyring> {
        let mut keys = Keyring::new(master);
        for (number, path) in self.secrets_keys()? {
            let key = read_key(&fs::read_to_string(&path)?).with_context(|| {
                format!("{} is damaged: restore it from a backup", path.display())
            })?;
            keys = keys.with(number, &key);
        }
        Ok(keys)
    }

    /// Creates the next secrets key; returns its number and file.
    pub(crate) fn new_secrets_key(&self) -> anyhow::Result<(u32, PathBuf)> {
        let last = self.secrets_keys()?.into_iter().map(|(number, _)| number).max().unwrap_or(1);
        let number = last.saturating_add(1);
        let name = format!("{SECRETS_KEY}{number}");
        self.secret(&name, || hex(&random::<32>()))?;
        Ok((number, self.dir.join(name)))
    }

    fn secrets_keys(&self) -> anyhow::Result<Vec<(u32, PathBuf)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if let Some(number) = name.strip_prefix(SECRETS_KEY).and_then(|n| n.parse().ok()) {
                found.push((number, path));
            }
        }
        Ok(found)
    }

    /// The token of the demo org's owner, created on first use.
    pub(crate) fn owner_token(&self) -> anyhow::Result<String> {
        self.secret("owner.token", new_token_text)
    }

    /// The operator's token, created on first use.
    pub(crate) fn operator_token(&self) -> anyhow::Result<String> {
        self.secret("operator.token", new_token_text)
    }

    /// This install's identity as lease holder; stable across restarts.
    pub(crate) fn holder(&self) -> anyhow::Result<String> {
        self.secret("instance.id", || hex(&random::<8>()))
    }

    /// A one-line file readable only by its owner, created on first use.
    fn secret(&self, name: &str, make: impl FnOnce() -> String) -> anyhow::Result<String> {
        let path = self.dir.join(name);
        let wrong = || format!("cannot use {}", path.display());
        match fs::read_to_string(&path) {
            Ok(text) => return Ok(text.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(wrong),
        }
        // Written atomically: a half-written key would be lost. What a killed run left is removed, and
        // nothing that exists is opened: a link, or a file that others may read, never gets the key.
        let draft = self.dir.join(format!("{name}.new"));
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(wrong);
            }
            Ok(()) | Err(_) => {}
        }
        let value = make();
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .with_context(wrong)?;
        writeln!(file, "{value}").and_then(|()| file.sync_all()).with_context(wrong)?;
        fs::rename(&draft, &path).with_context(wrong)?;
        Ok(value)
    }
}

/// Passwords of the database roles, derived from the master key.
pub(crate) fn role_passwords(master: &[u8; 32]) -> RolePasswords {
    let password = |role: &str| hex(&derive(master, &["postgres-role", role]));
    RolePasswords { owner: password("owner"), app: password("app"), worker: password("worker") }
}

/// 32 bytes in hex.
fn read_key(text: &str) -> Option<[u8; 32]> {
    let text = text.trim();
    let bytes: Option<Vec<u8>> = (0..text.len() / 2)
        .map(|i| u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok())
        .collect();
    bytes?.try_into().ok()
}

fn new_token_text() -> String {
    new_token(clock::now()).1.reveal().to_owned()
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system should have randomness");
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// L8: a draft that was planted, or left by a killed run, is not written into.
    #[test]
    fn secret_is_never_written_into_a_file_that_exists() {
        let folder = tempfile::tempdir().unwrap();
        let install = Install::open(&folder.path().join("data")).unwrap();
        let planted = folder.path().join("planted");
        fs::write(&planted, "").unwrap();
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o666)).unwrap();
        symlink(&planted, install.dir().join("master.key.new")).unwrap();
        let key = install.master_key().unwrap();
        assert_eq!(fs::read_to_string(&planted).unwrap(), "", "the key went elsewhere");
        let file = install.dir().join("master.key");
        assert!(file.symlink_metadata().unwrap().is_file());
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(install.master_key().unwrap().reveal(), key.reveal(), "the same key again");
    }

    /// L7: nothing that holds the master key prints it.
    #[test]
    fn debug_output_hides_the_master_key() {
        assert_eq!(format!("{:?}", MasterKey::new([7; 32])), "MasterKey(…)");
    }
}
