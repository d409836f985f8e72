//! The server's configuration: one TOML file, with environment variables and flags over it.
//!
//! Everything is parsed once, at startup. All faults are collected, so that `trueup config check`
//! names every wrong key and value at once, and `trueup up` refuses to start with any of them.

mod flags;
mod parse;
mod reader;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use serde::Serialize;
use trueup_cli::failure::{Exit, Failure};
use trueup_http::Certificate;
use trueup_local::kube;
use trueup_model::billing::{BillingSettings, Seller};
use trueup_model::secret::SecretValue;

pub(crate) use flags::Flags;
pub(crate) use parse::Nodes;
pub(crate) use reader::{Fault, Shown};

use reader::Reader;

/// The name of the file in the data directory.
pub(crate) const FILE: &str = "trueup.toml";

/// The configuration of the serving process.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Where the API listens.
    pub(crate) listen: SocketAddr,
    /// The URL under which others reach the API.
    pub(crate) public_url: Option<String>,
    /// Further host names that the API answers to.
    pub(crate) allowed_hosts: Vec<String>,
    /// The networks of trusted proxies.
    pub(crate) trusted_proxies: Vec<IpNet>,
    /// The certificate of the API.
    pub(crate) tls: Option<Certificate>,
    /// An external Postgres instead of the embedded one; replicas may share it.
    pub(crate) database: Option<SecretValue>,
    /// The cluster to work on instead of a local one.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The nodes of the local cluster.
    pub(crate) nodes: Nodes,
    /// Name servers for domain verification; empty means the system's.
    pub(crate) name_servers: Vec<SocketAddr>,
    /// Whether identity providers may be in private networks, and without TLS on this machine.
    pub(crate) allow_private_providers: bool,
    /// Whether to declare the demo data.
    pub(crate) demo: bool,
    /// How usage is billed.
    pub(crate) billing: BillingSettings,
}

impl Config {
    /// Whether the API is only reachable on this machine, without TLS.
    pub(crate) fn is_local(&self) -> bool {
        self.listen.ip().is_loopback() && self.tls.is_none()
    }

    /// The URL for other machines, if they may connect.
    pub(crate) fn public_address(&self) -> Option<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let listened = (!self.is_local()).then(|| format!("{scheme}://{}", self.listen));
        self.public_url.clone().or(listened)
    }

    /// Whether the local cluster is expected to have a real node.
    pub(crate) fn expects_real_node(&self) -> bool {
        self.kubeconfig.is_none() && self.nodes == Nodes::Real && kube::node::missing().is_none()
    }

    /// The host names that the API answers to, besides those of the loopback interface.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let public = self.public_url.as_deref().and_then(parse::host_of);
        let address = self.listen.ip();
        let own = match address {
            std::net::IpAddr::V4(address) => address.to_string(),
            std::net::IpAddr::V6(address) => format!("[{address}]"),
        };
        let own = (!address.is_unspecified()).then_some(own);
        self.allowed_hosts.iter().cloned().chain(public).chain(own).collect()
    }
}

/// A configuration, and how each setting came about.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The configuration; absent if anything is wrong.
    pub(crate) config: Option<Config>,
    /// Every setting with its value and where it comes from.
    pub(crate) settings: Vec<Shown>,
    /// Everything that is wrong.
    pub(crate) faults: Vec<Fault>,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
}

impl Loaded {
    /// The configuration, or a failure that lists every fault.
    pub(crate) fn valid(self) -> Result<Config, Failure> {
        self.config.ok_or_else(|| {
            let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
            Failure::new(
                Exit::Failed,
                format!("the configuration is invalid:\n  {}", faults.join("\n  ")),
            )
            .hint("`trueup config check` shows every setting and where it comes from")
        })
    }
}

/// Loads the configuration: flags and environment first, then the file, then the defaults.
pub(crate) fn load(flags: &Flags, data_dir: &Path) -> Loaded {
    let file = flags.config.clone().or_else(|| Some(data_dir.join(FILE)).filter(|it| it.exists()));
    let mut reader = Reader::of_file(file.as_deref());
    let listen = listen(&mut reader, flags);
    let public_url = reader.one("server.public_url", flags.public_url.as_deref(), parse::url);
    let allowed_hosts = reader.many("server.allowed_hosts", &flags.allowed_host, parse::host);
    let trusted_proxies =
        reader.many("server.trusted_proxies", &flags.trusted_proxy, parse::network);
    let tls = tls(&mut reader, flags);
    let database = reader.secret("database.url", flags.database_url.as_ref());
    let kubeconfig =
        reader.one("cluster.kubeconfig", flags.cluster.kubeconfig.as_deref(), parse::file);
    let nodes = reader.one("cluster.nodes", flags.nodes.as_deref(), parse::nodes);
    let name_servers = reader.many("dns.servers", &flags.dns_server, parse::name_server);
    let private = flags.allow_private_providers.then_some("true");
    let allow_private_providers = reader.one("providers.allow_private", private, parse::boolean);
    let demo = reader.one("demo.enabled", flags.no_demo.then_some("false"), parse::boolean);
    let config = Config {
        listen,
        public_url,
        allowed_hosts,
        trusted_proxies,
        tls,
        database,
        kubeconfig,
        nodes: nodes.unwrap_or(Nodes::Real),
        name_servers,
        allow_private_providers: allow_private_providers.unwrap_or(false),
        demo: demo.unwrap_or(true),
        billing: billing(&mut reader),
    };
    check_listen(&mut reader, &config);
    check_hosts(&mut reader, &config);
    check_mode(&mut reader, file.as_deref());
    let (settings, faults) = reader.finish();
    Loaded { config: faults.is_empty().then_some(config), settings, faults, file }
}

fn billing(reader: &mut Reader) -> BillingSettings {
    let defaults = BillingSettings::default();
    let currency = reader.one("billing.currency", None, parse::currency);
    let charge_simulated = reader.one("billing.charge_simulated", None, parse::boolean);
    let gap_policy = reader.one("billing.gap_policy", None, parse::gap_policy);
    let accrue_every = reader.one("billing.accrue_every", None, parse::interval);
    let invoice_after = reader.one("billing.invoice_after", None, parse::interval);
    let name = reader.one("billing.seller_name", None, parse::text);
    let address = reader.one("billing.seller_address", None, parse::text);
    let tax_id = reader.one("billing.seller_tax_id", None, parse::text);
    BillingSettings {
        currency: currency.unwrap_or(defaults.currency),
        charge_simulated: charge_simulated.unwrap_or(defaults.charge_simulated),
        gap_policy: gap_policy.unwrap_or(defaults.gap_policy),
        accrue_every: accrue_every.unwrap_or(defaults.accrue_every),
        invoice_after: invoice_after.unwrap_or(defaults.invoice_after),
        seller: Seller {
            name: name.unwrap_or_default(),
            address: address.unwrap_or_default(),
            tax_id: tax_id.unwrap_or_default(),
        },
    }
}

fn listen(reader: &mut Reader, flags: &Flags) -> SocketAddr {
    let from_port = flags.port.map(|port| format!("127.0.0.1:{port}"));
    let given = flags.listen.as_deref().or(from_port.as_deref());
    reader.one("server.listen", given, parse::address).unwrap_or(parse::DEFAULT_LISTEN)
}

fn tls(reader: &mut Reader, flags: &Flags) -> Option<Certificate> {
    let certificate =
        reader.one("server.tls.certificate", flags.tls_certificate.as_deref(), parse::file);
    let key = reader.one("server.tls.key", flags.tls_key.as_deref(), parse::file);
    match (certificate, key) {
        (Some(certificate), Some(key)) => match Certificate::read(&certificate, &key) {
            Ok(read) => return Some(read),
            Err(error) => reader.fault("server.tls", error.to_string()),
        },
        (Some(_), None) => reader.require("server.tls.key", "a certificate needs its key"),
        (None, Some(_)) => reader.require("server.tls.certificate", "a key needs its certificate"),
        (None, None) => {}
    }
    None
}

/// Tokens would cross the network in clear text.
fn check_listen(reader: &mut Reader, config: &Config) {
    let is_plain = config.tls.is_none() && !reader.mentions("server.tls");
    if is_plain && !config.listen.ip().is_loopback() && config.trusted_proxies.is_empty() {
        let message = "others can reach this address, and without TLS tokens would cross the \
                       network in clear text; set server.tls.certificate and server.tls.key, or \
                       name the proxy that terminates TLS in server.trusted_proxies";
        reader.fault("server.listen", message.to_owned());
    }
}

/// Requests must name a host that Trueup knows, and an unspecified address has none.
fn check_hosts(reader: &mut Reader, config: &Config) {
    if config.listen.ip().is_unspecified() && config.public_url.is_none() {
        let message = "is required with an address that stands for all of this machine's: requests \
                       must name a host that Trueup knows";
        reader.require("server.public_url", message);
    }
}

/// A password in a file that others can read is no secret.
fn check_mode(reader: &mut Reader, file: Option<&Path>) {
    let Some(file) = file.filter(|_| reader.file_has("database.url")) else { return };
    let mode = fs::metadata(file).map_or(0, |found| found.permissions().mode());
    if mode & 0o077 != 0 {
        let message = format!(
            "other accounts of this machine can read {}; run `chmod 600` on it",
            file.display()
        );
        reader.fault("database.url", message);
    }
}

/// The result of a check as programs read it.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    /// The file that was read.
    pub(crate) file: Option<&'a Path>,
    /// Whether Trueup would start with it.
    pub(crate) valid: bool,
    /// Every setting.
    pub(crate) settings: &'a [Shown],
    /// Everything that is wrong.
    pub(crate) faults: &'a [Fault],
}

impl Loaded {
    /// The result as programs read it.
    pub(crate) fn report(&self) -> Report<'_> {
        Report {
            file: self.file.as_deref(),
            valid: self.config.is_some(),
            settings: &self.settings,
            faults: &self.faults,
        }
    }
}

#[cfg(test)]
mod tests;
