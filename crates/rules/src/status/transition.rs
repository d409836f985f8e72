//! Transitions of pods, disks and nodes: the level of an object, and the changes between two
//! levels.
//!
//! Both are level-triggered. A change is the difference between two levels, whatever happened to
//! the watch events in between. The same level twice gives no change, so a new list, watch or
//! observer duplicates nothing.

mod level;

use jiff::Timestamp;
use trueup_model::transition::{
    ContainerLevel, DiskLevel, End, Level, NodeLevel, PodLevel, PodPhase, Size, StateChange, What,
};

pub use level::snapshot;

/// The changes between two levels of one object; for a new object, all changes since its creation.
#[must_use]
pub fn steps(before: Option<&Level>, now: &Level) -> Vec<StateChange> {
    match (before, now) {
        (Some(Level::Pod(before)), Level::Pod(now)) => pod(before, now),
        (_, Level::Pod(now)) => appeared(now.created_at, pod(&PodLevel::default(), now)),
        (Some(Level::Disk(before)), Level::Disk(now)) => disk(before, now),
        (_, Level::Disk(now)) => appeared(now.created_at, disk(&DiskLevel::default(), now)),
        (Some(Level::Node(before)), Level::Node(now)) => node(before, now),
        (_, Level::Node(now)) => appeared(now.created_at, node(&NodeLevel::default(), now)),
    }
}

fn appeared(at: Option<Timestamp>, mut rest: Vec<StateChange>) -> Vec<StateChange> {
    rest.insert(0, StateChange { what: What::Appeared, at });
    rest
}

/// Collects changes.
#[derive(Default)]
struct StateChanges(Vec<StateChange>);

impl StateChanges {
    fn add(&mut self, what: What, at: Option<Timestamp>) {
        self.0.push(StateChange { what, at });
    }

    fn sized(&mut self, before: Size, now: Size) {
        if before != now {
            self.add(What::Sized(now), None);
        }
    }

    fn deleting(&mut self, before: Option<Timestamp>, now: Option<Timestamp>) {
        if before.is_none() && now.is_some() {
            self.add(What::Deleting, now);
        }
    }
}

fn pod(before: &PodLevel, now: &PodLevel) -> Vec<StateChange> {
    let mut steps = StateChanges::default();
    steps.sized(before.size, now.size);
    if let Some(node) = now.node.as_ref().filter(|_| before.node != now.node) {
        steps.add(What::Scheduled { node: node.clone() }, now.scheduled_at);
    }
    if now.started_at.is_some() && before.started_at != now.started_at {
        steps.add(What::Started, now.started_at);
    }
    let unknown = ContainerLevel::default();
    for (name, container) in &now.containers {
        let before = before.containers.get(name).unwrap_or(&unknown);
        containers(&mut steps, name, before, container);
    }
    if (before.phase, &before.reason) != (now.phase, &now.reason) {
        let what = What::Phase { phase: now.phase, reason: now.reason.clone() };
        steps.add(what, phase_at(now));
    }
    match (before.ready, now.ready) {
        (false, true) => steps.add(What::Ready, now.ready_at),
        (true, false) => steps.add(What::Unready { reason: now.reason.clone() }, now.ready_at),
        (true, true) | (false, false) => {}
    }
    steps.deleting(before.deleting_at, now.deleting_at);
    steps.0
}

/// Adds starts and ends of a container, in the order in which they happened.
fn containers(steps: &mut StateChanges, name: &str, before: &ContainerLevel, now: &ContainerLevel) {
    let (container, restarts) = (name.to_owned(), now.restarts);
    let ended = now.ended.as_ref().filter(|end| before.ended.as_ref() != Some(end));
    // Times have whole seconds, so a quick restart can have the same one.
    let is_new =
        |since: &Timestamp| before.running_since != Some(*since) || before.restarts != now.restarts;
    let started = now.running_since.filter(is_new);
    if let Some(end) = ended {
        // The start was not observed, but the end has its time.
        if let Some(began) = end.began_at.filter(|began| before.running_since != Some(*began)) {
            let restarts = restarts.saturating_sub(u32::from(started.is_some()));
            let what = What::ContainerStarted { container: container.clone(), restarts };
            steps.add(what, Some(began));
        }
        let what = What::ContainerEnded { container: container.clone(), end: end.clone() };
        steps.add(what, end.at);
    }
    if let Some(since) = started {
        steps.add(What::ContainerStarted { container, restarts }, Some(since));
    }
}

/// The time of a phase, which has no timestamp of its own, from its containers.
fn phase_at(pod: &PodLevel) -> Option<Timestamp> {
    let ends = || pod.containers.values().filter_map(|one| one.ended.as_ref());
    match pod.phase {
        PodPhase::Pending => pod.created_at,
        PodPhase::Running => pod.containers.values().filter_map(|one| one.running_since).min(),
        PodPhase::Succeeded | PodPhase::Failed => ends().filter_map(|end: &End| end.at).max(),
        PodPhase::Unknown => None,
    }
}

fn disk(before: &DiskLevel, now: &DiskLevel) -> Vec<StateChange> {
    let mut steps = StateChanges::default();
    steps.sized(before.size, now.size);
    match (&before.bound, &now.bound) {
        (before, Some(to)) if before.as_ref() != Some(to) => {
            steps.add(What::Bound { to: to.clone() }, now.changed_at);
        }
        (Some(_), None) => steps.add(What::Released, now.changed_at),
        (None | Some(_), _) => {}
    }
    steps.deleting(before.deleting_at, now.deleting_at);
    steps.0
}

fn node(before: &NodeLevel, now: &NodeLevel) -> Vec<StateChange> {
    let mut steps = StateChanges::default();
    steps.sized(before.size, now.size);
    if before.class != now.class {
        steps.add(What::Classed { class: now.class.clone() }, None);
    }
    match (before.ready, now.ready) {
        (false, true) => steps.add(What::Ready, now.ready_at),
        (true, false) => steps.add(What::Unready { reason: now.reason.clone() }, now.ready_at),
        (true, true) | (false, false) => {}
    }
    steps.deleting(before.deleting_at, now.deleting_at);
    steps.0
}
