//! The stages of a unit: each is written when the one before is converged.

use trueup_model::drift::Divergence;
use trueup_model::order::Order;

use super::former::Former;
use super::judge::{Judged, ObjectPlan, judge};
use super::pause::hold_back;
use super::{ActionPlan, Observed, deletion_blockers};
use crate::render::Rendered;
use crate::render::proof::ProofKey;

/// Goes through the stages: the first one that is not converged makes the plan. Later ones are
/// compared as well, so that everything that stands is known at any time.
pub(super) struct Stages<'a> {
    order: &'a Order,
    observed: &'a Observed,
    proofs: &'a ProofKey,
    former: Former,
    plan: Option<ActionPlan>,
    standing: Vec<Divergence>,
}

impl<'a> Stages<'a> {
    pub(super) fn new(order: &'a Order, observed: &'a Observed, proofs: &'a ProofKey) -> Self {
        let (former, standing) = (Former::default(), Vec::new());
        Self { order, observed, proofs, former, plan: None, standing }
    }

    /// Sets the objects of the order that this one replaces.
    pub(super) fn set_former(&mut self, former: Former) {
        self.former = former;
    }

    /// Whether all stages so far are converged.
    pub(super) const fn are_converged(&self) -> bool {
        self.plan.is_none()
    }

    /// A stage of objects that may be written concurrently.
    pub(super) fn write(&mut self, stage: &[Rendered]) {
        let mut actions = Vec::new();
        let mut waits = Vec::new();
        let mut blocked = None;
        let missing = &self.observed.missing;
        for rendered in stage.iter().filter(|one| !missing.contains_key(&one.key.kind)) {
            let judged = judge(self.order, &self.former, self.observed, self.proofs, rendered);
            let Judged { plan, standing } =
                hold_back(judged, &self.order.drift, self.observed.as_of);
            self.standing.extend(standing);
            match plan {
                ObjectPlan::Fine => {}
                ObjectPlan::Act(action) => actions.push(*action),
                ObjectPlan::Wait => {
                    let live = self.observed.objects.get(&rendered.key).map(|live| &**live);
                    waits.push(deletion_blockers::ending(&rendered.key, live));
                }
                ObjectPlan::Pause(on) => waits.push(on),
                ObjectPlan::Blocked(why) => blocked = blocked.or(Some(why)),
            }
        }
        self.then(|| {
            if let Some(why) = blocked {
                Some(ActionPlan::blocked(why))
            } else if !actions.is_empty() {
                Some(ActionPlan::act(actions))
            } else if !waits.is_empty() {
                Some(ActionPlan::wait(waits.join(", ")))
            } else {
                None
            }
        });
    }

    /// A stage that makes its own plan, if all before are converged.
    pub(super) fn then(&mut self, plan: impl FnOnce() -> Option<ActionPlan>) {
        if self.plan.is_none() {
            self.plan = plan();
        }
    }

    /// The plan: that of the first stage that is not converged, or else this one.
    pub(super) fn end(self, last: impl FnOnce() -> ActionPlan) -> ActionPlan {
        let mut standing = self.standing;
        standing.sort_by(|a, b| (&a.key, &a.field).cmp(&(&b.key, &b.field)));
        ActionPlan { standing, ..self.plan.unwrap_or_else(last) }
    }
}
