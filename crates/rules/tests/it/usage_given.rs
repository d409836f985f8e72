//! Observations and prices for the tests of usage, rating and postings.

use std::collections::BTreeMap;

use jiff::Timestamp;
use trueup_model::id::{DiscountId, OrgId, PriceVersionId, TransitionId};
use trueup_model::key::Kind;
use trueup_model::money::Currency;
use trueup_model::name::Name;
use trueup_model::price::{Charge, Discount, PriceItem, PriceVersion, Scheme};
use trueup_model::spec::Resources;
use trueup_model::transition::{End, PodPhase, Size, Transition, What};
use trueup_model::usage::{
    Basis, Delivery, Evidence, Flags, GapPolicy, Meter, Owner, Provenance, Quantity, Source, Span,
    UsageInterval,
};
use trueup_rules::rate::{Rated, Terms};
use trueup_rules::render::names;
use trueup_rules::usage::{AcceptedPlan, Nodes, Observed, Usage, Watermarks, fold};
use uuid::Uuid;

use crate::given::{self, at};

pub(crate) const GIB: u64 = 1 << 30;

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(crate) fn eur() -> Currency {
    "EUR".parse().unwrap()
}

pub(crate) fn owner() -> Owner {
    Owner { org: given::org(), project: Some(given::project()), service: Some(given::service()) }
}

/// The size of a pod of the plan `small`.
pub(crate) fn small() -> Size {
    Size { cpu_millis: 250, memory_bytes: 256 << 20, gpus: 0, disk_bytes: 0 }
}

/// A release that was accepted at a second, with pods of a size.
pub(crate) fn plan(second: i64, plan: &str, pod: Size, nodes: Option<&str>) -> AcceptedPlan {
    AcceptedPlan {
        accepted_at: at(second),
        generation: second,
        plan: Some(name(plan)),
        resources: Resources {
            cpu_millis: u32::try_from(pod.cpu_millis).unwrap(),
            memory_mib: u32::try_from(pod.memory_bytes >> 20).unwrap(),
            gpus: u32::try_from(pod.gpus).unwrap(),
            ephemeral_mib: 0,
        },
        nodes: nodes.map(name),
    }
}

/// Transitions, in the order in which an observer records them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Story {
    pub(crate) transitions: Vec<Transition>,
}

impl Story {
    /// A node of four cores and a pod on it, `p1`, both from second 0.
    pub(crate) fn with_pod() -> Self {
        let mut story = Self::default();
        let node = Size { cpu_millis: 4000, memory_bytes: 4 * GIB, gpus: 0, disk_bytes: 0 };
        story.node("n1", "standard", node);
        story.pod("p1", small(), "n1", 0);
        story
    }

    /// A change that was observed at a second, with a timestamp of Kubernetes or without one.
    pub(crate) fn add(&mut self, object: (Kind, &str), what: What, stamp: Option<i64>, seen: i64) {
        let number = self.transitions.len() + 1;
        self.transitions.push(Transition {
            id: TransitionId::from_uuid(Uuid::from_u128(u128::try_from(number).unwrap())),
            service: None,
            kind: object.0,
            uid: object.1.to_owned(),
            name: object.1.to_owned(),
            what,
            at: stamp.map(at),
            seen_at: at(seen),
            after: None,
            resource_version: number.to_string(),
            observer: "observer-1".to_owned(),
            epoch: 1,
        });
    }

    /// A pod that was created and scheduled at a second.
    pub(crate) fn pod(&mut self, uid: &str, size: Size, node: &str, second: i64) {
        let pod = (Kind::Pod, uid);
        self.add(pod, What::Appeared, Some(second), second);
        self.add(pod, What::Sized(size), None, second);
        self.add(pod, What::Scheduled { node: node.to_owned() }, Some(second), second);
    }

    pub(crate) fn start(&mut self, uid: &str, restarts: u32, second: i64) {
        let what = What::ContainerStarted { container: "main".to_owned(), restarts };
        self.add((Kind::Pod, uid), what, Some(second), second);
    }

    pub(crate) fn end(&mut self, uid: &str, began: i64, second: i64) {
        let end = End { code: 1, reason: None, began_at: Some(at(began)), at: Some(at(second)) };
        let what = What::ContainerEnded { container: "main".to_owned(), end };
        self.add((Kind::Pod, uid), what, Some(second), second);
    }

    pub(crate) fn failed(&mut self, uid: &str, second: i64) {
        let what = What::Phase { phase: PodPhase::Failed, reason: None };
        self.add((Kind::Pod, uid), what, Some(second), second);
    }

    /// An object that was gone at a second, or some time since `after`.
    pub(crate) fn gone(&mut self, object: (Kind, &str), after: Option<i64>, second: i64) {
        self.add(object, What::Gone, None, second);
        if let Some(last) = self.transitions.last_mut() {
            last.after = after.map(at);
        }
    }

    /// A ready node of a class with this size, from the start of the test.
    pub(crate) fn node(&mut self, node: &str, class: &str, size: Size) {
        let labels = BTreeMap::from([(names::NODE_CLASS.to_owned(), class.to_owned())]);
        for (what, stamp) in [
            (What::Appeared, Some(0)),
            (What::Sized(size), None),
            (What::Classed { class: labels }, None),
            (What::Ready, Some(0)),
        ] {
            self.add((Kind::Node, node), what, stamp, 0);
        }
    }

    pub(crate) fn ready(&mut self, node: &str, ready: bool, second: i64) {
        let what = if ready { What::Ready } else { What::Unready { reason: None } };
        self.add((Kind::Node, node), what, Some(second), second);
    }
}

/// Every source was in contact at a second.
pub(crate) fn heard(second: i64) -> Watermarks {
    let evidence = Evidence {
        seen_at: at(second),
        epoch: 1,
        observer: "observer-1".to_owned(),
        transition: None,
    };
    [Source::Pods, Source::Nodes, Source::Claims].map(|source| (source, evidence.clone())).into()
}

/// The usage of the test's service.
pub(crate) fn used(
    transitions: &[Transition],
    plans: &[AcceptedPlan],
    watermarks: &Watermarks,
    policy: GapPolicy,
) -> Usage {
    let (of_nodes, own): (Vec<Transition>, Vec<Transition>) =
        transitions.iter().cloned().partition(|change| change.kind == Kind::Node);
    let nodes = Nodes::of(&of_nodes);
    fold(&Observed { owner: owner(), plans, transitions: &own, nodes: &nodes, watermarks, policy })
}

/// The intervals of one meter, each with its seconds, for tables.
pub(crate) fn seconds(usage: &Usage, meter: Meter) -> Vec<(i64, i64, Delivery)> {
    let second = |time: Timestamp| time.duration_since(at(0)).as_secs();
    let of_meter = usage.intervals.iter().filter(|interval| interval.meter == meter);
    of_meter
        .map(|interval| {
            (second(interval.span.from), second(interval.span.until), interval.delivery)
        })
        .collect()
}

pub(crate) fn span(from: i64, until: i64) -> Span {
    Span { from: at(from), until: at(until) }
}

/// An observed interval of an org's service without a plan.
pub(crate) fn interval(meter: Meter, quantity: Quantity, from: i64, until: i64) -> UsageInterval {
    let evidence = |second| Evidence {
        seen_at: at(second),
        epoch: 1,
        observer: "observer-1".to_owned(),
        transition: None,
    };
    UsageInterval {
        owner: owner(),
        object: "pod-1".to_owned(),
        meter,
        plan: None,
        quantity,
        span: span(from, until),
        open: false,
        growing: false,
        delivery: Delivery::Delivered,
        basis: Basis::Observed,
        simulated: false,
        provenance: Provenance { first: evidence(from), last: evidence(until) },
        flags: Flags::default(),
    }
}

/// A list price in EUR that begins at a second and has no end.
pub(crate) fn price(id: u128, item: PriceItem, scheme: Scheme, second: i64) -> PriceVersion {
    PriceVersion {
        id: PriceVersionId::from_uuid(Uuid::from_u128(id)),
        item,
        org: None,
        currency: eur(),
        from: at(second),
        until: None,
        scheme,
    }
}

pub(crate) fn scheme(charge: Charge) -> Scheme {
    Scheme { charge, included_units: 0, minimum_micros: 0 }
}

pub(crate) fn discount(id: u128, off_ppm: u32, from: i64, until: i64) -> Discount {
    Discount {
        id: DiscountId::from_uuid(Uuid::from_u128(id)),
        org: given::org(),
        item: None,
        from: at(from),
        until: Some(at(until)),
        off_ppm,
    }
}

pub(crate) fn other_org() -> OrgId {
    OrgId::from_uuid(Uuid::from_u128(99))
}

/// The first `until` seconds of the test are the period; amounts are cents.
pub(crate) fn terms(until: i64) -> Terms {
    Terms {
        org: given::org(),
        currency: eur(),
        period: span(0, until),
        unit_micros: 10_000,
        charge_simulated: true,
    }
}

/// The value of all lines, in millionths.
pub(crate) fn value(rated: &Rated) -> i64 {
    rated.lines.iter().map(|line| line.value_micros).sum()
}
