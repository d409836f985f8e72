//! Checks whether a server accepts connections, without a database driver.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::files::{self, FileError};

/// The content of a server's lock file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Postmaster {
    pub(super) pid: u32,
    /// Missing in the first moments of a start.
    pub(super) port: Option<u16>,
}

pub(super) fn lock_file(data: &Path) -> PathBuf {
    data.join("postmaster.pid")
}

/// Reads the lock file of a data directory; it may be stale, so the caller must check the pid.
pub(super) fn postmaster(data: &Path) -> Result<Option<Postmaster>, FileError> {
    Ok(files::read_if_there(&lock_file(data))?.and_then(|text| parse(&text)))
}

/// Line 1 is the pid (negative in single-user mode), line 4 the port.
fn parse(text: &str) -> Option<Postmaster> {
    let mut lines = text.lines();
    let pid = lines.next()?.trim().parse().ok()?;
    let port = lines.nth(2).and_then(|line| line.trim().parse().ok());
    Some(Postmaster { pid, port })
}

/// Whether the server on this port requests a password. During startup or recovery it returns an
/// error instead.
pub(super) async fn accepts(port: u16) -> bool {
    let first_byte = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
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
        assert_eq!(parse(""), None);
        assert_eq!(parse("4711\n/data\n"), Some(Postmaster { pid: 4711, port: None }));
        let whole = "4711\n/data\n1700000000\n5433\n/data/socket\n127.0.0.1\n  1 2\nready   \n";
        assert_eq!(parse(whole), Some(Postmaster { pid: 4711, port: Some(5433) }));
    }
}
