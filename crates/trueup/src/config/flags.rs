//! The flags and environment variables of the server's configuration.

use std::path::PathBuf;

use trueup_model::secret::SecretValue;

/// Settings of the server; each overrides the same setting in trueup.toml.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Flags {
    /// Configuration file; the default is trueup.toml in the data directory
    #[arg(long, env = "TRUEUP_SERVER_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address of the API, such as 0.0.0.0:443; the default is 127.0.0.1:7410
    #[arg(long, env = "TRUEUP_LISTEN", value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Port of the API on 127.0.0.1
    #[arg(long, env = "TRUEUP_PORT")]
    pub(crate) port: Option<u16>,
    /// URL under which others reach the API
    #[arg(long, env = "TRUEUP_PUBLIC_URL", value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Host name that the API answers to, besides that of the public URL (may be given more than once)
    #[arg(long, env = "TRUEUP_ALLOWED_HOSTS", value_name = "HOST", value_delimiter = ',')]
    pub(crate) allowed_host: Vec<String>,
    /// Proxy in front of the API: an address or a network (may be given more than once)
    #[arg(long, env = "TRUEUP_TRUSTED_PROXIES", value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) trusted_proxy: Vec<String>,
    /// Certificate chain of the API, as PEM
    #[arg(long, env = "TRUEUP_TLS_CERTIFICATE", value_name = "FILE")]
    pub(crate) tls_certificate: Option<String>,
    /// Private key of the certificate, as PEM
    #[arg(long, env = "TRUEUP_TLS_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<String>,
    /// Use this Postgres instead of the embedded one; replicas share it
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) database_url: Option<SecretValue>,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
    /// Nodes of the local cluster: `real`, also a real one if this machine supports it, or `simulated`
    #[arg(long, env = "TRUEUP_NODES", value_name = "NODES")]
    pub(crate) nodes: Option<String>,
    /// Name server for domain verification instead of the system's: ADDRESS or ADDRESS:PORT (may be
    /// given more than once)
    #[arg(long, env = "TRUEUP_DNS_SERVER", value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) dns_server: Vec<String>,
    /// Accept identity providers in private networks, and without TLS on this machine
    #[arg(long, env = "TRUEUP_ALLOW_PRIVATE_PROVIDERS")]
    pub(crate) allow_private_providers: bool,
    /// Start without the demo projects and services
    #[arg(long)]
    pub(crate) no_demo: bool,
}

/// Which cluster to work on.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ClusterFlags {
    /// Use the cluster of this kubeconfig instead of a local one
    #[arg(long = "cluster", value_name = "KUBECONFIG")]
    pub(crate) kubeconfig: Option<String>,
}
