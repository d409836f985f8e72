//! Which services a host can lead to.

use trueup_model::spec::{Port, Probe, Protocol, Spec};

/// How many domains a service may have.
pub const MOST_DOMAINS: i64 = 50;

/// The port that speaks HTTP: the one called so, or the one whose readiness is asked over HTTP.
#[must_use]
pub fn http_port(spec: &Spec) -> Option<&Port> {
    let named = spec.ports.iter().find(|port| port.name == "http");
    let asked = spec.ports.first().filter(|_| matches!(spec.probe, Some(Probe::Http { .. })));
    named.or(asked).filter(|port| port.protocol == Protocol::Tcp)
}
