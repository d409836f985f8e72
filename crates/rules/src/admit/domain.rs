//! Domains: which services can serve HTTP for a host, and the schedule and result of DNS checks.

use jiff::{SignedDuration, Timestamp};
use trueup_model::domain::{DnsCheck, DnsResult, Domain};
use trueup_model::id::DomainId;
use trueup_model::spec::{Port, Probe, Protocol, Spec};

/// How many domains a service may have.
pub const MOST_DOMAINS: i64 = 50;

/// The HTTP port: the one named `http`, or the first one if the readiness probe uses HTTP.
#[must_use]
pub fn http_port(spec: &Spec) -> Option<&Port> {
    let named = spec.ports.iter().find(|port| port.name == "http");
    let probed = spec.ports.first().filter(|_| matches!(spec.probe, Some(Probe::Http { .. })));
    named.or(probed).filter(|port| port.protocol == Protocol::Tcp)
}

/// Pause after a request and after the first DNS check; it doubles with each further check.
const SOONEST: SignedDuration = SignedDuration::from_secs(10);
/// The longest pause between two checks.
const LATEST: SignedDuration = SignedDuration::from_hours(1);
/// How long checks go on after the last request.
const PATIENCE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// When the next DNS check is due after so many checks since the last request.
///
/// `None` after a week without success: the domain seems to be abandoned.
#[must_use]
pub fn next_dns_check(requested_at: Timestamp, checks: u32, now: Timestamp) -> Option<Timestamp> {
    // 16 doublings exceed the longest pause by far.
    let doubled = checks.saturating_sub(1).min(16);
    let pause = SOONEST.checked_mul(1 << doubled).map_or(LATEST, |pause| pause.min(LATEST));
    let end = requested_at.checked_add(PATIENCE).ok()?;
    now.checked_add(pause).ok().filter(|at| *at <= end)
}

/// When a requested check may run: now, but not within 10 s of the last one.
#[must_use]
pub fn requested_dns_check(tried_at: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let rested = tried_at.and_then(|at| at.checked_add(SOONEST).ok());
    rested.map_or(now, |rested| rested.max(now))
}

/// Compares TXT records with the text a domain needs. `None` means verified; otherwise, what was
/// found instead.
#[must_use]
pub fn judge(texts: &[String], domain: DomainId) -> Option<(DnsResult, String)> {
    let own = domain.to_string();
    if texts.contains(&own) {
        return None;
    }
    Some(match texts.len() {
        0 => (DnsResult::Nothing, "no TXT record yet".to_owned()),
        1 => (DnsResult::OtherTexts, format!("one TXT record, but not with the text {own}")),
        more => (DnsResult::OtherTexts, format!("{more} TXT records, none with the text {own}")),
    })
}

/// Why a domain is not verified yet, in one sentence; `None` once it is.
#[must_use]
pub fn unverified_reason(domain: &Domain) -> Option<String> {
    if domain.verified_at.is_some() {
        return None;
    }
    let name = domain.host.challenge();
    let search = &domain.search;
    Some(match (&search.last, search.withdrawn_at) {
        (_, Some(_)) => {
            "an operator revoked the verification, and this text is no longer valid; remove the \
             domain and add it again to get a new text"
                .to_owned()
        }
        (None, None) => format!("no DNS check of {name} yet"),
        (Some(DnsCheck { result: DnsResult::Nothing | DnsResult::OtherTexts, why, .. }), None) => {
            format!("{why} at {name}")
        }
        (Some(DnsCheck { result: DnsResult::Indeterminate, why, .. }), None) => {
            format!("the DNS check of {name} was inconclusive: {why}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn dns_checks_back_off_and_end_after_a_week() {
        let requested = at(0);
        let pauses: Vec<i64> = (0..=11)
            .map(|checks| next_dns_check(requested, checks, at(0)).unwrap().as_second())
            .collect();
        assert_eq!(pauses, [10, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
        let week = 7 * 24 * 3600;
        assert_eq!(next_dns_check(requested, u32::MAX, at(week - 3600)), Some(at(week)));
        assert_eq!(next_dns_check(requested, 99, at(week - 3599)), None);
        assert_eq!(next_dns_check(at(week), 1, at(week)), Some(at(week + 10)), "requested again");
        assert_eq!(next_dns_check(Timestamp::MAX, 1, Timestamp::MAX), None);
    }

    #[test]
    fn repeated_requests_check_dns_at_most_every_ten_seconds() {
        assert_eq!(requested_dns_check(None, at(5)), at(5));
        assert_eq!(requested_dns_check(Some(at(4)), at(5)), at(14));
        assert_eq!(requested_dns_check(Some(at(4)), at(60)), at(60));
    }

    #[test]
    fn only_the_exact_text_verifies_a_domain() {
        let id = DomainId::from_parts(Timestamp::UNIX_EPOCH, [1; 10]);
        let own = id.to_string();
        let texts = |all: &[&str]| all.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        assert_eq!(judge(&texts(&[&own]), id), None);
        assert_eq!(judge(&texts(&["v=spf1 -all", &own, ""]), id), None);
        let saw = |all: &[&str]| judge(&texts(all), id).map(|(saw, _)| saw);
        assert_eq!(saw(&[]), Some(DnsResult::Nothing));
        let (longer, upper) = (format!("{own} "), own.to_uppercase());
        for other in ["", "dom_", &own[1..], &longer, &upper] {
            assert_eq!(saw(&[other]), Some(DnsResult::OtherTexts), "{other:?}");
        }
    }
}
