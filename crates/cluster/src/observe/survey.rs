//! Survey of a namespace right before it is deleted.

use trueup_model::key::Kind;
use trueup_model::order::Order;
use trueup_model::report::{NamespaceSurvey, Outcome};
use trueup_model::survey::Survey;
use trueup_rules::plan::survey::kept_by;
use trueup_rules::plan::{Action, held};

use crate::executor::pass::{Progress, Shared, failure};

/// What stops a plan now: a freeze, or foreign objects in a namespace that it would delete.
pub(crate) async fn stopped_by(
    shared: &Shared,
    order: &Order,
    actions: &[Action],
    progress: &mut Progress,
) -> Option<Outcome> {
    match shared.frozen(order) {
        Some(freeze) => Some(held(&freeze, actions)),
        None => blocked_by_contents(shared, order, actions, progress).await,
    }
}

/// What stops these actions, if one of them deletes a namespace.
///
/// A clear survey is recorded first, and the namespace is deleted only in a later pass: the process
/// that writes the deletion receipt, possibly another one, can then say what was surveyed. Every
/// survey counts: one that finds a foreign object withdraws the recorded one.
async fn blocked_by_contents(
    shared: &Shared,
    order: &Order,
    actions: &[Action],
    progress: &mut Progress,
) -> Option<Outcome> {
    let is_namespace = |action: &Action| matches!(action, Action::Delete { key, .. } if key.kind == Kind::Namespace);
    if !actions.iter().any(is_namespace) {
        return None;
    }
    let at = shared.clock.now();
    let contents = match shared.cluster.contents(&order.namespace).await {
        Ok(contents) => contents,
        Err(error) => return Some(failure(&error)),
    };
    let recorded = order.permit.survey.is_some();
    if let Some(kept) = kept_by(order, &contents) {
        progress.memory.survey = None;
        progress.survey = recorded.then_some(NamespaceSurvey::Kept);
        return Some(kept);
    }
    let survey = Survey { at, kinds: contents.kinds };
    if recorded {
        progress.memory.survey = Some(survey);
        return None;
    }
    progress.survey = Some(NamespaceSurvey::Clear(survey));
    Some(Outcome::Waiting { on: "the survey of its namespace to be recorded".to_owned() })
}
