//! Proxies in front of Trueup: which addresses are trusted, and the client behind them.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use ipnet::IpNet;

/// The header in which proxies list the addresses that a request came through.
const FORWARDED: &str = "x-forwarded-for";

/// The header in which a proxy names the protocol of the client's connection.
const FORWARDED_PROTOCOL: &str = "x-forwarded-proto";

/// The address of the client of a request, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

/// Whether the client's connection is encrypted: to us, or to a trusted proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encrypted(pub(crate) bool);

/// The networks of trusted proxies.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    /// Trusts these networks.
    #[must_use]
    pub fn new(networks: &[IpNet]) -> Self {
        Self(networks.into())
    }

    pub(super) fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Whether a trusted proxy says that the client's connection to it is encrypted.
    pub(super) fn is_encrypted(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        self.contain(peer) && headers.get(FORWARDED_PROTOCOL).is_some_and(|said| said == "https")
    }

    /// The client's address: the last one in `X-Forwarded-For` that is not a trusted proxy. Anyone
    /// can send that header, so it only counts if a trusted proxy sent it.
    pub(super) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.contain(peer) {
            return peer;
        }
        let listed: Vec<&str> = headers
            .get_all(FORWARDED)
            .iter()
            // A value that is not a text stands for something that cannot be parsed.
            .flat_map(|value| value.to_str().unwrap_or_default().split(','))
            .collect();
        let mut client = peer;
        for text in listed.iter().rev() {
            // What stands before an address that cannot be parsed was not written by our proxies.
            let Ok(address) = text.trim().parse::<IpAddr>() else { break };
            client = address.to_canonical();
            if !self.contain(client) {
                break;
            }
        }
        client
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn client(peer: &str, forwarded: &[&str]) -> String {
        let forwarded: Vec<&[u8]> = forwarded.iter().map(|value| value.as_bytes()).collect();
        client_of(peer, &forwarded)
    }

    fn client_of(peer: &str, forwarded: &[&[u8]]) -> String {
        let trusted = ["10.0.0.0/8", "2001:db8::/32"].map(|network| network.parse().unwrap());
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED, HeaderValue::from_bytes(value).unwrap());
        }
        TrustedProxies::new(&trusted).client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn only_trusted_proxies_may_name_the_client() {
        for (peer, forwarded, wanted) in [
            ("192.0.2.1", &[][..], "192.0.2.1"),
            ("192.0.2.1", &["198.51.100.7"], "192.0.2.1"),
            ("10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("::ffff:10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["203.0.113.5, 198.51.100.7, 10.0.0.2"], "198.51.100.7"),
            ("10.0.0.1", &["203.0.113.5", "198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["198.51.100.7, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("2001:db8::1", &["198.51.100.7"], "198.51.100.7"),
        ] {
            assert_eq!(client(peer, forwarded), wanted, "{peer} {forwarded:?}");
        }
    }

    #[test]
    fn only_trusted_proxies_may_say_that_a_connection_is_encrypted() {
        let proxies = TrustedProxies::new(&["10.0.0.0/8".parse().unwrap()]);
        let mut headers = HeaderMap::new();
        assert!(!proxies.is_encrypted("10.0.0.1".parse().unwrap(), &headers));
        headers.insert(FORWARDED_PROTOCOL, HeaderValue::from_static("https"));
        assert!(proxies.is_encrypted("10.0.0.1".parse().unwrap(), &headers));
        assert!(!proxies.is_encrypted("192.0.2.1".parse().unwrap(), &headers));
    }

    #[test]
    fn value_that_is_not_a_text_hides_nothing_behind_it() {
        let forwarded: [&[u8]; 2] = [b"203.0.113.5", b"\xff, 198.51.100.7"];
        assert_eq!(client_of("10.0.0.1", &forwarded), "10.0.0.1");
    }
}
