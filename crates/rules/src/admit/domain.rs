//! Which services a host can lead to, and when and how DNS proves whose it is.

use jiff::{SignedDuration, Timestamp};
use trueup_model::domain::{DnsCheck, DnsResult, Domain};
use trueup_model::id::DomainId;
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

/// How long after an ask, and after the first look, DNS is asked again; from then on it is twice as long
/// each time.
const SOONEST: SignedDuration = SignedDuration::from_secs(10);
/// The longest that two looks are apart.
const LATEST: SignedDuration = SignedDuration::from_hours(1);
/// How long is looked after the last ask.
const PATIENCE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// When DNS is asked again after so many looks since somebody asked; nothing once it was in vain for so long
/// that nobody seems to wait for it any more.
#[must_use]
pub fn next_dns_check(asked_at: Timestamp, looks: u32, now: Timestamp) -> Option<Timestamp> {
    // The doubling ends long after the longest pause is reached.
    let doubled = looks.saturating_sub(1).min(16);
    let pause = SOONEST.checked_mul(1 << doubled).map_or(LATEST, |pause| pause.min(LATEST));
    let end = asked_at.checked_add(PATIENCE).ok()?;
    now.checked_add(pause).ok().filter(|at| *at <= end)
}

/// When a look that somebody asks for may be: now, but not right after another one.
#[must_use]
pub fn requested_dns_check(tried_at: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let rested = tried_at.and_then(|at| at.checked_add(SOONEST).ok());
    rested.map_or(now, |rested| rested.max(now))
}

/// What the texts that DNS has prove for a domain: nothing is left to say if one of them is its own,
/// and else what was seen instead.
#[must_use]
pub fn judge(texts: &[String], domain: DomainId) -> Option<(DnsResult, String)> {
    let own = domain.to_string();
    if texts.contains(&own) {
        return None;
    }
    Some(match texts.len() {
        0 => (DnsResult::Nothing, "no TXT record yet".to_owned()),
        1 => (DnsResult::OtherTexts, format!("one TXT record, with another text than {own}")),
        more => (DnsResult::OtherTexts, format!("{more} TXT records, none with the text {own}")),
    })
}

/// Why a host is not proved yet, in one sentence; nothing once it is.
#[must_use]
pub fn unproved(domain: &Domain) -> Option<String> {
    if domain.verified_at.is_some() {
        return None;
    }
    let name = domain.host.challenge();
    let search = &domain.search;
    Some(match (&search.last, search.withdrawn_at) {
        (_, Some(_)) => {
            "the operator took the proof back, and this text proves nothing any more; remove \
                         the domain and add it again to get a new one"
                .to_owned()
        }
        (None, None) => format!("nobody looked for {name} yet"),
        (Some(DnsCheck { result: DnsResult::Nothing | DnsResult::OtherTexts, why, .. }), None) => {
            format!("{why} at {name}")
        }
        (Some(DnsCheck { result: DnsResult::Indeterminate, why, .. }), None) => {
            format!("{name} is in doubt: {why}")
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
    fn looks_get_rarer_and_end_after_a_week() {
        let asked = at(0);
        let pauses: Vec<i64> = (0..=11)
            .map(|looks| next_dns_check(asked, looks, at(0)).unwrap().as_second())
            .collect();
        assert_eq!(pauses, [10, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
        let week = 7 * 24 * 3600;
        assert_eq!(next_dns_check(asked, u32::MAX, at(week - 3600)), Some(at(week)));
        assert_eq!(next_dns_check(asked, 99, at(week - 3599)), None);
        assert_eq!(next_dns_check(at(week), 1, at(week)), Some(at(week + 10)), "asked again");
        assert_eq!(next_dns_check(Timestamp::MAX, 1, Timestamp::MAX), None);
    }

    #[test]
    fn who_asks_again_and_again_gets_a_look_every_ten_seconds() {
        assert_eq!(requested_dns_check(None, at(5)), at(5));
        assert_eq!(requested_dns_check(Some(at(4)), at(5)), at(14));
        assert_eq!(requested_dns_check(Some(at(4)), at(60)), at(60));
    }

    #[test]
    fn only_the_whole_text_of_the_domain_proves_it() {
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
