//! Reads what controllers report about the routes and certificates of hosts.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use trueup_model::key::Kind;
use trueup_model::observation::{Admission, CertificateSeen, ReportedProblem, RouteSeen};

use super::pod::shortened;
use super::runs::time;
use super::{condition, each, text};

/// How long after its creation the controller of an Ingress may take to report an address.
const ANSWER_LIMIT: SignedDuration = SignedDuration::from_mins(5);

/// What the controller of an Ingress or HTTPRoute reports; `None` for other kinds.
pub(super) fn route_seen(kind: Kind, object: &Value, as_of: Timestamp) -> Option<RouteSeen> {
    let spec = &object["spec"];
    let (host, admission) = if kind == Kind::Ingress {
        (&spec["rules"][0]["host"], of_ingress(object, as_of))
    } else if kind == Kind::HttpRoute {
        (&spec["hostnames"][0], of_http_route(object))
    } else {
        return None;
    };
    Some(RouteSeen { host: text(host), admission })
}

/// An Ingress has no conditions: its controller reports the addresses at which it routes the host.
fn of_ingress(object: &Value, as_of: Timestamp) -> Admission {
    let is_reported = each(&object["status"]["loadBalancer"]["ingress"]).next().is_some();
    if is_reported {
        Admission::Admitted
    } else if answer_due(object).is_some_and(|due| as_of >= due) {
        let class = object["spec"]["ingressClassName"].as_str().map(str::to_owned);
        Admission::Unanswered { class }
    } else {
        Admission::Pending
    }
}

/// By when the controller of this Ingress should have reported an address.
#[must_use]
pub fn answer_due(ingress: &Value) -> Option<Timestamp> {
    time(&ingress["metadata"], "creationTimestamp")?.checked_add(ANSWER_LIMIT).ok()
}

/// The conditions of an HTTPRoute that say whether its gateway routes the host.
const DECISIVE: [&str; 2] = ["Accepted", "ResolvedRefs"];

fn of_http_route(object: &Value) -> Admission {
    let conditions: Vec<&Value> = current_conditions(object).collect();
    let of = |name: &str, status: &str| {
        conditions.iter().copied().find(|one| one["type"] == name && one["status"] == status)
    };
    if let Some(refused) = DECISIVE.iter().find_map(|name| of(name, "False")) {
        return Admission::Refused(problem(refused));
    }
    let admitted = DECISIVE.iter().all(|name| of(name, "True").is_some());
    if admitted { Admission::Admitted } else { Admission::Pending }
}

/// The conditions of the route at its gateway, about its newest spec. Reports of an earlier gateway
/// may stay in the status.
fn current_conditions(object: &Value) -> impl Iterator<Item = &Value> {
    let gateway = &object["spec"]["parentRefs"][0];
    let generation = object["metadata"]["generation"].as_i64();
    let is_ours = move |report: &&Value| {
        let parent = &report["parentRef"];
        let namespace = &parent["namespace"];
        parent["name"] == gateway["name"]
            && (namespace.is_null() || *namespace == gateway["namespace"])
    };
    let is_current = move |one: &&Value| {
        one["observedGeneration"].as_i64().is_none_or(|seen| Some(seen) >= generation)
    };
    each(&object["status"]["parents"])
        .filter(is_ours)
        .flat_map(|report| each(&report["conditions"]))
        .filter(is_current)
}

/// What cert-manager reports about a Certificate; `None` for other kinds.
///
/// A failed attempt sets the condition Issuing to False; cert-manager removes the condition when an
/// attempt succeeds.
pub(super) fn certificate_seen(kind: Kind, object: &Value) -> Option<CertificateSeen> {
    if kind != Kind::Certificate {
        return None;
    }
    let status = &object["status"];
    Some(CertificateSeen {
        ready: condition(status, "Ready").is_some_and(|one| one["status"] == "True"),
        issuer: text(&object["spec"]["issuerRef"]["name"]),
        not_after: status["notAfter"].as_str().and_then(|at| at.parse().ok()),
        problem: condition(status, "Issuing").filter(|one| one["status"] == "False").map(problem),
    })
}

fn problem(condition: &Value) -> ReportedProblem {
    let of = |name: &str| shortened(text(&condition[name]));
    ReportedProblem { reason: of("reason"), message: of("message") }
}
