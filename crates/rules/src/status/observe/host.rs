//! The state of a domain: of its route and of its certificate, from what was observed.

use jiff::{SignedDuration, Timestamp};
use trueup_model::domain::{CertificateState, DomainState};
use trueup_model::key::Kind;
use trueup_model::observation::{Admission, CertificateSeen, ReportedProblem, Sighting};

/// A valid certificate that expires sooner than this was not renewed in time: cert-manager renews
/// one of 90 days 30 days before its end.
const EXPIRES_SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

/// The state of a domain, from its verification and the sighting of its route.
///
/// A route that was observed before routes were read counts as not reported about.
#[must_use]
pub fn route_state(verified: bool, route: Option<&Sighting>) -> DomainState {
    match (verified, route) {
        (false, _) => DomainState::Unverified,
        (true, None) => DomainState::Pending,
        (true, Some(sighting)) => match sighting.route.as_ref().map(|seen| &seen.admission) {
            None | Some(Admission::Pending | Admission::Unanswered { .. }) => DomainState::Opening,
            Some(Admission::Admitted) => DomainState::Open,
            Some(Admission::Refused(_)) => DomainState::Refused,
        },
    }
}

/// Why a host is not open although its object exists, and what to do; `None` if it is open.
///
/// Some ingress controllers are set up not to report addresses, and nothing in the cluster tells
/// them from a missing controller: the message names both.
#[must_use]
pub fn route_message(route: &Sighting) -> Option<String> {
    match &route.route.as_ref()?.admission {
        Admission::Admitted => None,
        Admission::Refused(problem) => Some(format!(
            "the gateway does not route the host: {}; ask the operator to allow it",
            problem.sentence()
        )),
        Admission::Pending if route.key.kind == Kind::Ingress => Some(
            "no ingress controller has reported an address for the host yet; that can take some \
             minutes"
                .to_owned(),
        ),
        Admission::Unanswered { class } => Some(unanswered(class.as_deref())),
        Admission::Pending => Some(
            "the gateway's controller has not accepted the host yet; if that lasts, ask the \
             operator to check the gateway"
                .to_owned(),
        ),
    }
}

/// The message for a host that no controller answers for.
fn unanswered(class: Option<&str>) -> String {
    let class = match class {
        Some(class) => format!("the ingress class `{class}`"),
        None => "the cluster's default ingress class".to_owned(),
    };
    format!(
        "no controller answers for {class}: none has reported an address for the host within five \
         minutes; ask the operator to check that a controller serves the class; some controllers \
         route hosts without reporting that"
    )
}

/// The state of a host's certificate at this time.
#[must_use]
pub fn certificate_state(seen: Option<&CertificateSeen>, now: Timestamp) -> CertificateState {
    let Some(seen) = seen else { return CertificateState::None };
    let ends_by = |at: Timestamp| seen.not_after.is_some_and(|end| end <= at);
    if ends_by(now) || (!seen.ready && seen.problem.is_some()) {
        return CertificateState::Failing;
    }
    if !seen.ready {
        return CertificateState::Issuing;
    }
    let soon = now.checked_add(EXPIRES_SOON).unwrap_or(now);
    if ends_by(soon) { CertificateState::Expiring } else { CertificateState::Ready }
}

/// Why a certificate could not be obtained or renewed, and what to do; `None` without a problem.
#[must_use]
pub fn certificate_message(seen: &CertificateSeen, now: Timestamp) -> Option<String> {
    let (problem, issuer) = (seen.problem.as_ref().map(ReportedProblem::sentence), &seen.issuer);
    match (certificate_state(Some(seen), now), problem) {
        (_, Some(problem)) => Some(format!(
            "{problem}; cert-manager retries; check that the host's DNS leads to the cluster, and \
             ask the operator to check the issuer `{issuer}`"
        )),
        (CertificateState::Failing | CertificateState::Expiring, None) => Some(format!(
            "it was not renewed; ask the operator to check cert-manager and the issuer `{issuer}`"
        )),
        (CertificateState::None | CertificateState::Issuing | CertificateState::Ready, None) => {
            None
        }
    }
}
