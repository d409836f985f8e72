//! The order for one unit and the last report about it.

use trueup_model::observation::Run;
use trueup_model::order::{Body, Order};
use trueup_model::report::{NamespaceSurvey, ObjectChange, Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::spec::Workload;

/// The order for a unit and the last report about it.
#[derive(Debug)]
pub(super) struct UnitHistory {
    pub(super) order: Order,
    pub(super) last: Option<Report>,
}

impl UnitHistory {
    pub(super) const fn new(order: Order) -> Self {
        Self { order, last: None }
    }

    /// Whether there is a deletion receipt, which is final and survives restarts.
    pub(super) fn has_ended(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.receipt.is_some())
    }

    /// Whether the last report shows the desired state of the order.
    pub(super) fn is_converged(&self) -> bool {
        let (order, Some(report)) = (&self.order, &self.last) else { return false };
        if report.generation != order.generation {
            return false;
        }
        match order.desired {
            DesiredState::Deleted => report.receipt.is_some(),
            DesiredState::Active | DesiredState::Paused => {
                report.outcome == Outcome::Converged && is_up(order, report)
            }
        }
    }

    /// Stores what the database would store of a report; returns a violation, if any.
    pub(super) fn record_report(&mut self, report: Report) -> Option<String> {
        let last = self.last.as_ref().map_or(0, |last| last.generation);
        let seen = (last, report.generation, self.order.generation);
        let out_of_range = report.generation < last || report.generation > self.order.generation;
        match &report.survey {
            Some(NamespaceSurvey::Clear(survey)) => {
                self.order.permit.survey.get_or_insert_with(|| survey.clone());
            }
            Some(NamespaceSurvey::Kept) => self.order.permit.survey = None,
            None => {}
        }
        let recorded = &mut self.order.recorded;
        if self.order.desired != DesiredState::Deleted {
            for change in &report.changes {
                if let ObjectChange::Removed { key } = change {
                    recorded.insert(key.clone(), None);
                }
            }
        }
        for seen in report.observation.iter().flat_map(|seen| &seen.objects) {
            if let Some(uid) = recorded.get_mut(&seen.key) {
                *uid = Some(seen.uid.clone());
            }
        }
        self.last = Some(report);
        out_of_range
            .then(|| format!("O6: generation out of range (last, reported, ordered): {seen:?}"))
    }
}

/// Whether the reported workload matches the order.
fn is_up(order: &Order, report: &Report) -> bool {
    let Body::Service(body) = &order.body else { return true };
    let Some(seen) = &report.observation else { return false };
    let Some(workload) = &seen.workload else { return false };
    match body.spec.workload {
        Workload::Deployment | Workload::StatefulSet => {
            let ready = seen.pods.iter().filter(|pod| pod.ready).count();
            workload.current
                && workload.ready == workload.wanted
                && workload.updated == workload.wanted
                && u32::try_from(ready) == Ok(workload.wanted)
                && (order.desired == DesiredState::Paused) == (workload.wanted == 0)
        }
        Workload::Job if order.desired == DesiredState::Paused => true,
        Workload::Job => workload.runs.as_ref().is_some_and(|runs| runs.last == Run::Succeeded),
        Workload::CronJob => true,
    }
}
