//! Lifecycle of the embedded Postgres: start, adoption, stop and crash.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use trueup_local::postgres::{Error, Options, Postgres};
use trueup_local::{Progress, layout};
use trueup_testkit::left_out::left_out;

use crate::place;

async fn start(dir: &Path) -> Postgres {
    let options = Options { dir: dir.join("pg"), durable: false };
    Postgres::adopt_or_start(&options, &Progress::new()).await.unwrap()
}

/// The first byte of the response to a startup message; `R` requests the password. The archive has
/// no client program that could be used instead.
fn first_answer(port: u16) -> u8 {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0").unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    answer[0]
}

#[tokio::test]
async fn server_is_started_adopted_and_stopped_once() {
    let folder = place::folder();
    let first = start(folder.path()).await;
    assert_eq!(first_answer(first.port()), b'R');
    let password = folder.path().join("pg/password");
    assert_eq!(fs::metadata(&password).unwrap().permissions().mode() & 0o777, 0o600);

    let second = start(folder.path()).await;
    assert_eq!(first.pid(), second.pid());
    assert_eq!(first.admin_url(), second.admin_url());

    // trueup was killed between starting the server and writing the pid file.
    fs::remove_file(folder.path().join("pg/pid.json")).unwrap();
    let third = start(folder.path()).await;
    assert_eq!(first.pid(), third.pid());

    first.stop().await.unwrap();
    assert!(!second.is_alive());
    second.stop().await.unwrap();
    third.stop().await.unwrap();
    let log = fs::read_to_string(folder.path().join("pg/postgres.log")).unwrap();
    assert!(log.contains("database system is shut down"), "{log}");
}

#[tokio::test]
async fn server_restarts_after_kill_9_and_with_a_reused_pid_in_its_lock_file() {
    let folder = place::folder();
    let first = start(folder.path()).await;
    let (pid, url) = (first.pid(), first.admin_url());
    first.kill().await.unwrap();
    let lock = folder.path().join("pg/data/postmaster.pid");
    assert!(lock.exists(), "kill -9 leaves the lock file behind");

    // The pid was reused by a process of the same account, which Postgres alone cannot distinguish.
    let mut other = other(folder.path());
    let text = fs::read_to_string(&lock).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    fs::write(&lock, format!("{}\n{rest}", other.id())).unwrap();

    let second = start(folder.path()).await;
    assert_ne!(second.pid(), pid);
    assert_eq!(second.admin_url(), url, "port and password are kept");
    assert_eq!(first_answer(second.port()), b'R');
    assert!(other.try_wait().unwrap().is_none(), "the other process is left alone");
    second.stop().await.unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
}

/// A process that runs as the account of the data directory.
fn other(folder: &Path) -> std::process::Child {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;
    let owner = fs::metadata(folder.join("pg/data")).unwrap();
    let mut command = Command::new("sleep");
    command.arg("600").current_dir("/");
    if owner.uid() != fs::metadata("/proc/self").unwrap().uid() {
        command.uid(owner.uid()).gid(owner.gid());
    }
    command.spawn().unwrap()
}

#[tokio::test]
async fn port_in_use_is_replaced() {
    let folder = place::folder();
    let first = start(folder.path()).await;
    let port = first.port();
    first.stop().await.unwrap();
    let taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let second = start(folder.path()).await;
    assert_ne!(second.port(), port);
    second.stop().await.unwrap();
    drop(taken);
}

#[tokio::test]
async fn inaccessible_parent_folder_is_named() {
    if layout::default_data_dir() != Path::new("/var/lib/trueup/default") {
        // An unprivileged user runs Postgres as itself.
        left_out("only root runs Postgres as another user, who may lack access to a folder");
        return;
    }
    let folder = place::folder();
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let options = Options { dir: closed.join("pg"), durable: false };
    let error = Postgres::adopt_or_start(&options, &Progress::new()).await.unwrap_err();
    assert!(matches!(&error, Error::Unreachable { folder, .. } if *folder == closed), "{error}");
}
