//! The state of hosts and certificates, from what their controllers report.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use trueup_model::cluster::Routing;
use trueup_model::domain::{CertificateState, DomainState};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::{Admission, CertificateSeen, Observation, Sighting};
use trueup_rules::status::observe::{
    certificate_message, certificate_state, route_message, route_state,
};

use super::{running, with_gateway, with_issuer};
use crate::given::at;
use crate::world::World;

/// The first object of a kind.
fn key(world: &World, kind: Kind) -> ResourceKey {
    world.server.objects.keys().find(|key| key.kind == kind).cloned().expect("an object")
}

/// The sighting of the first object of a kind once its controller reports this status.
fn reported(routing: Routing, kind: Kind, status: &Value) -> Sighting {
    let mut world = running(routing);
    let key = key(&world, kind);
    world.server.edit(&key, |object| object["status"] = status.clone());
    let seen: Observation = world.observation(true);
    seen.objects.into_iter().find(|one| one.key == key).expect("a sighting")
}

/// A condition of an HTTPRoute about the generation of its spec.
fn condition(name: &str, status: &str, generation: i64) -> Value {
    json!({"type": name, "status": status, "observedGeneration": generation,
           "reason": "SomeReason", "message": "some message"})
}

/// The status of an HTTPRoute at this gateway.
fn at_gateway(name: &str, conditions: &[Value]) -> Value {
    json!({"parents": [{"controllerName": "example.com/gateway", "conditions": conditions,
                        "parentRef": {"namespace": "infra", "name": name}}]})
}

fn state(sighting: &Sighting) -> DomainState {
    route_state(true, Some(sighting))
}

#[test]
fn an_ingress_is_open_once_its_controller_reports_an_address() {
    let status = |addresses: Value| json!({"loadBalancer": {"ingress": addresses}});
    let ingress = |status: &Value| reported(with_issuer(), Kind::Ingress, status);
    for silent in [json!({}), json!({"loadBalancer": {}}), status(json!([]))] {
        let seen = ingress(&silent);
        assert_eq!(state(&seen), DomainState::Opening, "{silent}");
        let message = route_message(&seen).expect("a message");
        assert!(message.contains("has reported an address for the host yet"), "{message}");
    }
    let seen = ingress(&status(json!([{"ip": "203.0.113.7"}])));
    assert_eq!((state(&seen), route_message(&seen)), (DomainState::Open, None));
    let host = seen.route.map(|route| route.host);
    assert_eq!(host.as_deref(), Some("www.example.org"), "the first by name");
}

/// Nothing in the cluster says that no controller serves a class: only time does.
#[test]
fn a_host_without_an_answer_for_five_minutes_names_its_class() {
    for (class, expected) in
        [(Some("nginx"), "ingress class `nginx`"), (None, "the cluster's default ingress class")]
    {
        let mut world = running(with_issuer());
        let key = key(&world, Kind::Ingress);
        let now = world.observation(true).as_of;
        let mut seen = |age: i64, status: Value| {
            let created = now.checked_sub(SignedDuration::from_secs(age)).expect("a time");
            world.server.edit(&key, |object| {
                object["metadata"]["creationTimestamp"] = json!(created);
                object["spec"]["ingressClassName"] = json!(class);
                object["status"] = status;
            });
            let objects = world.observation(true).objects;
            objects.into_iter().find(|one| one.key == key).expect("a sighting")
        };
        let silent = seen(299, json!({}));
        assert_eq!(silent.route.map(|route| route.admission), Some(Admission::Pending));
        let late = seen(300, json!({}));
        assert_eq!(state(&late), DomainState::Opening);
        let message = route_message(&late).expect("a message");
        assert!(message.contains(expected) && message.contains("ask the operator"), "{message}");
        // A late answer counts.
        let address = json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}});
        assert_eq!(state(&seen(9999, address)), DomainState::Open);
    }
}

#[test]
fn an_http_route_is_open_once_its_gateway_accepts_it_and_finds_its_backend() {
    let accepted = condition("Accepted", "True", 1);
    let resolved = condition("ResolvedRefs", "True", 1);
    let both = [accepted.clone(), resolved.clone()];
    let cases = [
        (json!({}), DomainState::Opening),
        (at_gateway("public", std::slice::from_ref(&accepted)), DomainState::Opening),
        (at_gateway("public", &both), DomainState::Open),
        // Reports of an earlier gateway, or about an earlier spec, say nothing.
        (at_gateway("former", &both), DomainState::Opening),
        (
            at_gateway("public", &[accepted.clone(), condition("ResolvedRefs", "True", 0)]),
            DomainState::Opening,
        ),
        (
            at_gateway("public", &[condition("Accepted", "False", 1), resolved]),
            DomainState::Refused,
        ),
        (
            at_gateway("public", &[accepted, condition("ResolvedRefs", "False", 1)]),
            DomainState::Refused,
        ),
    ];
    for (status, expected) in cases {
        let seen = reported(with_gateway(), Kind::HttpRoute, &status);
        assert_eq!(state(&seen), expected, "{status}");
        let message = route_message(&seen).unwrap_or_default();
        let is_quoted = message.contains("SomeReason: some message");
        assert_eq!(is_quoted, expected == DomainState::Refused, "{message}");
    }
}

#[test]
fn an_unverified_host_is_never_open_and_one_without_an_object_is_pending() {
    let admitted = json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}});
    let mut seen = reported(with_issuer(), Kind::Ingress, &admitted);
    assert_eq!(route_state(false, Some(&seen)), DomainState::Unverified);
    assert_eq!(route_state(true, None), DomainState::Pending);
    // Stored by a version that did not read routes.
    seen.route = None;
    assert_eq!(state(&seen), DomainState::Opening);
}

#[test]
fn a_changed_report_of_a_controller_is_a_new_observation() {
    let mut world = running(with_gateway());
    let key = key(&world, Kind::HttpRoute);
    let before = world.observation(true);
    let refused = at_gateway("public", &[condition("Accepted", "False", 1)]);
    world.server.edit(&key, |object| object["status"] = refused);
    let after = world.observation(true);
    assert!(!after.same_as(&before));
    let admission = after.objects.into_iter().find_map(|one| one.route.map(|it| it.admission));
    assert!(matches!(admission, Some(Admission::Refused(_))), "{admission:?}");
}

/// A message of others may be of any length.
#[test]
fn a_long_message_of_a_controller_is_cut() {
    let mut refused = condition("Accepted", "False", 1);
    refused["message"] = json!("x".repeat(100_000));
    let seen = reported(with_gateway(), Kind::HttpRoute, &at_gateway("public", &[refused]));
    let message = route_message(&seen).expect("a message");
    assert!(message.len() < 10_000, "{}", message.len());
}

fn certificate(status: &Value) -> CertificateSeen {
    reported(with_issuer(), Kind::Certificate, status).certificate.expect("a certificate")
}

fn days(days: i64) -> Timestamp {
    at(0).checked_add(SignedDuration::from_hours(24 * days)).expect("a time")
}

#[test]
fn a_certificate_is_ready_until_it_is_about_to_expire() {
    assert_eq!(certificate_state(None, at(0)), CertificateState::None);
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}],
                       "notAfter": days(90).to_string()});
    let seen = certificate(&ready);
    assert_eq!((seen.issuer.as_str(), seen.not_after), ("letsencrypt", Some(days(90))));
    let cases = [
        (days(0), CertificateState::Ready, false),
        (days(75), CertificateState::Ready, false),
        (days(76), CertificateState::Expiring, true),
        (days(89), CertificateState::Expiring, true),
        (days(90), CertificateState::Failing, true),
    ];
    for (now, expected, has_message) in cases {
        assert_eq!(certificate_state(Some(&seen), now), expected, "{now}");
        assert_eq!(certificate_message(&seen, now).is_some(), has_message, "{now}");
    }
}

#[test]
fn a_certificate_that_cannot_be_obtained_is_failing_with_the_reason() {
    let waiting = json!({"conditions": [
        {"type": "Ready", "status": "False", "reason": "DoesNotExist", "message": "no Secret"},
        {"type": "Issuing", "status": "True", "reason": "DoesNotExist", "message": "no Secret"}]});
    let seen = certificate(&waiting);
    assert_eq!(certificate_state(Some(&seen), at(0)), CertificateState::Issuing);
    assert_eq!(certificate_message(&seen, at(0)), None);
    assert_eq!(certificate_state(Some(&certificate(&json!({}))), at(0)), CertificateState::Issuing);

    let failed = json!({"conditions": [
        {"type": "Ready", "status": "False", "reason": "DoesNotExist", "message": "no Secret"},
        {"type": "Issuing", "status": "False", "reason": "Failed", "message": "rate limited"}]});
    let seen = certificate(&failed);
    assert_eq!(certificate_state(Some(&seen), at(0)), CertificateState::Failing);
    let message = certificate_message(&seen, at(0)).expect("a message");
    assert!(message.starts_with("Failed: rate limited; "), "{message}");
}

/// The old certificate stays in use, so the host is still served.
#[test]
fn a_failed_renewal_is_told_while_the_certificate_is_still_valid() {
    let renewing = json!({"notAfter": days(90).to_string(), "conditions": [
        {"type": "Ready", "status": "True"},
        {"type": "Issuing", "status": "False", "reason": "Failed", "message": "rate limited"}]});
    let seen = certificate(&renewing);
    assert_eq!(certificate_state(Some(&seen), days(0)), CertificateState::Ready);
    assert_eq!(certificate_state(Some(&seen), days(80)), CertificateState::Expiring);
    let message = certificate_message(&seen, days(0)).expect("a message");
    assert!(message.contains("rate limited"), "{message}");
}
