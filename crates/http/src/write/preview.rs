//! From what was rehearsed to what a preview shows.

use serde_json::Value;
use trueup_api::plan::Amount;
use trueup_api::preview::{Preview, PreviewField, PreviewObject, PreviewUnit};
use trueup_model::order::{Body, Order};
use trueup_model::plan::Plan;
use trueup_rules::preview::{FieldChange, ObjectDiff, changes, cost, replaces_pods};
use trueup_store::{DryRunResult, DryRunUnit};

use crate::view;

pub(crate) fn of(rehearsed: DryRunResult, changed: bool, result: Value) -> Preview {
    let DryRunResult { units, quota } = rehearsed;
    Preview {
        changed,
        result: Some(result).filter(|result| !result.is_null()),
        units: units.iter().map(unit).collect(),
        quota: quota.as_ref().map(view::quota),
    }
}

fn unit(unit: &DryRunUnit) -> PreviewUnit {
    let DryRunUnit { name, before, after, plans: [plan_before, plan_after] } = unit;
    let before = before.as_ref();
    PreviewUnit {
        kind: after.unit.kind().to_owned(),
        name: name.clone(),
        generation: after.generation,
        desired: view::word(&after.desired),
        objects: changes(before, after).into_iter().map(object).collect(),
        replaces_pods: replaces_pods(before, after),
        monthly_before: before.and_then(|before| monthly(before, plan_before.as_ref())),
        monthly_after: monthly(after, plan_after.as_ref()),
    }
}

fn monthly(order: &Order, plan: Option<&Plan>) -> Option<Amount> {
    match &order.body {
        Body::Service(body) => {
            let hourly = cost::hourly(&body.spec, order.desired, plan?);
            Some(view::money(cost::monthly(hourly)))
        }
        Body::Project => None,
    }
}

fn object(change: ObjectDiff) -> PreviewObject {
    let field = |field: FieldChange| PreviewField {
        path: field.path,
        before: field.before,
        after: field.after,
    };
    PreviewObject {
        kind: change.key.kind.to_string(),
        namespace: change.key.namespace,
        name: change.key.name,
        verb: view::word(&change.verb),
        fields: change.fields.into_iter().map(field).collect(),
    }
}
