//! The real DNS client, with the system's name servers or those the operator configured.

use std::net::SocketAddr;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData};

use super::{Indeterminate, Names};

/// The timeout of one query to one server; the caller has a timeout of its own.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A DNS client without a cache: every query goes to a server.
pub struct Dns {
    resolver: Option<TokioResolver>,
}

impl std::fmt::Debug for Dns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.resolver.is_some() { "Dns" } else { "Dns(no server)" })
    }
}

impl Dns {
    /// A client of these servers.
    #[must_use]
    pub fn servers(addresses: &[SocketAddr]) -> Self {
        let servers = addresses.iter().map(|address| {
            let mut connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            connections.iter_mut().for_each(|connection| connection.port = address.port());
            NameServerConfig::new(address.ip(), true, connections.into())
        });
        let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
        Self::new(config, ResolverOpts::default())
    }

    /// A client of the system's name servers. Without any, every answer is indeterminate.
    #[must_use]
    pub fn system() -> Self {
        match hickory_resolver::system_conf::read_system_conf() {
            Ok((config, options)) => Self::new(config, options),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "this machine has no name servers, so domains cannot be verified by DNS; start \
                     with --dns-server ADDRESS, or use `trueup domain verify`"
                );
                Self { resolver: None }
            }
        }
    }

    fn new(config: ResolverConfig, mut options: ResolverOpts) -> Self {
        options.timeout = TIMEOUT;
        options.attempts = 2;
        options.edns0 = true;
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Never;
        let runtime = TokioRuntimeProvider::default();
        let built =
            TokioResolver::builder_with_config(config, runtime).with_options(options).build();
        match built {
            Ok(resolver) => Self { resolver: Some(resolver) },
            Err(error) => {
                tracing::error!(%error, "cannot create the DNS client; domains cannot be verified");
                Self { resolver: None }
            }
        }
    }
}

impl Names for Dns {
    fn texts<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<String>, Indeterminate>> {
        async move {
            let resolver = self.resolver.as_ref().ok_or(Indeterminate::NoServer)?;
            // The trailing dot prevents the use of this machine's search list.
            let name = Name::from_ascii(format!("{name}.")).map_err(|_| Indeterminate::TooLong)?;
            match resolver.txt_lookup(name).await {
                Ok(found) => Ok(found.answers().iter().filter_map(|it| text(&it.data)).collect()),
                Err(error) => judge(&error),
            }
        }
        .boxed()
    }
}

/// The joined strings of a TXT record; none for any other record.
fn text(data: &RData) -> Option<String> {
    match data {
        RData::TXT(record) => Some(String::from_utf8_lossy(&record.txt_data.concat()).into_owned()),
        _ => None,
    }
}

/// Whether an error means that there are no records, or that the answer is indeterminate.
fn judge(error: &NetError) -> Result<Vec<String>, Indeterminate> {
    let code = match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => none.response_code,
        NetError::Dns(DnsError::ResponseCode(code)) => *code,
        NetError::Timeout => return Err(Indeterminate::Silent),
        other => {
            tracing::debug!(error = %other, "DNS query failed");
            return Err(Indeterminate::Unread);
        }
    };
    match code {
        ResponseCode::NoError | ResponseCode::NXDomain => Ok(Vec::new()),
        ResponseCode::ServFail => Err(Indeterminate::Failed),
        ResponseCode::Refused => Err(Indeterminate::Refused),
        _ => Err(Indeterminate::Unread),
    }
}
