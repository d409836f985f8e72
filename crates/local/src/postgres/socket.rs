//! The Unix socket of a server, the only way to reach it.
//!
//! On a TCP port any local user could listen while the server is down, and receive the passwords of
//! the clients that reconnect. Only the server's account may enter the folder of the socket. Its
//! path is the same after every start, so clients find a restarted server.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::Error;
use super::account::Account;
use crate::files::At;

/// Postgres puts this number into the name of the socket.
pub(super) const PORT: u16 = 5432;

/// The kernel's limit for the path of a socket, in bytes.
const LONGEST_PATH: usize = 107;

/// Holds the folder of the socket if the path below the data directory is too long.
const SHORT_PARENT: &str = "/tmp";

/// Only the owner may enter.
const PRIVATE: u32 = 0o700;

#[derive(Clone, Debug)]
pub(super) struct Socket {
    folder: PathBuf,
}

impl Socket {
    /// The socket of the server in this folder.
    pub(super) fn new(dir: &Path) -> Self {
        let own = Self { folder: dir.join("socket") };
        // Text, because a URL names the folder.
        let fits = own.path().as_os_str().len() <= LONGEST_PATH && own.folder.to_str().is_some();
        if fits {
            return own;
        }
        let digest = Sha256::digest(dir.as_os_str().as_bytes());
        let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self { folder: Path::new(SHORT_PARENT).join(format!("trueup-postgres-{digest}")) }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn path(&self) -> PathBuf {
        path_in(&self.folder, PORT)
    }

    /// The file by which Postgres keeps a second server off the socket.
    pub(super) fn lock_file(&self) -> PathBuf {
        self.path().with_added_extension("lock")
    }

    /// Creates the folder and makes it private to the account.
    ///
    /// A folder of another account is refused: its owner could replace the socket.
    pub(super) fn prepare(&self, account: &Account) -> Result<(), Error> {
        let folder = &self.folder;
        match DirBuilder::new().mode(PRIVATE).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).at("create", folder).map_err(Error::File);
            }
            Ok(()) | Err(_) => {}
        }
        let opened = self.open()?;
        if !account.owns(&opened.metadata().at("inspect", folder)?) {
            return Err(Error::ForeignFolder { folder: folder.clone() });
        }
        account.give_open(&opened, folder)?;
        let private = Permissions::from_mode(PRIVATE);
        Ok(opened.set_permissions(private).at("set the mode of", folder)?)
    }

    /// Opens the folder without following a link, so that it cannot be exchanged after its check.
    fn open(&self) -> Result<File, Error> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(self.folder(), flags, Mode::empty()) {
            Ok(opened) => Ok(File::from(opened)),
            Err(Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => {
                Err(Error::ForeignFolder { folder: self.folder.clone() })
            }
            Err(error) => Err(io::Error::from(error)).at("open", &self.folder).map_err(Error::File),
        }
    }

    /// The value of `unix_socket_directories`: a list, in which quotes protect commas and spaces.
    pub(super) fn setting(&self) -> String {
        format!("\"{}\"", self.folder.to_string_lossy().replace('"', "\"\""))
    }

    /// The URL of the database `postgres` for its superuser. The folder is in the place of the
    /// host, which libpq and sqlx understand.
    pub(super) fn admin_url(&self, password: &str) -> String {
        let host: String = self.folder.as_os_str().as_bytes().iter().map(percent_encoded).collect();
        format!("postgres://postgres:{password}@{host}:{PORT}/postgres")
    }
}

/// The path of the socket that Postgres creates in a folder.
pub(super) fn path_in(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!(".s.PGSQL.{port}"))
}

fn percent_encoded(byte: &u8) -> String {
    if byte.is_ascii_alphanumeric() {
        char::from(*byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn url_names_the_folder_as_its_host() {
        let socket = Socket::new(Path::new("/data/a-b, c"));
        assert_eq!(socket.setting(), "\"/data/a-b, c/socket\"");
        assert_eq!(
            socket.admin_url("secret"),
            "postgres://postgres:secret@%2Fdata%2Fa%2Db%2C%20c%2Fsocket:5432/postgres"
        );
    }

    #[test]
    fn long_data_directory_has_a_short_socket_of_its_own() {
        let longest = format!("/{}", "d".repeat(LONGEST_PATH - "//socket/.s.PGSQL.5432".len()));
        let own = Socket::new(Path::new(&longest));
        assert_eq!(own.folder(), Path::new(&longest).join("socket"));
        assert_eq!(own.path().as_os_str().len(), LONGEST_PATH);

        let [first, second] =
            ["x", "y"].map(|end| Socket::new(Path::new(&(longest.clone() + end))));
        assert_eq!(first.folder().parent(), Some(Path::new(SHORT_PARENT)));
        assert_ne!(first.folder(), second.folder());
    }

    #[test]
    fn existing_folder_becomes_private_and_a_link_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let (account, socket) = (Account::choose(root.path()).unwrap(), Socket::new(root.path()));
        fs::create_dir(socket.folder()).unwrap();
        fs::set_permissions(socket.folder(), Permissions::from_mode(0o777)).unwrap();
        socket.prepare(&account).unwrap();
        let mode = fs::metadata(socket.folder()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, PRIVATE);

        fs::remove_dir(socket.folder()).unwrap();
        symlink(root.path(), socket.folder()).unwrap();
        let error = socket.prepare(&account).unwrap_err();
        assert!(matches!(&error, Error::ForeignFolder { folder } if folder == socket.folder()));
    }

    #[test]
    fn folder_of_another_account_is_refused() {
        let root = tempfile::tempdir().unwrap();
        // Root can give a folder away; anyone else finds one of root.
        let folder = if crate::layout::is_root() {
            let folder = root.path().join("socket");
            fs::create_dir(&folder).unwrap();
            chown(&folder, Some(1), None).unwrap();
            folder
        } else {
            PathBuf::from("/usr")
        };
        let error = Socket { folder }.prepare(&Account::choose(root.path()).unwrap()).unwrap_err();
        assert!(matches!(error, Error::ForeignFolder { .. }), "{error}");
    }
}
