//! The sockets of the API.
//!
//! By default there is one, on loopback. When others may connect, the configured address is served
//! with TLS or for a proxy, and commands on this machine use a second, private socket on loopback.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use trueup_http::Router;
use trueup_http::{AllowedHosts, Listener, TrustedProxies, for_hosts, serve};
use trueup_model::Clock;

use super::files::Capacity;
use crate::config::Config;
use trueup_cli::failure::{Exit, Failure};

/// Sockets that accept connections; nothing answers yet.
#[derive(Debug)]
pub(super) struct Listeners {
    /// For this machine.
    local: TcpListener,
    /// For others.
    public: Option<TcpListener>,
}

impl Listeners {
    /// Binds the configured address and, if others may connect, a private one.
    pub(super) async fn bind(config: &Config) -> anyhow::Result<Self> {
        let configured = TcpListener::bind(config.listen).await.map_err(|error| {
            let (address, port) = (config.listen, config.listen.port());
            let failure = match error.kind() {
                io::ErrorKind::AddrInUse => format!("port {port} is taken"),
                _ => format!("cannot listen on {address}: {error}"),
            };
            Failure::new(Exit::Failed, failure)
                .hint("choose another with --port or --listen, or stop what uses it")
        })?;
        if config.is_local() {
            return Ok(Self { local: configured, public: None });
        }
        let local = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        Ok(Self { local, public: Some(configured) })
    }

    /// The URL for commands on this machine.
    pub(super) fn local_url(&self) -> io::Result<String> {
        Ok(format!("http://{}", self.local.local_addr()?))
    }

    /// Serves all sockets until `stop`.
    pub(super) async fn serve(
        self,
        router: Router,
        capacity: &Capacity,
        config: &Config,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
    ) -> io::Result<()> {
        let hosts = config.hosts();
        let router = for_hosts(router, AllowedHosts::new(hosts.iter().map(String::as_str)));
        let (limits, proxies) = (capacity.limits(), TrustedProxies::new(&config.trusted_proxies));
        let Some(socket) = self.public else {
            return serve(Listener::local(self.local, proxies), router, limits, stop).await;
        };
        let local = Listener::local(self.local, TrustedProxies::default());
        let local = serve(local, router.clone(), limits, stop.clone());
        let public = match &config.tls {
            Some(certificate) => Listener::tls(socket, certificate.clone(), proxies),
            None => Listener::behind(socket, proxies),
        };
        let reloading = async {
            match &config.tls {
                Some(certificate) => certificate.reload_on_change(&*clock).await,
                None => std::future::pending().await,
            }
        };
        let both = async { tokio::try_join!(local, serve(public, router, limits, stop)) };
        tokio::select! {
            served = both => served.map(|_| ()),
            () = reloading => Ok(()),
        }
    }
}
