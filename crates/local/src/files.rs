//! Small file helpers whose errors name the path.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file or folder could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {path}; check that the disk is not full and that this user may do that")]
pub struct FileError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Adds what was tried, and on which path, to an [`io::Error`].
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
/// Missing parents let other accounts pass through: Postgres runs as another account than root, and the
/// first of our parts to create a shared parent must not lock it out.
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

/// The text of a file, or nothing when there is none.
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

/// The last lines of a log, for an error that should say what went wrong without a second look.
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
        return "(the log cannot be read)".to_owned();
    };
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// An exclusive lock between processes; the kernel gives it back when the holder ends in any way.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock; `waiting` is called once when someone else holds it. It polls, because a
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
                    if let Some(tell) = waiting.take() {
                        tell();
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
    fn a_private_folder_leaves_its_new_parents_passable() {
        let root = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (parent, private) = (root.path().join("shared"), root.path().join("shared/private"));
        make_dir(&private, 0o700).unwrap();
        assert_eq!((mode(&parent), mode(&private)), (0o711, 0o700));
        make_dir(&private, 0o755).unwrap();
        assert_eq!(mode(&private), 0o700, "an existing folder is kept as it is");
    }
}
