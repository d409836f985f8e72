//! The server beyond loopback: TLS with HTTP/2, renewed certificates, proxies and host names.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use reqwest::{Client, Version};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use trueup_http::{
    AllowedHosts, Certificate, Limits, Listener, TrustedProxies, for_hosts, router, serve,
};
use trueup_model::Clock;
use trueup_testkit::manual_clock::ManualClock;

use crate::front::{Front, OWNER, PATIENCE};

const HOST: &str = "trueup.example.com";
/// How often the files of a certificate are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The PEM files of a server, and the certificate that clients trust.
struct Files {
    dir: TempDir,
}

impl Files {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    fn paths(&self) -> [PathBuf; 2] {
        ["tls.crt", "tls.key"].map(|name| self.dir.path().join(name))
    }

    /// Writes a new certificate and its key; returns what clients trust.
    fn renew(&self) -> reqwest::Certificate {
        let made = rcgen::generate_simple_self_signed([HOST.to_owned()]).unwrap();
        let [certificate, key] = self.paths();
        fs::write(certificate, made.cert.pem()).unwrap();
        fs::write(key, made.signing_key.serialize_pem()).unwrap();
        reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap()
    }

    fn read(&self) -> Certificate {
        let [certificate, key] = self.paths();
        Certificate::read(&certificate, &key).unwrap()
    }
}

/// Serves this front on a port of this machine.
async fn start(
    front: &Front,
    listener: impl FnOnce(TcpListener) -> Listener,
) -> (SocketAddr, JoinSet<()>) {
    let socket = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = socket.local_addr().unwrap();
    let router = for_hosts(router(front.state.clone()), AllowedHosts::new([HOST]));
    let (listener, stop) = (listener(socket), front.state.stop.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { serve(listener, router, Limits::default(), stop).await.unwrap() });
    (address, tasks)
}

fn client(address: SocketAddr, trusted: reqwest::Certificate) -> Client {
    let _installed = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .no_proxy()
        .resolve(HOST, address)
        .tls_certs_only([trusted])
        .timeout(PATIENCE)
        .build()
        .unwrap()
}

fn url(scheme: &str, address: SocketAddr, path: &str) -> String {
    format!("{scheme}://{HOST}:{}{path}", address.port())
}

#[tokio::test]
async fn https_serves_http2_and_verifies_the_name() {
    let (front, files) = (Front::with_web().await, Files::new());
    let trusted = files.renew();
    let certificate = files.read();
    let proxies = TrustedProxies::default();
    let (address, _server) =
        start(&front, |socket| Listener::tls(socket, certificate, proxies)).await;
    let client = client(address, trusted);
    let answer = client.get(url("https", address, "/v1/projects")).bearer_auth(OWNER).send().await;
    let answer = answer.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2));
    let wrong = client.get(format!("https://127.0.0.1:{}/healthz", address.port())).send().await;
    assert!(wrong.is_err(), "the certificate names another host");
    let plain = client.get(url("http", address, "/healthz")).send().await;
    assert!(plain.is_err(), "plain HTTP is not answered");
}

#[tokio::test]
async fn renewed_certificate_is_used_without_a_restart_and_a_broken_one_is_not() {
    let (front, files) = (Front::with_web().await, Files::new());
    let first = files.renew();
    let certificate = files.read();
    let (shared, proxies) = (certificate.clone(), TrustedProxies::default());
    let (address, mut tasks) = start(&front, |socket| Listener::tls(socket, shared, proxies)).await;
    let clock = ManualClock::new();
    let checked = clock.clone();
    tasks.spawn(async move { certificate.reload_on_change(&checked).await });
    // After a check of the files, the next one is due two seconds later.
    let check = async || {
        clock.until_sleeping_until(clock.monotonic() + CHECK_INTERVAL).await;
        clock.advance(CHECK_INTERVAL);
        clock.until_sleeping_until(clock.monotonic() + CHECK_INTERVAL).await;
    };
    let health = url("https", address, "/healthz");
    let trusts = async |trusted: &reqwest::Certificate| {
        client(address, trusted.clone()).get(&health).send().await.is_ok()
    };
    assert!(trusts(&first).await);
    fs::write(&files.paths()[0], "no certificate").unwrap();
    check().await;
    assert!(trusts(&first).await, "a broken file changes nothing");
    let second = files.renew();
    check().await;
    assert!(trusts(&second).await && !trusts(&first).await);
}

#[tokio::test]
async fn plain_listener_for_proxies_closes_other_connections() {
    let front = Front::with_web().await;
    let files = Files::new();
    let trusted = files.renew();
    for (proxy, served) in [("127.0.0.1", true), ("192.0.2.7", false)] {
        let network = ipnet::IpNet::from(proxy.parse::<IpAddr>().unwrap());
        let proxies = TrustedProxies::new(&[network]);
        let (address, _server) = start(&front, |socket| Listener::behind(socket, proxies)).await;
        let answer = client(address, trusted.clone()).get(url("http", address, "/healthz")).send();
        assert_eq!(answer.await.is_ok(), served, "{proxy}");
    }
}

/// DNS rebinding: a page that points its own name at this server is not answered.
#[tokio::test]
async fn other_hosts_are_refused() {
    let front = Front::with_web().await;
    let (address, _server) =
        start(&front, |socket| Listener::local(socket, TrustedProxies::default())).await;
    let client = Client::builder().no_proxy().build().unwrap();
    let get = |host: &'static str, path: &str| {
        client.get(format!("http://{address}{path}")).header("host", host).bearer_auth(OWNER).send()
    };
    assert_eq!(get(HOST, "/v1/projects").await.unwrap().status(), 200);
    assert_eq!(get("evil.example.com", "/readyz").await.unwrap().status(), 200);
    let refused = get("evil.example.com", "/v1/projects").await.unwrap();
    assert_eq!(refused.status(), 421);
    let problem: serde_json::Value = refused.json().await.unwrap();
    assert_eq!(problem["code"], "TU1105", "{problem}");
}
