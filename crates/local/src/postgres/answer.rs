//! Checks whether a server accepts connections, without a database driver.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::socket;
use crate::files::{self, FileError};

/// The content of a server's lock file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Postmaster {
    pub(super) pid: u32,
    /// Missing in the first moments of a start.
    pub(super) socket: Option<PathBuf>,
    /// Whether it listens on a TCP port, too.
    pub(super) tcp: bool,
}

pub(super) fn lock_file(data: &Path) -> PathBuf {
    data.join("postmaster.pid")
}

/// Reads the lock file of a data directory; it may be stale, so the caller must check the pid.
pub(super) fn postmaster(data: &Path) -> Result<Option<Postmaster>, FileError> {
    Ok(files::read_if_there(&lock_file(data))?.and_then(|text| parse(&text)))
}

/// Line 1 is the pid (negative in single-user mode), line 4 the port, line 5 the folder of the
/// socket, line 6 the TCP address.
///
/// Until the server listens, the last two are empty or missing.
fn parse(text: &str) -> Option<Postmaster> {
    let mut lines = text.lines();
    let pid = lines.next()?.trim().parse().ok()?;
    let port = lines.nth(2).and_then(|line| line.trim().parse().ok());
    let folder = lines.next().filter(|line| !line.is_empty());
    let socket = folder.zip(port).map(|(folder, port)| socket::path_in(Path::new(folder), port));
    let tcp = lines.next().is_some_and(|line| !line.trim().is_empty());
    Some(Postmaster { pid, socket, tcp })
}

/// Whether the server behind this socket requests a password. During startup or recovery it
/// returns an error instead.
pub(super) async fn accepts(socket: &Path) -> bool {
    let first_byte = async {
        let mut stream = UnixStream::connect(socket).await.ok()?;
        stream.write_all(&startup_message()).await.ok()?;
        stream.read_u8().await.ok()
    };
    // `R` is an authentication request.
    matches!(tokio::time::timeout(Duration::from_secs(2), first_byte).await, Ok(Some(b'R')))
}

/// Protocol 3.0, user and database `postgres`: length, version, then pairs of zero-ended strings.
fn startup_message() -> Vec<u8> {
    const PARAMETERS: &[u8] = b"user\0postgres\0database\0postgres\0\0";
    let length = u32::try_from(8 + PARAMETERS.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], &[0, 3, 0, 0], PARAMETERS].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_file_is_parsed_at_every_stage_of_a_start() {
        let early = Some(Postmaster { pid: 4711, socket: None, tcp: false });
        assert_eq!(parse(""), None);
        assert_eq!(parse("4711\n/data\n"), early);
        assert_eq!(parse("4711\n/data\n1700000000\n5432\n\n"), early);

        let socket = Some(PathBuf::from("/data/socket/.s.PGSQL.5432"));
        let whole = "4711\n/data\n1700000000\n5432\n/data/socket\n\n  1 2\nready   \n";
        assert_eq!(parse(whole), Some(Postmaster { pid: 4711, socket, tcp: false }));
        let with_tcp = "4711\n/data\n1700000000\n5433\n\n127.0.0.1\n  1 2\nready   \n";
        assert_eq!(parse(with_tcp), Some(Postmaster { pid: 4711, socket: None, tcp: true }));
    }
}
