//! Subscriptions: the offer that an org has, and its changes.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::preview::OrPreview;
use trueup_api::subscription::{
    BeginsAt, IncludedUse, LimitChange, Subscribed, Subscription, SubscriptionBody,
    SubscriptionChange,
};
use trueup_model::money::Money;
use trueup_model::offer as model;
use trueup_model::price::PriceItem;
use trueup_model::principal::Permission;
use trueup_model::quota::Resource;
use trueup_rules::admit::FieldError;
use trueup_rules::rate::subscription::{held_at, included, part};
use trueup_rules::rate::{NotComputable, Rated};
use trueup_store::door::{self, SubscriptionRequest};
use trueup_store::{CostInputs, Error};

use crate::AppState;
use crate::cost::exact;
use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::problem::{Answer, Failure};
use crate::plan::money;
use crate::write::request::{DryRun, WriteRequest};

/// Shows what the org subscribed to, and what is used of the included units in this billing period.
#[utoipa::path(get, path = "/v1/subscription", operation_id = "subscription_get", tag = "billing",
    responses((status = 200, body = Subscription)))]
pub(crate) async fn subscription_get(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<Subscription>> {
    caller.must(Permission::ReadBilling)?;
    let now = state.clock.now();
    let inputs = state.app.cost_inputs(caller.org, now, &state.billing).await?;
    let rated = inputs.rate(state.billing.charge_simulated).map_err(Error::from)?;
    let current = held_at(&inputs.subscriptions, now);
    let included = match current {
        Some(held) => used(&inputs, &rated, held).map_err(Error::from)?,
        None => Vec::new(),
    };
    let next = inputs.subscriptions.iter().find(|one| one.from > now);
    Ok(Json(Subscription {
        current: current.map(subscribed),
        next: next.map(subscribed),
        included,
        balance: money(state.app.find_balance(caller.org, &state.billing).await?),
        until: inputs.period.until,
    }))
}

/// Changes the subscription of the org: at once, or with the next billing period in its time zone.
///
/// What held before stays on record, and a billing period is divided at the moment of the change: each
/// part has its part of the fee and of the included units. A change at once is refused if more is used
/// than the offer allows. With `dry_run=true` the response says what the change would do.
#[utoipa::path(put, path = "/v1/subscription", operation_id = "subscription_put", tag = "billing",
    params(DryRun), request_body = SubscriptionBody,
    responses((status = 200, description = "the change, or a preview",
               body = OrPreview<SubscriptionChange>)))]
pub(crate) async fn subscription_put(
    change: WriteRequest,
    Body(body): Body<SubscriptionBody>,
) -> Answer<Response> {
    change.must(Permission::ManageBilling)?;
    let Ok(at) = body.at.parse::<BeginsAt>() else {
        let message = "must be `now` or `next_period`";
        return Err(Failure::invalid(vec![FieldError::at("at", message)]));
    };
    let wanted = SubscriptionRequest {
        offer: &body.offer,
        version: body.version,
        next_period: at == BeginsAt::NextPeriod,
    };
    let (org, context, now) = (change.org(), change.context(), change.now());
    let billing = &change.state.billing;
    let put = change.app().put_subscription(org, wanted, billing, &context, now).await?;
    change.done(put.changed, &view(&put.row))
}

/// What is used of the units that a subscription includes in this period.
fn used(
    inputs: &CostInputs,
    rated: &Rated,
    held: &model::Subscription,
) -> Result<Vec<IncludedUse>, NotComputable> {
    let Some(part) = part(held, inputs.period) else { return Ok(Vec::new()) };
    let mut sums: BTreeMap<&PriceItem, (i128, i128)> = BTreeMap::new();
    for line in rated.lines.iter().filter(|line| line.key.subscription == Some(held.id)) {
        let (used, charged) = sums.entry(&line.key.item).or_default();
        *used = used.saturating_add(line.included_micros);
        *charged =
            charged.saturating_add(line.quantity_micros).saturating_sub(line.included_micros);
    }
    let use_of = |one: &model::Included| {
        let units = included(&held.offer, &one.item, part, inputs.period)?.unwrap_or(0);
        let (used, charged) = sums.get(&one.item).copied().unwrap_or_default();
        Ok(IncludedUse {
            item: one.item.to_string(),
            unit: one.item.unit().to_owned(),
            units: exact(units),
            used: exact(used),
            charged: exact(charged),
        })
    };
    held.offer.included.iter().map(use_of).collect()
}

fn subscribed(held: &model::Subscription) -> Subscribed {
    Subscribed {
        id: held.id.to_string(),
        offer: crate::offer::view(&held.offer),
        from: held.from,
        until: held.until,
    }
}

fn view(change: &door::SubscriptionChange) -> SubscriptionChange {
    let [before, after] = change.monthly;
    let difference =
        Money { micros: after.micros.saturating_sub(before.micros), currency: after.currency };
    let limit = |resource: Resource| LimitChange {
        resource,
        used: change.quota.used.get(resource),
        before: change.quota.limit.get(resource),
        after: change.after.offer.limits.get(resource),
    };
    let warning = |one: &trueup_rules::rate::subscription::Excess| {
        format!(
            "{} {} are used now, and the offer allows {}: what exists stays, and nothing more is accepted \
             from then on",
            one.used,
            one.resource.into_str(),
            one.limit
        )
    };
    SubscriptionChange {
        before: change.before.as_ref().map(subscribed),
        after: subscribed(&change.after),
        monthly_before: money(before),
        monthly_after: money(after),
        monthly_difference: money(difference),
        limits: Resource::ALL.into_iter().map(limit).collect(),
        warnings: change.exceeded.iter().map(warning).collect(),
    }
}
