//! The life of one pod or disk: when its usage began, when it ended, and what it was meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use trueup_model::transition::{PodPhase, Size, Transition, What};
use trueup_model::usage::{Evidence, Source, Span};

use super::moment::{Moment, evidence};

/// The metered life of one object.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) source: Source,
    pub(super) object: String,
    pub(super) from: Moment,
    /// Its end, or how far evidence reaches while it has none.
    pub(super) until: Moment,
    pub(super) open: bool,
    /// Whether contact with the sources alone extends it.
    pub(super) growing: bool,
    /// When its end was not observed: it was in this span.
    pub(super) gap: Option<Span>,
    /// Its sizes, in order. The first one also holds before.
    pub(super) sizes: Vec<(Moment, Size)>,
    pub(super) node: Option<String>,
}

/// How a life ends, as far as it is known.
struct End {
    until: Moment,
    open: bool,
    growing: bool,
    gap: Option<Span>,
}

impl End {
    const fn closed(until: Moment) -> Self {
        Self { until, open: false, growing: false, gap: None }
    }
}

/// A pod, from its first container start to its last container end; `None` before it starts.
pub(super) fn pod(changes: &[&Transition], horizon: Option<&Evidence>) -> Option<Life> {
    let appeared = changes.iter().filter(|change| change.what == What::Appeared);
    let created_at = appeared.filter_map(|change| change.at).min();
    let moments = |is: fn(&What) -> bool| -> Vec<Moment> {
        let found = changes.iter().filter(|change| is(&change.what));
        found.map(|change| Moment::of(change, created_at)).collect()
    };
    let from = moments(is_start).into_iter().min()?;
    let last_end = moments(is_end).into_iter().max().filter(|_| !is_running(changes));
    let finished = moments(is_finished).into_iter().min();
    let end = if let Some(until) = last_end {
        // Between two runs of a crash loop it stays open: the next start also meters the wait.
        let open = finished.is_none() && gone(changes).is_none();
        End { until, open, growing: false, gap: None }
    } else if let Some(until) = finished {
        End::closed(until)
    } else {
        end_of_existence(changes, horizon)?
    };
    Some(life(Source::Pods, changes, from, end))
}

/// A claim, from the moment its disk was observed until it is gone; `None` before it has a disk.
pub(super) fn disk(changes: &[&Transition], horizon: Option<&Evidence>) -> Option<Life> {
    let has_disk = |size: &Size| size.disk_bytes > 0;
    let from = sizes(changes).into_iter().find(|(_, size)| has_disk(size))?.0;
    let end = end_of_existence(changes, horizon)?;
    Some(life(Source::Claims, changes, from, end))
}

fn life(source: Source, changes: &[&Transition], from: Moment, end: End) -> Life {
    let End { mut until, open, growing, gap } = end;
    // The clocks of a start and an end may differ.
    until.at = until.at.max(from.at);
    let gap = gap.and_then(|gap| Span::new(until.at, gap.until));
    let object = changes.first().map(|change| change.uid.clone()).unwrap_or_default();
    let node = changes.iter().rev().find_map(|change| {
        let What::Scheduled { node } = &change.what else { return None };
        Some(node.clone())
    });
    Life { source, object, from, until, open, growing, gap, sizes: sizes(changes), node }
}

/// When the object was gone, or how far evidence reaches.
fn end_of_existence(changes: &[&Transition], horizon: Option<&Evidence>) -> Option<End> {
    let Some(gone) = gone(changes) else {
        let own = changes.iter().map(|change| evidence(change));
        let last = own.chain(horizon.cloned()).max()?;
        let until = Moment::by(last.seen_at, last);
        return Some(End { until, open: true, growing: true, gap: None });
    };
    let Some(after) = gone.after else { return Some(End::closed(Moment::of(gone, None))) };
    let gap = Span::new(after, gone.seen_at);
    Some(End { gap, ..End::closed(Moment::by(after, evidence(gone))) })
}

/// The observation that an object is gone, unless it was observed again later.
fn gone<'a>(changes: &[&'a Transition]) -> Option<&'a Transition> {
    let newest = changes.iter().map(|change| change.seen_at).max()?;
    changes.iter().copied().find(|change| change.what == What::Gone && change.seen_at == newest)
}

fn sizes(changes: &[&Transition]) -> Vec<(Moment, Size)> {
    let sized = changes.iter().filter_map(|change| {
        let What::Sized(size) = &change.what else { return None };
        Some((Moment::of(change, None), *size))
    });
    let mut sizes: Vec<(Moment, Size)> = sized.collect();
    sizes.sort_by(|(a, _), (b, _)| a.cmp(b));
    sizes
}

const fn is_start(what: &What) -> bool {
    matches!(what, What::ContainerStarted { .. })
}

const fn is_end(what: &What) -> bool {
    matches!(what, What::ContainerEnded { .. })
}

const fn is_finished(what: &What) -> bool {
    matches!(what, What::Phase { phase: PodPhase::Succeeded | PodPhase::Failed, .. })
}

/// Whether a container has started and was not seen to end.
///
/// Timestamps are cut to whole seconds, so a program that fails at once may start twice in one:
/// runs are told apart by the number of restarts, and counted.
fn is_running(changes: &[&Transition]) -> bool {
    let mut starts: BTreeMap<&str, BTreeSet<(Timestamp, u32)>> = BTreeMap::new();
    let mut ends: BTreeMap<&str, BTreeSet<(Timestamp, Timestamp)>> = BTreeMap::new();
    for change in changes {
        let at = change.at.unwrap_or(change.seen_at);
        if let What::ContainerStarted { container, restarts } = &change.what {
            starts.entry(container).or_default().insert((at, *restarts));
        } else if let What::ContainerEnded { container, end } = &change.what {
            let began = end.began_at.unwrap_or(at);
            ends.entry(container).or_default().insert((began, at));
        }
    }
    starts.iter().any(|(container, runs)| {
        let Some((latest, _)) = runs.last() else { return false };
        let started = runs.iter().filter(|(at, _)| at == latest).count();
        let ended = ends.get(container).into_iter().flatten();
        started > ended.filter(|(began, _)| began >= latest).count()
    })
}
