//! Folders for tests.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;
use trueup_local::layout;

/// A folder that is removed with the test. It is next to the cache and not in the temporary folder,
/// because the user that Postgres runs as must be able to reach it.
pub(crate) fn folder() -> TempDir {
    let base = layout::cache_dir().join("test");
    fs::create_dir_all(&base).unwrap();
    let open = Permissions::from_mode(0o711);
    fs::set_permissions(&base, open.clone()).unwrap();
    let folder = tempfile::tempdir_in(base).unwrap();
    fs::set_permissions(folder.path(), open).unwrap();
    folder
}
