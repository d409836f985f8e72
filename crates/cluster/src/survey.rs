//! The look into a namespace before it is deleted, at the last moment.

use trueup_model::key::Kind;
use trueup_model::order::Order;
use trueup_model::report::Outcome;
use trueup_model::survey::Survey;
use trueup_rules::plan::{Action, held};
use trueup_rules::survey::kept_by;

use crate::echo::Echoes;
use crate::pass::{Shared, failure};

/// What keeps a plan from being carried out now: a freeze, or what is in a namespace that shall go.
pub(crate) async fn kept_back(
    shared: &Shared,
    order: &Order,
    actions: &[Action],
    echoes: &mut Echoes,
) -> Option<Outcome> {
    match shared.frozen(order) {
        Some(freeze) => Some(held(&freeze, actions)),
        None => kept(shared, order, actions, echoes).await,
    }
}

/// What keeps these actions from being carried out, if one of them would take a namespace away. That
/// nothing does is remembered for the receipt.
async fn kept(
    shared: &Shared,
    order: &Order,
    actions: &[Action],
    echoes: &mut Echoes,
) -> Option<Outcome> {
    let is_namespace = |action: &Action| matches!(action, Action::Delete { key, .. } if key.kind == Kind::Namespace);
    if !actions.iter().any(is_namespace) {
        return None;
    }
    let at = shared.clock.now();
    match shared.cluster.contents(&order.namespace).await {
        Ok(contents) => {
            let kept = kept_by(order, &contents);
            if kept.is_none() {
                echoes.survey = Some(Survey { at, kinds: contents.kinds });
            }
            kept
        }
        Err(error) => Some(failure(&error)),
    }
}
