//! The host names that Trueup answers to.
//!
//! A web page can point its own host name at this server and then talk to it as its own origin (DNS
//! rebinding). The `Host` header of such requests names that page's host, so they are refused.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::http::header::HOST;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use trueup_api::Code;

use crate::front::problem::Failure;

/// Names of this machine's loopback interface.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// Probes connect to an address, so these answer to every name. They reveal nothing.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// The allowed host names.
#[derive(Debug, Clone)]
pub struct AllowedHosts(Arc<BTreeSet<String>>);

impl AllowedHosts {
    /// Allows these names and those of the loopback interface. A name has no port.
    #[must_use]
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let all = names.into_iter().chain(LOOPBACK);
        let all = all.map(|name| name.trim_end_matches('.').to_ascii_lowercase());
        Self(Arc::new(all.collect()))
    }

    fn allow(&self, request: &Request) -> bool {
        PROBES.contains(&request.uri().path())
            || host(request).is_some_and(|host| self.0.contains(&host))
    }
}

/// The same router for these hosts only.
pub fn for_hosts(router: Router, hosts: AllowedHosts) -> Router {
    router.layer(middleware::from_fn_with_state(hosts, checked))
}

async fn checked(State(hosts): State<AllowedHosts>, request: Request, next: Next) -> Response {
    if hosts.allow(&request) {
        return next.run(request).await;
    }
    let named = host(&request).unwrap_or_else(|| "none".to_owned());
    let detail = format!(
        "Trueup does not answer to this host ({named}); operators add it to `server.allowed_hosts` \
         or set `server.public_url`"
    );
    Failure::new(Code::HostNotAllowed, detail).into_response()
}

/// The host that a request names, without its port: from the URI in HTTP/2, else from `Host`.
fn host(request: &Request) -> Option<String> {
    let from_header = || request.headers().get(HOST)?.to_str().ok()?.parse::<Uri>().ok();
    let host = match request.uri().host() {
        Some(host) => host.to_owned(),
        None => from_header()?.host()?.to_owned(),
    };
    Some(host.trim_end_matches('.').to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn allows(uri: &str, host: Option<&str>) -> bool {
        let mut request = Request::get(uri);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        let request = request.body(Body::empty()).unwrap();
        AllowedHosts::new(["Trueup.example.com"]).allow(&request)
    }

    #[test]
    fn only_allowed_hosts_are_answered() {
        for host in [
            "trueup.example.com",
            "TRUEUP.example.com:443",
            "trueup.example.com.",
            "localhost:7410",
            "127.0.0.1",
            "[::1]:7410",
        ] {
            assert!(allows("/v1/projects", Some(host)), "{host}");
        }
        for host in ["evil.example.com", "example.com", "trueup.example.com.evil.org", "", "a b"] {
            assert!(!allows("/v1/projects", Some(host)), "{host}");
        }
        assert!(!allows("/v1/projects", None), "HTTP/1.1 requires a host");
    }

    #[test]
    fn http2_names_the_host_in_the_uri() {
        assert!(allows("https://trueup.example.com/v1/projects", None));
        assert!(!allows("https://evil.example.com/v1/projects", Some("trueup.example.com")));
    }

    #[test]
    fn probes_answer_to_every_name() {
        assert!(allows("/healthz", Some("10.0.0.7:7410")) && allows("/readyz", None));
    }
}
