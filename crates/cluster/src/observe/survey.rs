//! The look into a namespace before it is deleted, at the last moment.

use trueup_model::key::Kind;
use trueup_model::order::Order;
use trueup_model::report::{NamespaceSurvey, Outcome};
use trueup_model::survey::Survey;
use trueup_rules::plan::survey::kept_by;
use trueup_rules::plan::{Action, held};

use crate::executor::pass::{Course, Shared, failure};

/// What keeps a plan from being carried out now: a freeze, or what is in a namespace that shall go.
pub(crate) async fn kept_back(
    shared: &Shared,
    order: &Order,
    actions: &[Action],
    course: &mut Course,
) -> Option<Outcome> {
    match shared.frozen(order) {
        Some(freeze) => Some(held(&freeze, actions)),
        None => kept(shared, order, actions, course).await,
    }
}

/// What keeps these actions from being carried out, if one of them would take a namespace away.
///
/// That nothing does goes on record first, and only then the namespace goes: whoever proves its end, and
/// be it another process after this one, can say what was looked at. Each look counts anew: one that
/// finds somebody else's object takes back what was on record.
async fn kept(
    shared: &Shared,
    order: &Order,
    actions: &[Action],
    course: &mut Course,
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
        course.echoes.survey = None;
        course.survey = recorded.then_some(NamespaceSurvey::Kept);
        return Some(kept);
    }
    let survey = Survey { at, kinds: contents.kinds };
    if recorded {
        course.echoes.survey = Some(survey);
        return None;
    }
    course.survey = Some(NamespaceSurvey::Clear(survey));
    Some(Outcome::Waiting { on: "the look into its namespace to be on record".to_owned() })
}
