//! Pieces of a life, each with one configuration: size, plan, node and delivery.
//!
//! A life is cut where one of them changes, to the microsecond, and nowhere else.

use std::collections::BTreeMap;

use jiff::Timestamp;
use trueup_model::name::Name;
use trueup_model::transition::Size;
use trueup_model::usage::{
    Basis, Delivery, Flags, Meter, Provenance, Quantity, Source, Span, UsageInterval,
};

use super::fold::Life;
use super::moment::Moment;
use super::node::value_at;
use super::release_join::{AcceptedPlan, Held, plan_at};
use super::{MIB, Observed};
use crate::render::names;

/// The bytes of a gibibyte.
const GIB: u64 = 1024 * MIB;

/// A part of a life during which nothing changed.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    from: Moment,
    until: Moment,
    open: bool,
    growing: bool,
    state: State,
}

/// The configuration of an object at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) size: Size,
    pub(super) plan: Option<Name>,
    pub(super) delivery: Delivery,
    pub(super) simulated: bool,
}

/// The pieces of a life, in order and without a hole between them.
pub(super) fn cut(life: &Life, observed: &Observed<'_>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let moments = boundaries(life, observed);
    for (from, until) in moments.iter().zip(moments.iter().skip(1)) {
        let state = state(life, observed, from.at);
        match pieces.last_mut().filter(|last| last.state == state) {
            Some(last) => last.until = until.clone(),
            None => {
                let (from, until) = (from.clone(), until.clone());
                pieces.push(Piece { from, until, open: false, growing: false, state });
            }
        }
    }
    if let Some(last) = pieces.last_mut() {
        last.open = life.open;
        last.growing = life.growing;
    }
    pieces
}

/// The beginning, every moment at which something may change, and the end.
fn boundaries(life: &Life, observed: &Observed<'_>) -> Vec<Moment> {
    let sizes = life.sizes.iter().map(|(moment, _)| moment.clone());
    let turns = life.node.iter().flat_map(|node| observed.nodes.turns(node)).cloned();
    let accepted = plans_for(life, observed.plans).map(|plan| plan.accepted_at);
    // A release is a record of ours and needs no observation.
    let releases = accepted.map(|at| Moment::by(at, life.from.evidence.clone()));
    let mut inner: BTreeMap<Timestamp, Moment> = BTreeMap::new();
    for moment in sizes.chain(turns).chain(releases) {
        // A life that grows is cut ahead of its evidence, so that contact alone can extend it.
        if life.from.at < moment.at && (moment.at < life.until.at || life.growing) {
            let known = inner.entry(moment.at).or_insert_with(|| moment.clone());
            if moment < *known {
                *known = moment;
            }
        }
    }
    let mut moments = vec![life.from.clone()];
    moments.extend(inner.into_values());
    // What has just begun is empty, and is recorded for the same reason.
    if life.from.at < life.until.at || life.growing {
        let last = moments.last().filter(|last| life.until.at < last.at).cloned();
        moments.push(last.unwrap_or_else(|| life.until.clone()));
    }
    moments
}

/// The plans that may be in force for a life. What is accepted after its end was observed is not,
/// so that a closed life never changes.
fn plans_for<'a>(life: &Life, plans: &'a [AcceptedPlan]) -> impl Iterator<Item = &'a AcceptedPlan> {
    let end = (!life.open).then_some(life.until.evidence.seen_at);
    plans.iter().filter(move |plan| end.is_none_or(|end| plan.accepted_at <= end))
}

/// The configuration of an object at a moment.
pub(super) fn state(life: &Life, observed: &Observed<'_>, at: Timestamp) -> State {
    let node = life.node.as_deref();
    let first = || life.sizes.first().map(|(_, size)| size);
    let size = value_at(&life.sizes, at).or_else(first).copied().unwrap_or_default();
    let class = node.and_then(|node| observed.nodes.class(node, at));
    let pod = (life.source == Source::Pods).then_some(size);
    let plans: Vec<&AcceptedPlan> = plans_for(life, observed.plans).collect();
    let plan = plan_at(&plans, &Held { pod, class }, at).cloned();
    let is_lost = node.is_some_and(|node| observed.nodes.is_lost(node, at));
    let delivery = match observed.owner.service {
        None => Delivery::Orphan,
        Some(_) if is_lost => Delivery::UnderDelivered,
        Some(_) => Delivery::Delivered,
    };
    State { size, plan, delivery, simulated: class == Some(names::SIMULATED) }
}

impl Piece {
    /// Its intervals, one for each meter.
    pub(super) fn intervals(&self, life: &Life, observed: &Observed<'_>) -> Vec<UsageInterval> {
        let Self { from, until, open, growing, state } = self;
        let interval = |(meter, units)| UsageInterval {
            owner: observed.owner,
            object: life.object.clone(),
            meter,
            plan: state.plan.clone(),
            quantity: Quantity::PerSecond(units),
            span: Span { from: from.at, until: until.at },
            open: *open,
            growing: *growing,
            delivery: state.delivery,
            basis: Basis::Observed,
            simulated: state.simulated,
            provenance: Provenance { first: from.evidence.clone(), last: until.evidence.clone() },
            flags: Flags {
                late: from.flags.late || until.flags.late,
                skewed: from.flags.skewed || until.flags.skewed,
            },
        };
        rates(life.source, &state.size).into_iter().map(interval).collect()
    }
}

/// The units that an object of this size holds, by meter.
pub(super) fn rates(source: Source, size: &Size) -> Vec<(Meter, u64)> {
    let all = match source {
        Source::Pods => vec![
            (Meter::PodSeconds, 1),
            (Meter::CpuMilliSeconds, size.cpu_millis),
            (Meter::MemoryMibSeconds, size.memory_bytes.div_ceil(MIB)),
            (Meter::GpuSeconds, size.gpus),
        ],
        Source::Claims => vec![(Meter::DiskGibSeconds, size.disk_bytes.div_ceil(GIB))],
        Source::Nodes | Source::Traffic => Vec::new(),
    };
    all.into_iter().filter(|(_, units)| *units > 0).collect()
}
