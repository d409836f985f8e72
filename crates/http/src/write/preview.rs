//! The preview of a write, from the result of its dry run.

use serde_json::Value;
use trueup_api::plan::Amount;
use trueup_api::preview::{
    Preview, PreviewField, PreviewObject, PreviewUnit, PreviewUnitKind, PreviewVerb,
};
use trueup_model::key::Kind;
use trueup_model::order::{Body, Order, Unit};
use trueup_model::plan::Plan;
use trueup_model::service::DesiredState;
use trueup_rules::preview::{FieldChange, ObjectDiff, Verb, changes, cost, replaces_pods};
use trueup_store::{DryRunResult, DryRunUnit};

/// The preview of a write.
pub(crate) fn of(dry_run: DryRunResult, changed: bool, result: Value) -> Preview {
    let DryRunResult { units, quota } = dry_run;
    let units = units.iter().map(unit).collect();
    Preview {
        changed,
        result: Some(result).filter(|result| !result.is_null()),
        units,
        quota: quota.as_ref().map(crate::quota::view),
    }
}

/// The preview without what only readers of content may see: names and values of variables.
pub(crate) fn without_content(mut preview: Preview) -> Preview {
    for object in preview.units.iter_mut().flat_map(|unit| &mut unit.objects) {
        if matches!(object.kind, Kind::ConfigMap | Kind::Secret) {
            object.fields.clear();
        }
    }
    preview
}

fn unit(unit: &DryRunUnit) -> PreviewUnit {
    let DryRunUnit { name, before, after, plans: [plan_before, plan_after] } = unit;
    let before = before.as_ref();
    PreviewUnit {
        kind: unit_kind(after.unit),
        name: name.clone(),
        generation: after.generation,
        desired: after.desired,
        objects: changes(before, after).into_iter().map(object).collect(),
        replaces_pods: replaces_pods(before, after),
        monthly_before: before.and_then(|before| monthly(before, plan_before.as_ref())),
        monthly_after: monthly(after, plan_after.as_ref()),
        priced_pods: plan_after.as_ref().and_then(|_| autoscaled(after)),
    }
}

/// The maximum of pods of a running service that is autoscaled.
fn autoscaled(order: &Order) -> Option<u32> {
    match (&order.body, order.desired) {
        (Body::Service(body), DesiredState::Active) => {
            body.spec.autoscale.as_ref().map(|autoscale| autoscale.max)
        }
        (Body::Service(_), DesiredState::Paused | DesiredState::Deleted) | (Body::Project, _) => {
            None
        }
    }
}

fn monthly(order: &Order, plan: Option<&Plan>) -> Option<Amount> {
    match &order.body {
        Body::Service(body) => {
            let hourly = cost::hourly(&body.spec, order.desired, plan?);
            Some(crate::plan::money(cost::monthly(hourly)))
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
        kind: change.key.kind,
        namespace: change.key.namespace,
        name: change.key.name,
        verb: verb(change.verb),
        fields: change.fields.into_iter().map(field).collect(),
    }
}

fn unit_kind(unit: Unit) -> PreviewUnitKind {
    match unit {
        Unit::Service(_) => PreviewUnitKind::Service,
        Unit::Project(_) => PreviewUnitKind::Project,
    }
}

fn verb(verb: Verb) -> PreviewVerb {
    match verb {
        Verb::Create => PreviewVerb::Create,
        Verb::Update => PreviewVerb::Update,
        Verb::Delete => PreviewVerb::Delete,
    }
}
