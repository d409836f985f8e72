//! Nodes over time: when each was lost, its class and its capacity.

use std::collections::BTreeMap;

use jiff::Timestamp;
use trueup_model::key::Kind;
use trueup_model::transition::{Size, Transition, What};
use trueup_model::usage::{Meter, Source, Span};

use super::moment::Moment;
use super::{by_object, piece};
use crate::render::names;

/// The nodes of a cluster, by name.
#[derive(Debug, Clone, Default)]
pub struct Nodes(BTreeMap<String, Timeline>);

/// The changes of one node, each list in order.
#[derive(Debug, Clone, Default)]
struct Timeline {
    exists: Vec<(Moment, bool)>,
    ready: Vec<(Moment, bool)>,
    /// Empty for a node without a class.
    classes: Vec<(Moment, String)>,
    sizes: Vec<(Moment, Size)>,
}

impl Nodes {
    /// The nodes that these transitions tell of, in any order.
    #[must_use]
    pub fn of(transitions: &[Transition]) -> Self {
        let mut nodes: BTreeMap<String, Timeline> = BTreeMap::new();
        let changes = by_object(transitions).into_values().flatten();
        for change in changes.filter(|change| change.kind == Kind::Node) {
            nodes.entry(change.name.clone()).or_default().add(change);
        }
        nodes.values_mut().for_each(Timeline::sort);
        Self(nodes)
    }

    /// Whether a node was not ready or gone. A node that was never observed is not lost.
    pub(super) fn is_lost(&self, node: &str, at: Timestamp) -> bool {
        self.0.get(node).and_then(|node| value_at(&node.ready, at)).is_some_and(|ready| !ready)
    }

    /// When a node was lost or ready again, or got another class.
    pub(super) fn turns(&self, node: &str) -> impl Iterator<Item = &Moment> {
        self.0.get(node).into_iter().flat_map(|node| {
            let classes = node.classes.iter().map(|(moment, _)| moment);
            node.ready.iter().map(|(moment, _)| moment).chain(classes)
        })
    }

    /// The class of a node, empty if it has none; `None` for a node that was never observed. Its
    /// first class also holds before.
    pub(super) fn class(&self, node: &str, at: Timestamp) -> Option<&str> {
        let classes = &self.0.get(node)?.classes;
        let class = value_at(classes, at).or_else(|| classes.first().map(|(_, class)| class));
        Some(class.map_or("", String::as_str))
    }

    /// The capacity of all nodes over a span, in millionths of the meter's unit.
    pub(super) fn capacity(&self, meter: Meter, span: Span) -> i128 {
        self.0.values().map(|node| node.capacity(meter, span)).sum()
    }
}

impl Timeline {
    fn add(&mut self, change: &Transition) {
        let moment = Moment::of(change, None);
        match &change.what {
            What::Appeared => self.exists.push((moment, true)),
            What::Sized(size) => self.sizes.push((moment, *size)),
            What::Ready => self.ready.push((moment, true)),
            What::Unready { .. } => self.ready.push((moment, false)),
            What::Classed { class } => {
                let class = class.get(names::NODE_CLASS).cloned().unwrap_or_default();
                self.classes.push((moment, class));
            }
            What::Gone => {
                self.ready.push((moment.clone(), false));
                self.exists.push((moment, false));
            }
            What::Scheduled { .. }
            | What::Started
            | What::Phase { .. }
            | What::ContainerStarted { .. }
            | What::ContainerEnded { .. }
            | What::Bound { .. }
            | What::Released
            | What::Deleting
            | What::Unobserved => {}
        }
    }

    fn sort(&mut self) {
        self.exists.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.ready.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.classes.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.sizes.sort_by(|(a, _), (b, _)| a.cmp(b));
    }

    fn capacity(&self, meter: Meter, span: Span) -> i128 {
        let sized = self.sizes.iter().map(|(moment, _)| moment.at);
        let existed = self.exists.iter().map(|(moment, _)| moment.at);
        let mut cuts: Vec<Timestamp> =
            sized.chain(existed).filter(|at| span.contains(*at)).collect();
        cuts.extend([span.from, span.until]);
        cuts.sort_unstable();
        let parts = cuts.iter().zip(cuts.iter().skip(1));
        parts.filter_map(|(from, until)| Span::new(*from, *until)).fold(0_i128, |sum, part| {
            let units = i128::from(self.units(meter, part.from));
            sum.saturating_add(units.saturating_mul(i128::from(part.micros())))
        })
    }

    fn units(&self, meter: Meter, at: Timestamp) -> u64 {
        let exists = value_at(&self.exists, at).is_some_and(|exists| *exists);
        let size = value_at(&self.sizes, at).or_else(|| self.sizes.first().map(|(_, size)| size));
        let rates = size.filter(|_| exists).map(|size| piece::rates(Source::Pods, size));
        let mut rates = rates.into_iter().flatten();
        // A node is no pod: only resources have a capacity.
        rates
            .find(|(one, _)| *one == meter && meter != Meter::PodSeconds)
            .map_or(0, |(_, units)| units)
    }
}

/// The last value that began at or before a moment.
pub(super) fn value_at<T>(values: &[(Moment, T)], at: Timestamp) -> Option<&T> {
    values.iter().rev().find(|(moment, _)| moment.at <= at).map(|(_, value)| value)
}
