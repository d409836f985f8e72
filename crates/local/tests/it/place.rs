//! Folders for tests.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;
use trueup_local::layout;

/// A folder that goes away with the test. It lies next to the cache and not in the temporary folder,
/// because the user that Postgres runs as has to be able to get there.
pub(crate) fn folder() -> TempDir {
    let base = layout::cache_dir().join("test");
    fs::create_dir_all(&base).unwrap();
    let open = Permissions::from_mode(0o711);
    fs::set_permissions(&base, open.clone()).unwrap();
    let folder = tempfile::tempdir_in(base).unwrap();
    fs::set_permissions(folder.path(), open).unwrap();
    folder
}
