//! Small file helpers whose errors name the path.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file or folder could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {path}; check free disk space and the permissions of this user")]
pub struct FileError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Adds the operation and the path to an [`io::Error`].
pub(crate) trait At<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, FileError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, FileError> {
        self.map_err(|source| FileError { doing, path: path.to_owned(), source })
    }
}

/// Creates a folder with exactly this mode, whatever the umask; an existing one is kept.
///
/// New parents are traversable by other accounts: when we are root, Postgres runs as another
/// account, and must be able to reach its files below a shared parent.
pub(crate) fn make_dir(path: &Path, mode: u32) -> Result<(), FileError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_dir(parent, mode | 0o011)?;
    }
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => set_mode(path, mode),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error).at("create", path),
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<(), FileError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).at("set the mode of", path)
}

/// The text of a file, or `None` if it does not exist.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<String>, FileError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).at("read", path),
    }
}

/// Replaces a file in one step, readable by its owner only.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let temporary = path.with_added_extension("new");
    remove_if_there(&temporary)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .at("create", &temporary)?;
    file.write_all(content).and_then(|()| file.sync_all()).at("write", &temporary)?;
    fs::rename(&temporary, path).at("replace", path)
}

pub(crate) fn remove_if_there(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).at("remove", path),
        Ok(()) | Err(_) => Ok(()),
    }
}

pub(crate) fn remove_dir_if_there(path: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).at("remove", path),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The last lines of a log, for error messages.
pub(crate) fn tail(path: &Path) -> String {
    const WINDOW: u64 = 4096;
    const LINES: usize = 12;
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(WINDOW)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let Ok(text) = read() else {
        return "(cannot read the log)".to_owned();
    };
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// An exclusive lock between processes; the kernel releases it when the holder ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock; `waiting` is called once if another process holds it. Polls, because a
    /// blocking wait in a thread could not be cancelled.
    pub(crate) async fn take(path: &Path, waiting: impl FnOnce()) -> Result<Self, FileError> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)
            .at("open", path)?;
        let mut waiting = Some(waiting);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => {
                    if let Some(notify) = waiting.take() {
                        notify();
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(TryLockError::Error(error)) => return Err(error).at("lock", path),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_parents_of_a_private_folder_are_traversable() {
        let root = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (parent, private) = (root.path().join("shared"), root.path().join("shared/private"));
        make_dir(&private, 0o700).unwrap();
        assert_eq!((mode(&parent), mode(&private)), (0o711, 0o700));
        make_dir(&private, 0o755).unwrap();
        assert_eq!(mode(&private), 0o700, "an existing folder is kept as it is");
    }
}
