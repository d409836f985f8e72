//! One function per kind of value: the value, or what would be valid.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use trueup_cli::output::human::duration;
use trueup_model::money::{Currency, ParseCurrencyError};
use trueup_model::usage::GapPolicy;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Where the API listens by default.
pub(super) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7410);
/// The default port of a name server.
const DNS_PORT: u16 = 53;

/// The nodes of the local cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nodes {
    /// Simulated ones, and a real one if this machine supports it.
    Real,
    /// Simulated ones only.
    Simulated,
}

pub(super) fn nodes(text: &str) -> Result<Nodes, String> {
    match text {
        "real" => Ok(Nodes::Real),
        "simulated" => Ok(Nodes::Simulated),
        _ => Err("must be `real` or `simulated`".to_owned()),
    }
}

pub(super) fn boolean(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "must be true or false".to_owned())
}

pub(super) fn currency(text: &str) -> Result<Currency, String> {
    text.parse().map_err(|error: ParseCurrencyError| error.to_string())
}

pub(super) fn gap_policy(text: &str) -> Result<GapPolicy, String> {
    text.parse().map_err(|_| "must be `free`, `last_known` or `estimate`".to_owned())
}

/// How often something is done: from a minute to a day.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let parsed = duration(text).ok();
    let is_right = |time: &Duration| (MINUTE..=DAY).contains(time);
    parsed.filter(is_right).ok_or_else(|| "must be from 1m to 24h, such as 1h".to_owned())
}

/// A text as printed on invoices.
pub(super) fn text(text: &str) -> Result<String, String> {
    let is_printable = !text.chars().any(|one| one.is_control() && one != '\n');
    let is_short = text.chars().count() <= 500;
    if is_printable && is_short {
        Ok(text.to_owned())
    } else {
        Err("must be at most 500 printable characters".to_owned())
    }
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "must be an address with a port, like 127.0.0.1:7410, 0.0.0.0:443 or [::]:443".to_owned()
    })
}

/// The address of a name server.
pub(super) fn name_server(text: &str) -> Result<SocketAddr, String> {
    let bare = || text.parse::<IpAddr>().map(|address| SocketAddr::from((address, DNS_PORT)));
    text.parse().or_else(|_| bare()).map_err(|_| {
        format!(
            "`{text}` is not an address; write it like 192.0.2.53, 127.0.0.1:5353 or [2001:db8::53]:53"
        )
    })
}

pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let bare = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| bare()).map_err(|_| {
        format!("`{text}` is not an address or a network; write it like 10.0.0.7 or 10.0.0.0/8")
    })
}

pub(super) fn host(text: &str) -> Result<String, String> {
    let uri = format!("http://{text}/").parse::<http::Uri>();
    let is_host = uri.is_ok_and(|uri| uri.host() == Some(text));
    if is_host {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is not a host name without a port"))
    }
}

/// A URL of the API: scheme, host and port, without a path.
pub(super) fn url(text: &str) -> Result<String, String> {
    let wrong = || "must be like https://trueup.example.com, without a path".to_owned();
    let uri: http::Uri = text.parse().map_err(|_| wrong())?;
    let is_url = matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.host().is_some_and(|host| !host.is_empty())
        && !uri.authority().is_some_and(|authority| authority.as_str().contains('@'))
        && matches!(uri.path(), "" | "/")
        && uri.query().is_none();
    if is_url { Ok(text.trim_end_matches('/').to_owned()) } else { Err(wrong()) }
}

/// The host of a URL that was parsed before.
pub(super) fn host_of(url: &str) -> Option<String> {
    let uri: http::Uri = url.parse().ok()?;
    uri.host().map(str::to_owned)
}

pub(super) fn file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_file() { Ok(path) } else { Err(format!("there is no file {text}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_server_port_defaults_to_53() {
        for (text, server) in [
            ("192.0.2.53", "192.0.2.53:53"),
            ("127.0.0.1:5353", "127.0.0.1:5353"),
            ("2001:db8::53", "[2001:db8::53]:53"),
            ("[::1]:5353", "[::1]:5353"),
        ] {
            assert_eq!(name_server(text), Ok(server.parse().unwrap()));
        }
        for text in ["", "dns.example.org", "192.0.2.53:", "192.0.2.53:99999", "1.2.3"] {
            assert!(name_server(text).unwrap_err().contains("192.0.2.53"), "{text}");
        }
    }

    #[test]
    fn public_url_has_no_path_and_no_password() {
        assert_eq!(url("https://trueup.example.com/"), Ok("https://trueup.example.com".to_owned()));
        assert_eq!(url("http://10.0.0.7:7410"), Ok("http://10.0.0.7:7410".to_owned()));
        for text in ["", "trueup", "ftp://a", "https://a/b", "https://a?b", "https://u:p@a"] {
            assert!(url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hosts_and_networks_are_checked() {
        assert!(host("trueup.example.com").is_ok() && host("[::1]").is_ok());
        for text in ["", "a b", "a:80", "a/b", "https://a"] {
            assert!(host(text).is_err(), "{text}");
        }
        assert_eq!(network("10.0.0.7"), Ok("10.0.0.7/32".parse().unwrap()));
        assert!(network("10.0.0.0/8").is_ok() && network("10.0.0.0/99").is_err());
    }
}
