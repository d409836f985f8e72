//! From what the door would do to what a preview shows.

use trueup_api::preview::{Preview, PreviewField, PreviewObject};
use trueup_model::order::Order;
use trueup_model::plan::Plan;
use trueup_model::quota::Quota;
use trueup_model::service::Service;
use trueup_rules::cost;
use trueup_rules::preview::{ObjectChange, changes, replaces_pods};
use trueup_store::ProjectRow;
use trueup_store::door::{Accepted, Previewed};

use crate::view;

pub(crate) fn service(previewed: Previewed) -> Preview {
    let Previewed { before, after, namespace, plans: [plan_before, plan_after], quota } = previewed;
    let monthly = |service: &Service, plan: Option<&Plan>| {
        let hourly = cost::hourly(&service.spec, service.desired, plan?);
        Some(view::money(cost::monthly(hourly)))
    };
    let monthly_before = before.as_ref().and_then(|before| monthly(before, plan_before.as_ref()));
    let monthly_after = monthly(&after, plan_after.as_ref());
    let changed = before.as_ref() != Some(&after);
    let (generation, desired) = (after.generation, view::word(&after.desired));
    let order = |service| Order::of_service(service, namespace.clone());
    let (before, after) = (before.map(order), order(after));
    Preview {
        changed,
        generation,
        desired,
        objects: changes(before.as_ref(), &after).into_iter().map(object).collect(),
        replaces_pods: replaces_pods(before.as_ref(), &after),
        monthly_before,
        monthly_after,
        quota: view::quota(&quota),
    }
}

pub(crate) fn project(accepted: &Accepted<ProjectRow>, quota: &Quota) -> Preview {
    let order = Order::of_project(&accepted.row.project);
    let before = (!accepted.changed).then_some(&order);
    Preview {
        changed: accepted.changed,
        generation: order.generation,
        desired: view::word(&order.desired),
        objects: changes(before, &order).into_iter().map(object).collect(),
        replaces_pods: false,
        monthly_before: None,
        monthly_after: None,
        quota: view::quota(quota),
    }
}

fn object(change: ObjectChange) -> PreviewObject {
    PreviewObject {
        kind: change.key.kind.to_string(),
        namespace: change.key.namespace,
        name: change.key.name,
        verb: view::word(&change.verb),
        fields: change
            .fields
            .into_iter()
            .map(|field| PreviewField {
                path: field.path,
                before: field.before,
                after: field.after,
            })
            .collect(),
    }
}
