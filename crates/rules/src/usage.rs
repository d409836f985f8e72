//! Usage from transitions: which pods and disks existed, how large, and for how long.
//!
//! The fold is a pure function of a set of transitions. Their order, duplicates and the batches
//! they came in do not matter, so a restart or a replay gives the same intervals. A pod is metered
//! from its first container start to its last container end, as observed. Time on a lost node is
//! under-delivery. The open end of a series is extended by evidence only.

pub mod capacity;
pub mod correction;
mod fold;
mod gap;
pub mod hash;
mod moment;
mod node;
mod piece;
mod release_join;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use trueup_model::key::Kind;
use trueup_model::transition::Transition;
use trueup_model::usage::{
    Evidence, Gap, GapPolicy, Meter, Owner, Quantity, Source, UsageInterval,
};

pub use node::Nodes;
pub use release_join::{AcceptedPlan, Held, plan_at};

use fold::Life;

/// The bytes of a mebibyte.
const MIB: u64 = 1024 * 1024;

/// The last contact of each source.
///
/// Everything that happened before must have been recorded: a watch that is ahead of its recorded
/// transitions is not evidence yet.
pub type Watermarks = BTreeMap<Source, Evidence>;

/// What the usage of one owner is derived from.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// Whose usage it is.
    pub owner: Owner,
    /// The plans that were accepted for its service, in any order.
    pub plans: &'a [AcceptedPlan],
    /// The transitions of its objects, in any order.
    pub transitions: &'a [Transition],
    /// The nodes of the cluster.
    pub nodes: &'a Nodes,
    /// The last contact of each source.
    pub watermarks: &'a Watermarks,
    /// What gaps cost.
    pub policy: GapPolicy,
}

/// What was used, and what is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// The intervals, by object, meter and beginning. Those of one object and meter do not overlap.
    pub intervals: Vec<UsageInterval>,
    /// The gaps, by object.
    pub gaps: Vec<Gap>,
}

/// The usage that observations show.
#[must_use]
pub fn fold(observed: &Observed<'_>) -> Usage {
    let mut usage = Usage::default();
    for changes in by_object(observed.transitions).values() {
        let Some(life) = life(changes, observed.watermarks) else { continue };
        let pieces = piece::cut(&life, observed);
        usage.intervals.extend(pieces.iter().flat_map(|piece| piece.intervals(&life, observed)));
        if let Some(gap) = gap::row(&life, observed) {
            usage.intervals.extend(gap::fill(&gap));
            usage.gaps.push(gap);
        }
    }
    usage
        .intervals
        .sort_by(|a, b| (&a.object, a.meter, a.span.from).cmp(&(&b.object, b.meter, b.span.from)));
    usage
}

fn life(changes: &[&Transition], watermarks: &Watermarks) -> Option<Life> {
    let kind = changes.first()?.kind;
    if kind == Kind::Pod {
        fold::pod(changes, horizon(watermarks, Meter::PodSeconds))
    } else if kind == Kind::PersistentVolumeClaim {
        fold::disk(changes, horizon(watermarks, Meter::DiskGibSeconds))
    } else {
        // Nodes are not usage, and a volume is metered through its claim.
        None
    }
}

/// An interval as it stands now: one that grows reaches as far as its sources were heard.
///
/// So an object that does not change needs no new row, however long it exists.
#[must_use]
pub fn extended(mut interval: UsageInterval, watermarks: &Watermarks) -> UsageInterval {
    let contact = horizon(watermarks, interval.meter).filter(|_| interval.growing);
    if let Some(contact) = contact.filter(|contact| **contact > interval.provenance.last) {
        interval.span.until = interval.span.until.max(contact.seen_at);
        interval.provenance.last = contact.clone();
    }
    interval
}

/// An interval as it stood when its sources had been heard up to these watermarks; `None` if it had
/// not begun. What a total counts is not known for a part of it, so a total stays whole.
#[must_use]
pub fn as_of(interval: UsageInterval, watermarks: &Watermarks) -> Option<UsageInterval> {
    let mut interval = extended(interval, watermarks);
    if let Some(contact) = horizon(watermarks, interval.meter)
        && matches!(interval.quantity, Quantity::PerSecond(_))
    {
        interval.span.until = interval.span.until.min(contact.seen_at);
    }
    (interval.span.from < interval.span.until).then_some(interval)
}

/// How far all sources of a meter have been observed; `None` while one never was.
fn horizon(watermarks: &Watermarks, meter: Meter) -> Option<&Evidence> {
    let contacts = meter.sources().iter().map(|source| watermarks.get(source));
    contacts.collect::<Option<Vec<_>>>()?.into_iter().min()
}

/// The changes of each object in the order in which they happened, each once.
///
/// A change that was recorded twice, by two observers or after a lost answer, has the same
/// timestamp and resourceVersion. Its first observation counts.
fn by_object(transitions: &[Transition]) -> BTreeMap<&str, Vec<&Transition>> {
    let mut seen: Vec<&Transition> = transitions.iter().collect();
    seen.sort_by_key(|change| (change.seen_at, change.epoch, change.id));
    let mut known: BTreeMap<_, Vec<&Transition>> = BTreeMap::new();
    for change in seen {
        let key = (change.uid.as_str(), change.at, change.resource_version.as_str());
        let same = known.entry(key).or_default();
        if !same.iter().any(|other| other.what == change.what) {
            same.push(change);
        }
    }
    let mut objects: BTreeMap<&str, Vec<&Transition>> = BTreeMap::new();
    for ((uid, ..), changes) in known {
        objects.entry(uid).or_default().extend(changes);
    }
    for changes in objects.values_mut() {
        changes.sort_by_key(|change| {
            (change.at.unwrap_or(change.seen_at), change.seen_at, change.epoch, change.id)
        });
    }
    objects
}

/// The meters of these whose sources were not heard of for longer than `limit`.
///
/// Usage that is not metered is lost, so a silent source is a billing incident.
#[must_use]
pub fn silent_meters(
    meters: &[Meter],
    watermarks: &Watermarks,
    now: Timestamp,
    limit: SignedDuration,
) -> Vec<Meter> {
    let is_silent = |meter: &&Meter| {
        horizon(watermarks, **meter)
            .is_none_or(|contact| now.duration_since(contact.seen_at) > limit)
    };
    meters.iter().filter(is_silent).copied().collect()
}
