//! A real identity provider: the npm package `oidc-provider`, run by Node from the packages of the dashboard.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Url};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::left_out::left_out;

/// The most redirects that a browser follows at the provider.
const REDIRECTS: usize = 20;
/// Longer than the provider takes to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A provider, stopped when it is dropped.
#[derive(Debug)]
pub struct RealOidc {
    /// Its issuer.
    pub issuer: String,
    child: Child,
    /// Closed with this process, however it ends: the provider exits then.
    _stdin: Option<ChildStdin>,
    http: Client,
}

impl Drop for RealOidc {
    fn drop(&mut self) {
        // It is gone already if this fails.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// What a browser brings back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// The address that it was sent to, without parameters.
    pub address: String,
    /// The parameters.
    pub parameters: BTreeMap<String, String>,
}

impl Returned {
    /// A parameter.
    ///
    /// # Panics
    /// The provider did not send it.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.parameters.get(name).expect("the provider should send this parameter")
    }
}

impl RealOidc {
    /// A provider whose clock shows this time, and that sends browsers back to this address; none, with a report,
    /// if its package is not installed.
    pub async fn start(redirect_uri: &str, now: Timestamp) -> Option<Self> {
        let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
        if !web.join("node_modules/oidc-provider").exists() {
            left_out("an identity provider: oidc-provider is not installed; run `npm ci` in web");
            return None;
        }
        let options = json!({"redirect_uri": redirect_uri, "now": now.as_second()}).to_string();
        let mut child = Command::new(node(&web))
            .arg("tests/identity-provider/server.mjs")
            .arg(options)
            .current_dir(&web)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Node should start");
        let stdout = child.stdout.take().expect("stdout should be a pipe");
        let first = spawn_blocking(move || {
            let mut line = String::new();
            let read = std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line);
            read.map(|_| line.trim().to_owned())
        });
        let issuer = tokio::time::timeout(PATIENCE, first).await.expect("it should start in time");
        let issuer = issuer.expect("the reader should end").expect("its output should be read");
        assert!(issuer.starts_with("http://127.0.0.1:"), "the provider did not start: {issuer}");
        // An error means that a provider of cryptography is already installed; without one reqwest panics.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let http = Client::builder().redirect(Policy::none()).no_proxy().build();
        let stdin = child.stdin.take();
        Some(Self { issuer, child, _stdin: stdin, http: http.expect("a client should be built") })
    }

    /// Sets what it says about a person, by its own name for them.
    pub async fn person(&self, subject: &str, claims: &Value) {
        self.change(Method::PUT, &format!("people/{subject}"), claims).await;
    }

    /// Forgets a person.
    pub async fn forget(&self, subject: &str) {
        self.change(Method::DELETE, &format!("people/{subject}"), &json!({})).await;
    }

    /// Signs with another key from now on; the old one is not published any more.
    pub async fn rotate_keys(&self) {
        self.change(Method::PUT, "keys", &json!({})).await;
    }

    /// Sets its clock.
    pub async fn set_clock(&self, now: Timestamp) {
        self.change(Method::PUT, "clock", &json!({"now": now.as_second()})).await;
    }

    /// Lets it answer nothing, or answer again.
    pub async fn set_silent(&self, silent: bool) {
        self.change(Method::PUT, "silent", &json!({"silent": silent})).await;
    }

    async fn change(&self, method: Method, path: &str, body: &Value) {
        let url = format!("{}/_test/{path}", self.issuer);
        let sent = self.http.request(method, url).body(body.to_string()).send().await;
        let status = sent.expect("the provider should take changes").status();
        assert!(status.is_success(), "{path}: {status}");
    }

    /// Goes where Trueup sends a browser, and follows the provider until it sends the browser back.
    ///
    /// # Errors
    /// The provider shows an error page instead.
    pub async fn visit(&self, url: &str) -> Result<Returned, String> {
        let mut cookies: BTreeMap<String, String> = BTreeMap::new();
        let mut at: Url = url.parse().expect("Trueup should send browsers to a URL");
        for _ in 0..REDIRECTS {
            if !at.as_str().starts_with(&self.issuer) {
                let parameters = at.query_pairs().into_owned().collect();
                at.set_query(None);
                return Ok(Returned { address: at.to_string(), parameters });
            }
            let sent: Vec<String> =
                cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let request = self.http.get(at.clone()).header(COOKIE, sent.join("; "));
            let answer = request.send().await.map_err(|error| error.to_string())?;
            for cookie in answer.headers().get_all(SET_COOKIE) {
                let text = cookie.to_str().unwrap_or_default();
                let pair = text.split(';').next().and_then(|pair| pair.split_once('='));
                if let Some((name, value)) = pair {
                    cookies.insert(name.to_owned(), value.to_owned());
                }
            }
            let Some(next) = answer.headers().get(LOCATION) else {
                let status = answer.status();
                return Err(format!("{status}: {}", answer.text().await.unwrap_or_default()));
            };
            let next = next.to_str().map_err(|error| error.to_string())?;
            at = at.join(next).map_err(|error| error.to_string())?;
        }
        Err("the provider redirects for ever".to_owned())
    }
}

/// The pinned Node of the dashboard's packages, or that of this machine.
fn node(web: &Path) -> PathBuf {
    let pinned = web.join("node_modules/.bin/node");
    if pinned.exists() { pinned } else { PathBuf::from("node") }
}
