//! A real DNS server for one test: NSD, which serves what it is given and asks nobody.
//!
//! It serves the zone `example.org` with the records of the test, and the zone `broken.org` without any:
//! whoever asks for something in there hears SERVFAIL. For everything else it is not responsible, and
//! refuses to answer.

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

/// Where Debian and others put it; services are not on everybody's path.
const PLACES: [&str; 3] = ["/usr/sbin/nsd", "/usr/local/sbin/nsd", "/sbin/nsd"];
/// How often is looked whether it serves, and how often at most.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS: u32 = 1_500;
/// How many ports are tried: somebody may take one between our look and its start.
const TRIES: u32 = 5;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A server at work. It ends when this is dropped, or when the test's process ends in any way.
#[derive(Debug)]
pub struct RealDns {
    dir: PathBuf,
    address: SocketAddr,
    serial: u32,
    /// A small shell that outlives us: each line that it reads makes the server read its zones again.
    keeper: Child,
}

const KEEPER: &str = r#"
"$NSD" -d -c "$DIR/nsd.conf" >"$DIR/log" 2>&1 & server=$!
while read -r _; do kill -HUP "$server"; done
kill "$server"; wait "$server"; rm -rf "$DIR"
"#;

impl RealDns {
    /// A server with these lines in the zone `example.org`. Where there is no NSD on this machine the test
    /// is counted as left out, and this returns nothing.
    ///
    /// # Panics
    /// There is one, and it does not serve; or there is none, and every check is required.
    pub async fn start(records: &[String]) -> Option<Self> {
        let Some(program) = PLACES.iter().map(Path::new).find(|place| place.exists()) else {
            left_out("there is no real DNS server here (Debian: apt-get install nsd)");
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

    /// Where it serves, over UDP and TCP.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves these records from soon on, and no others.
    ///
    /// # Panics
    /// The zone cannot be written, or the server is gone.
    pub fn publish(&mut self, records: &[String]) {
        self.serial += 1;
        write_zone(&self.dir, self.serial, records);
        let stdin = self.keeper.stdin.as_mut().expect("the keeper should listen");
        stdin.write_all(b"again\n").expect("the keeper should be there");
    }

    fn spawn(program: &Path, records: &[String]) -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir =
            layout::cache_dir().join("test-dns").join(format!("{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder for the server should be made");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        fs::write(dir.join("nsd.conf"), config(&dir, address)).expect("its file should be written");
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

    /// Waits until it takes connections; it loads its zones before it answers the first.
    async fn serves(&mut self) -> bool {
        for _ in 0..LOOKS {
            if TcpStream::connect(self.address).await.is_ok() {
                return true;
            }
            tokio::time::sleep(LOOK).await;
        }
        false
    }
}

impl Drop for RealDns {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // It is gone with its folder once the shell is.
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

/// Nobody keeps its records for longer than a second.
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

#[expect(clippy::print_stderr, reason = "a test that leaves something out says so")]
fn note(text: &str) {
    eprintln!("{text}");
}

#[expect(clippy::panic, reason = "a server that is there and does not serve fails the test")]
fn panic_without_server() -> ! {
    panic!("the DNS server should serve; what it said is printed above")
}
