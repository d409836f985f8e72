//! Lifecycle of the embedded Postgres: start, adoption, stop and crash.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use trueup_local::postgres::{Error, Options, Postgres};
use trueup_local::{Progress, layout};
use trueup_testkit::left_out::left_out;

use crate::place;

/// The name of the socket.
const SOCKET: &str = ".s.PGSQL.5432";

async fn start(dir: &Path) -> Postgres {
    let options = Options { dir: dir.join("pg"), durable: false };
    Postgres::adopt_or_start(&options, &Progress::new()).await.unwrap()
}

/// The folder of the server's socket, which its URL names in the place of the host.
fn socket_folder(server: &Postgres) -> PathBuf {
    let url = server.admin_url();
    let (_, place) = url.rsplit_once('@').unwrap();
    let mut parts = place.split(':').next().unwrap().split('%');
    let mut folder = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        let (byte, rest) = part.split_at(2);
        folder.push(u8::from_str_radix(byte, 16).unwrap());
        folder.extend(rest.as_bytes());
    }
    PathBuf::from(String::from_utf8(folder).unwrap())
}

/// The first byte of the response to a startup message; `R` requests the password. The archive has
/// no client program that could be used instead.
fn first_answer(server: &Postgres) -> u8 {
    use std::io::{Read, Write};
    let socket = socket_folder(server).join(SOCKET);
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.write_all(b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0").unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    answer[0]
}

/// The permissions of a file.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The local addresses of the TCP sockets on which a process listens, as the kernel writes them.
fn tcp_listeners(pid: u32) -> Vec<String> {
    const LISTENING: &str = "0A";
    let open: BTreeSet<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|file| Some(fs::read_link(file.ok()?.path()).ok()?.to_str()?.to_owned()))
        .collect();
    let tables =
        ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")));
    let mut found = Vec::new();
    // A kernel without IPv6 has only the first table.
    for line in tables.iter().flatten().flat_map(|table| table.lines().skip(1)) {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        if fields[3] == LISTENING && open.contains(&format!("socket:[{}]", fields[9])) {
            found.push(fields[1].to_owned());
        }
    }
    found
}

#[tokio::test]
async fn server_listens_only_on_a_socket_that_others_cannot_reach() {
    let folder = place::folder();
    let server = start(folder.path()).await;
    let (socket_folder, data) = (socket_folder(&server), folder.path().join("pg/data"));
    assert_eq!(socket_folder, folder.path().join("pg/socket").canonicalize().unwrap());
    assert_eq!((mode(&socket_folder), mode(&socket_folder.join(SOCKET))), (0o700, 0o700));
    let owner = |path: &Path| fs::metadata(path).unwrap().uid();
    assert_eq!(owner(&socket_folder), owner(&data), "the server's account owns the folder");
    assert_eq!(tcp_listeners(server.pid()), Vec::<String>::new());
    server.stop().await.unwrap();
}

#[tokio::test]
async fn server_in_a_folder_with_a_long_path_has_a_private_socket_elsewhere() {
    let folder = place::folder();
    let long = folder.path().join("long".repeat(30));
    fs::create_dir(&long).unwrap();
    fs::set_permissions(&long, fs::Permissions::from_mode(0o711)).unwrap();
    let first = start(&long).await;
    let socket_folder = socket_folder(&first);
    assert!(!socket_folder.starts_with(&long), "{socket_folder:?}");
    assert_eq!(mode(&socket_folder), 0o700);
    assert_eq!(first_answer(&first), b'R');
    let second = start(&long).await;
    assert_eq!((first.pid(), first.admin_url()), (second.pid(), second.admin_url()));
    second.stop().await.unwrap();
    fs::remove_dir(&socket_folder).unwrap();
}

/// An earlier version of Trueup was killed, and its server still runs.
#[tokio::test]
async fn server_with_a_tcp_port_is_restarted_without_it() {
    let folder = place::folder();
    let first = start(folder.path()).await;
    let arguments = fs::read(format!("/proc/{}/cmdline", first.pid())).unwrap();
    let url = first.admin_url();
    first.stop().await.unwrap();

    let arguments = String::from_utf8(arguments).unwrap();
    let mut arguments = arguments.trim_end_matches('\0').split('\0');
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(arguments.next().unwrap());
    command
        .args(arguments)
        .args(["-c", "listen_addresses=127.0.0.1", "-c", &format!("port={port}")])
        .current_dir("/")
        .stderr(Stdio::null());
    let mut old = spawn_as_owner(&mut command, folder.path());
    let lock = folder.path().join("pg/data/postmaster.pid");
    let ready = tokio::time::timeout(Duration::from_secs(60), async {
        while !fs::read_to_string(&lock).is_ok_and(|text| text.trim_end().ends_with("ready")) {
            assert!(old.try_wait().unwrap().is_none(), "the old server should run");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    ready.await.expect("the old server should be ready in time");
    assert_eq!(tcp_listeners(old.id()).len(), 1);

    let second = start(folder.path()).await;
    assert!(old.wait().unwrap().success(), "the old server should be shut down, not killed");
    assert_eq!(second.admin_url(), url);
    assert_eq!(first_answer(&second), b'R');
    assert_eq!(tcp_listeners(second.pid()), Vec::<String>::new());
    second.stop().await.unwrap();
}

#[tokio::test]
async fn server_is_started_adopted_and_stopped_once() {
    let folder = place::folder();
    let first = start(folder.path()).await;
    assert_eq!(first_answer(&first), b'R');
    assert_eq!(mode(&folder.path().join("pg/password")), 0o600);

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
    let mut other =
        spawn_as_owner(Command::new("sleep").arg("600").current_dir("/"), folder.path());
    for lock in [lock, folder.path().join("pg/socket").join(format!("{SOCKET}.lock"))] {
        let text = fs::read_to_string(&lock).unwrap();
        let (_, rest) = text.split_once('\n').unwrap();
        fs::write(&lock, format!("{}\n{rest}", other.id())).unwrap();
    }

    let second = start(folder.path()).await;
    assert_ne!(second.pid(), pid);
    assert_eq!(second.admin_url(), url, "socket and password are kept");
    assert_eq!(first_answer(&second), b'R');
    assert!(other.try_wait().unwrap().is_none(), "the other process is left alone");
    second.stop().await.unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
}

/// Starts a command as the account of the data directory.
fn spawn_as_owner(command: &mut Command, folder: &Path) -> Child {
    let owner = fs::metadata(folder.join("pg/data")).unwrap();
    if owner.uid() != fs::metadata("/proc/self").unwrap().uid() {
        command.uid(owner.uid()).gid(owner.gid());
    }
    command.spawn().unwrap()
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
