//! The state of the layer: pending faults, active lasting faults, and notes.

use std::collections::{BTreeSet, VecDeque};
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use trueup_cluster::Fence;
use trueup_model::key::{Kind, ResourceKey};

use super::journal::{Call, Target};
use super::notes::Notes;
use super::outside;
use super::plan::{Fault, FaultAction, Trigger};
use crate::fake_cluster::{FakeCluster, Write};

#[derive(Default)]
pub(super) struct State {
    faults: Vec<Pending>,
    pub(super) notes: Notes,
    pub(super) step: usize,
    pub(super) dead: bool,
    outages: Vec<Span>,
    refused: Option<(Kind, Span)>,
    stale: Option<(String, Span)>,
    pub(super) last_write: Option<Write>,
    fence: Option<Arc<Fence>>,
    /// The lease cannot be renewed before this monotonic time.
    lease_back_at: Duration,
    /// What must exist before any workload is created.
    pub(super) guards: BTreeSet<ResourceKey>,
}

struct Pending {
    fault: Fault,
    /// How many more calls it applies to.
    left: usize,
    taken: bool,
    happened: bool,
}

/// A span of monotonic time in which a lasting fault is active.
#[derive(Clone, Copy)]
struct Span {
    from: Duration,
    until: Duration,
    fault: usize,
}

impl Span {
    fn holds(self, now: Duration) -> bool {
        self.from <= now && now < self.until
    }
}

/// A fault that is due now.
pub(super) struct Due {
    pub(super) fault: usize,
    pub(super) action: FaultAction,
}

impl State {
    pub(super) fn new(faults: &[Fault]) -> Self {
        let pending = |fault: &Fault| Pending {
            fault: fault.clone(),
            left: if let FaultAction::Fail(_, times) = fault.then { times.max(1) } else { 1 },
            taken: false,
            happened: false,
        };
        Self { faults: faults.iter().map(pending).collect(), ..Self::default() }
    }

    /// The fault that is due here, if any. It has had no effect yet.
    pub(super) fn take(&mut self, here: &Trigger, write: Option<&Call>) -> Option<Due> {
        let place = self.faults.iter().position(|pending| {
            let is_here = match (&pending.fault.at, here, write) {
                // Task scheduling varies: the planned write may come a little later.
                (Trigger::Write(first), Trigger::Write(number), Some(call)) => {
                    number >= first && applies_to(&pending.fault.then, call, number == first)
                }
                (at, here, _) => at == here,
            };
            // A fault for several calls continues with the following ones.
            let continues = pending.taken && discriminant(&pending.fault.at) == discriminant(here);
            pending.left > 0 && (is_here || continues)
        })?;
        let pending = &mut self.faults[place];
        pending.left -= 1;
        pending.taken = true;
        Some(Due { fault: place, action: pending.fault.then.clone() })
    }

    /// Records that a fault had an effect.
    pub(super) fn happened(&mut self, fault: usize) {
        self.faults[fault].happened = true;
    }

    /// For each fault, whether it had an effect.
    pub(super) fn fired(&self) -> Vec<bool> {
        self.faults.iter().map(|pending| pending.happened).collect()
    }

    /// Begins a lasting fault.
    pub(super) fn begin(&mut self, due: &Due, now: Duration, version: impl FnOnce() -> String) {
        let seconds = Duration::from_secs;
        let span = |from, length| Span { from, until: from + seconds(length), fault: due.fault };
        match due.action {
            FaultAction::Away(length) => self.outages.push(span(now, length)),
            FaultAction::Flap(times) => {
                self.outages.extend((0..times).map(|turn| span(now + seconds(turn * 4), 2)));
            }
            FaultAction::Refuse(kind, length) => self.refused = Some((kind, span(now, length))),
            FaultAction::Stale(length) => self.stale = Some((version(), span(now, length))),
            FaultAction::LeaseEnds(length) => {
                self.lease_back_at = now + seconds(length);
                if let Some(fence) = self.fence.clone().filter(|fence| fence.is_open()) {
                    fence.close();
                    self.happened(due.fault);
                }
            }
            FaultAction::Crash(_)
            | FaultAction::Fail(..)
            | FaultAction::Lose(_)
            | FaultAction::Hang(_)
            | FaultAction::ForeignEdit
            | FaultAction::ForeignDelete
            | FaultAction::ForeignRelabel
            | FaultAction::ForeignTakeOver(_)
            | FaultAction::Silence(..)
            | FaultAction::Twice
            | FaultAction::Drop(_) => {}
        }
    }

    /// Whether a lasting fault is still active.
    pub(super) fn is_broken(&self, now: Duration) -> bool {
        let spans = self.outages.iter().copied();
        let spans = spans.chain(self.refused.map(|(_, span)| span));
        let mut spans = spans.chain(self.stale.as_ref().map(|(_, span)| *span));
        spans.any(|span| span.until > now) || self.lease_back_at > now
    }

    /// Whether the cluster is unreachable now; if so, its fault has had an effect.
    pub(super) fn is_unreachable(&mut self, now: Duration) -> bool {
        let span = self.outages.iter().copied().find(|span| span.holds(now));
        span.inspect(|span| self.happened(span.fault)).is_some()
    }

    /// Whether writes of this kind are refused now; if so, the fault has had an effect.
    pub(super) fn refuse(&mut self, kind: Kind, now: Duration) -> bool {
        let refused = self.refused.filter(|(one, span)| *one == kind && span.holds(now));
        refused.inspect(|(_, span)| self.happened(span.fault)).is_some()
    }

    /// The version of stale lists and watches, and for how long they stay stale.
    pub(super) fn stale(&self, now: Duration) -> Option<(String, Duration)> {
        let (version, span) = self.stale.as_ref().filter(|(_, span)| span.holds(now))?;
        Some((version.clone(), span.until - now))
    }

    /// Records that an event was delayed or a list was stale.
    pub(super) fn note_stale(&mut self) {
        if let Some(fault) = self.stale.as_ref().map(|(_, span)| span.fault) {
            self.happened(fault);
        }
    }

    /// The time until the next outage begins or ends.
    pub(super) fn next_outage_change(&self, now: Duration) -> Option<Duration> {
        let changes = self.outages.iter().flat_map(|span| [span.from, span.until]);
        changes.filter(|at| *at > now).min().map(|at| at - now)
    }

    /// Sets the fence of the current process.
    pub(super) fn set_fence(&mut self, fence: Arc<Fence>) {
        self.fence = Some(fence);
    }

    /// Renews the lease, unless a fault prevents that.
    pub(super) fn renew_lease(&self, now: Duration, ttl: Duration) {
        if let Some(fence) = self.fence.as_ref().filter(|_| self.lease_back_at <= now) {
            fence.open(now, ttl);
        }
    }

    /// Whether the process may not write now.
    pub(super) fn is_fenced(&self) -> bool {
        self.fence.as_ref().is_some_and(|fence| !fence.is_open())
    }
}

/// Whether a fault can happen at this write, which is the planned one or a later one.
fn applies_to(action: &FaultAction, call: &Call, is_planned: bool) -> bool {
    match action {
        // A foreign change needs an existing object.
        FaultAction::ForeignEdit => call.target != Target::Absent,
        FaultAction::ForeignDelete | FaultAction::ForeignRelabel => call.target == Target::Present,
        FaultAction::ForeignTakeOver(side) => outside::can_take_over(call, *side),
        FaultAction::Refuse(kind, _) => call.key.kind == *kind,
        _ => is_planned,
    }
}

/// An object and everything that is deleted with it: dependents, or the content of a namespace.
pub(super) fn with_dependents(fake: &FakeCluster, key: &ResourceKey) -> BTreeSet<ResourceKey> {
    let text = |object: &Value, name: &str| {
        object["metadata"][name].as_str().unwrap_or_default().to_owned()
    };
    let all = Kind::ALL.into_iter().flat_map(|kind| {
        let objects = fake.objects(kind).into_iter();
        objects.map(move |object| (kind, object))
    });
    let all: Vec<(ResourceKey, Value)> = all
        .map(|(kind, it)| (ResourceKey::new(kind, &text(&it, "namespace"), &text(&it, "name")), it))
        .collect();
    if key.kind == Kind::Namespace {
        let inside = all.into_iter().map(|(one, _)| one).filter(|one| one.namespace == key.name);
        return inside.chain([key.clone()]).collect();
    }
    let mut found = BTreeSet::from([key.clone()]);
    let mut left = VecDeque::from([key.clone()]);
    while let Some(owner) = left.pop_front() {
        let uid = all.iter().find(|(one, _)| *one == owner).map(|(_, it)| text(it, "uid"));
        let owned = all.iter().filter(|(_, it)| {
            let owners = it["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            uid.as_ref().is_some_and(|uid| owners.into_iter().any(|one| one["uid"] == **uid))
        });
        let owned: Vec<ResourceKey> = owned.map(|(one, _)| one.clone()).collect();
        left.extend(owned.into_iter().filter(|one| found.insert(one.clone())));
    }
    found
}
