//! A real DNS server for one test: NSD, which is authoritative only and does no recursion.
//!
//! It serves the zone `example.org` with the records of the test. The zone `broken.org` has no zone
//! file, so queries for it get SERVFAIL. All other queries get REFUSED.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use trueup_local::layout;

use crate::left_out::left_out;

/// Where distributions install NSD; `sbin` is not on every user's path.
const PLACES: [&str; 3] = ["/usr/sbin/nsd", "/usr/local/sbin/nsd", "/sbin/nsd"];
/// How long to wait between checks whether the server accepts connections, and how many checks.
const POLL_EVERY: Duration = Duration::from_millis(20);
const MAX_POLLS: u32 = 1_500;
/// How many ports to try: another process may take one between our check and the server's start.
const TRIES: u32 = 5;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A running server. It stops when this is dropped or the test process ends.
#[derive(Debug)]
pub struct RealDns {
    dir: PathBuf,
    address: SocketAddr,
    serial: u32,
    /// A shell that outlives the test process: on each line of input the server reloads its zones.
    keeper: Child,
}

const KEEPER: &str = r#"
"$NSD" -d -c "$DIR/nsd.conf" >"$DIR/log" 2>&1 & server=$!
while read -r _; do kill -HUP "$server"; done
kill "$server"; wait "$server"; rm -rf "$DIR"
"#;

impl RealDns {
    /// Starts a server with these records in the zone `example.org`.
    ///
    /// Without NSD on this machine, the check is reported as left out and this returns `None`.
    ///
    /// # Panics
    /// NSD does not start, or it is not installed and every check is required.
    pub async fn start(records: &[String]) -> Option<Self> {
        let Some(program) = PLACES.iter().map(Path::new).find(|place| place.exists()) else {
            left_out("NSD (a DNS server) is not installed; on Debian: apt-get install nsd");
            return None;
        };
        for _ in 0..TRIES {
            let mut server = Self::spawn(program, records);
            if server.serves().await {
                return Some(server);
            }
            note(&fs::read_to_string(server.dir.join("log")).unwrap_or_default());
        }
        panic_without_server()
    }

    /// Its address, for UDP and TCP.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the records. The server reloads them asynchronously.
    ///
    /// # Panics
    /// The zone cannot be written, or the server is gone.
    pub fn publish(&mut self, records: &[String]) {
        self.serial += 1;
        write_zone(&self.dir, self.serial, records);
        let stdin = self.keeper.stdin.as_mut().expect("the keeper should have a stdin");
        stdin.write_all(b"again\n").expect("the keeper should be running");
    }

    fn spawn(program: &Path, records: &[String]) -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir =
            layout::cache_dir().join("test-dns").join(format!("{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder for the server should be created");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        fs::write(dir.join("nsd.conf"), config(&dir, address)).expect("nsd.conf should be written");
        write_zone(&dir, 1, records);
        let keeper = Command::new("sh")
            .args(["-c", KEEPER])
            .env("NSD", program)
            .env("DIR", &dir)
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell should start");
        Self { dir, address, serial: 1, keeper }
    }

    /// Waits until it accepts connections; it loads its zones before that.
    async fn serves(&mut self) -> bool {
        for _ in 0..MAX_POLLS {
            if TcpStream::connect(self.address).await.is_ok() {
                return true;
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
        false
    }
}

impl Drop for RealDns {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // The shell stops the server and removes its folder before it exits.
        let _ended = self.keeper.wait();
    }
}

fn config(dir: &Path, address: SocketAddr) -> String {
    let (dir, ip, port) = (dir.display(), address.ip(), address.port());
    format!(
        "server:\n  ip-address: {ip}@{port}\n  username: \"\"\n  chroot: \"\"\n  zonesdir: \"{dir}\"\n  \
         database: \"\"\n  pidfile: \"\"\n  xfrdfile: \"\"\n  xfrdir: \"{dir}\"\n  \
         zonelistfile: \"{dir}/zone.list\"\n  server-count: 1\n\
         remote-control:\n  control-enable: no\n\
         zone:\n  name: example.org\n  zonefile: example.org.zone\n\
         zone:\n  name: broken.org\n  zonefile: missing.zone\n"
    )
}

/// Writes the zone with a TTL of one second, so that resolvers do not cache old records.
fn write_zone(dir: &Path, serial: u32, records: &[String]) {
    let text = format!(
        "$ORIGIN example.org.\n$TTL 1\n@ SOA ns hostmaster {serial} 60 60 60 1\n@ NS ns\nns A 127.0.0.1\n{}\n",
        records.join("\n")
    );
    fs::write(dir.join("example.org.zone"), text).expect("the zone should be written");
}

/// A port that is free for UDP and TCP.
fn free_port() -> u16 {
    let find = || {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        let port = udp.local_addr().ok()?.port();
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok().map(|_| port)
    };
    (0..100).find_map(|_| find()).expect("a port should be free")
}

#[expect(
    clippy::print_stderr,
    reason = "the log of a server that failed to start belongs in the test output"
)]
fn note(text: &str) {
    eprintln!("{text}");
}

#[expect(clippy::panic, reason = "a server that does not start fails the test")]
fn panic_without_server() -> ! {
    panic!("the DNS server did not start; its log is printed above")
}
