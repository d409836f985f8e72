//! Costs: what an org's usage costs, by service, item and day, with a forecast.

pub(crate) mod spend;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use jiff::civil::Date;
use serde::Deserialize;
use trueup_api::cost::{
    BillingPeriod, Borne, CostReport, DayCost, GapSummary, ItemCost, ServiceCost, UnpricedUsage,
};
use trueup_api::schema::BillingMonth;
use trueup_model::id::ServiceId;
use trueup_model::money::Money;
use trueup_model::price::PriceItem;
use trueup_model::principal::Permission;
use trueup_model::usage::{MICROS, Meter};
use trueup_rules::admit::FieldError;
use trueup_rules::rate::breakdown::{PartKey, PartSum, parts};
use trueup_rules::rate::line::LineClass;
use trueup_rules::rate::{NotComputable, Rated, Unpriced, UnpricedReason};
use trueup_store::{CostInputs, Error, OrgUsage};

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::extract::Query;
use crate::front::problem::{Answer, Failure};
use crate::plan::money;

/// The day of a month by which it is found in every time zone.
const MIDDLE: i8 = 15;

/// Which period.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Period {
    /// A month; if omitted, the current one.
    #[param(value_type = Option<BillingMonth>, example = "2030-01")]
    pub(crate) period: Option<String>,
}

/// Shows what the org's usage costs in a billing period: so far, per hour, and as a forecast.
///
/// It is computed from what was observed, as far as the sources of usage were heard.
#[utoipa::path(get, path = "/v1/cost", operation_id = "cost_get", tag = "billing", params(Period),
    responses((status = 200, body = CostReport)))]
pub(crate) async fn cost_get(
    State(state): State<AppState>,
    caller: Caller,
    Query(wanted): Query<Period>,
) -> Answer<Json<CostReport>> {
    caller.must(Permission::ReadBilling)?;
    let now = state.clock.now();
    let around = around(wanted.period.as_deref(), now)?;
    let inputs = state.app.cost_inputs(caller.org, around, &state.billing).await?;
    let report = report(&inputs, state.billing.charge_simulated).map_err(Error::from)?;
    Ok(Json(report))
}

/// A moment in the middle of a month, which is in the same month in every time zone.
pub(crate) fn around(month: Option<&str>, now: Timestamp) -> Answer<Timestamp> {
    let Some(month) = month else { return Ok(now) };
    let parsed = month.split_once('-').and_then(|(year, month)| {
        let is_number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
        let is_right = year.len() == 4 && month.len() == 2 && is_number(year) && is_number(month);
        let date = Date::new(year.parse().ok()?, month.parse().ok()?, MIDDLE).ok()?;
        is_right.then_some(date)?.to_zoned(jiff::tz::TimeZone::UTC).ok()
    });
    let message = "must be a month, such as 2030-01";
    let middle = parsed.ok_or_else(|| Failure::invalid(vec![FieldError::at("period", message)]))?;
    Ok(middle.timestamp())
}

fn report(inputs: &CostInputs, charge_simulated: bool) -> Result<CostReport, NotComputable> {
    let rated = inputs.rate(charge_simulated)?;
    let spend = spend::spend(inputs, &rated, charge_simulated)?;
    let parts = parts(&rated.lines, &inputs.account.zone())?;
    let sum = |class: LineClass| value(&rated, class);
    let amount = |micros: i64| money(Money { micros, currency: inputs.account.currency });
    Ok(CostReport {
        period: spend.period,
        currency: spend.currency,
        as_of: spend.as_of,
        spent: spend.spent,
        simulated: amount(total(&parts, |_| true, |sum| sum.simulated_micros)),
        hourly: spend.hourly,
        forecast: spend.forecast,
        borne: Borne {
            under_delivered: amount(sum(LineClass::UnderDelivered)),
            orphan: amount(sum(LineClass::Orphan)),
        },
        gaps: gaps(&inputs.usage),
        services: services(inputs, &parts),
        items: items(inputs, &parts),
        days: days(inputs, &parts),
        unpriced: rated.unpriced.iter().filter_map(unpriced).collect(),
    })
}

pub(crate) fn period(inputs: &CostInputs) -> BillingPeriod {
    let first = inputs.account.zone().to_datetime(inputs.period.from).date();
    BillingPeriod {
        name: first.strftime("%Y-%m").to_string(),
        from: inputs.period.from,
        until: inputs.period.until,
    }
}

fn value(rated: &Rated, class: LineClass) -> i64 {
    let lines = rated.lines.iter().filter(|line| line.key.class == class);
    lines.fold(0, |sum, line| sum.saturating_add(line.value_micros))
}

/// The sum of something over the charged parts.
fn total(
    parts: &BTreeMap<PartKey, PartSum>,
    counts: impl Fn(&PartKey) -> bool,
    of: impl Fn(&PartSum) -> i64,
) -> i64 {
    let charged = parts.iter().filter(|(key, _)| key.class == LineClass::Charged && counts(key));
    charged.fold(0, |sum, (_, part)| sum.saturating_add(of(part)))
}

fn gaps(usage: &OrgUsage) -> GapSummary {
    let micros = usage.gaps.iter().fold(0_i64, |sum, gap| sum.saturating_add(gap.span.micros()));
    GapSummary {
        count: u64::try_from(usage.gaps.len()).unwrap_or(u64::MAX),
        seconds: micros.checked_div(1_000_000).unwrap_or(0),
    }
}

fn services(inputs: &CostInputs, parts: &BTreeMap<PartKey, PartSum>) -> Vec<ServiceCost> {
    let names: BTreeMap<ServiceId, _> = inputs.services.iter().map(|it| (it.id, it)).collect();
    let amount = |micros: i64| money(Money { micros, currency: inputs.account.currency });
    let mut sums: BTreeMap<ServiceId, (i64, i64)> = BTreeMap::new();
    for (key, part) in parts.iter().filter(|(key, _)| key.class == LineClass::Charged) {
        let Some(service) = key.owner.service else { continue };
        let (spent, simulated) = sums.entry(service).or_default();
        *spent = spent.saturating_add(part.value_micros);
        *simulated = simulated.saturating_add(part.simulated_micros);
    }
    let mut ordered: Vec<(ServiceId, (i64, i64))> = sums.into_iter().collect();
    ordered.sort_by_key(|(id, (spent, _))| (std::cmp::Reverse(*spent), *id));
    ordered
        .into_iter()
        .map(|(id, (spent, simulated))| ServiceCost {
            id: id.to_string(),
            project: names.get(&id).map(|it| it.project.clone()).unwrap_or_default(),
            service: names.get(&id).map(|it| it.name.clone()).unwrap_or_default(),
            spent: amount(spent),
            simulated: amount(simulated),
        })
        .collect()
}

fn items(inputs: &CostInputs, parts: &BTreeMap<PartKey, PartSum>) -> Vec<ItemCost> {
    let mut sums: BTreeMap<&PriceItem, (i128, i64)> = BTreeMap::new();
    for (key, part) in parts.iter().filter(|(key, _)| key.class == LineClass::Charged) {
        let (quantity, spent) = sums.entry(&key.item).or_default();
        *quantity = quantity.saturating_add(part.quantity_micros);
        *spent = spent.saturating_add(part.value_micros);
    }
    let view = |(item, (quantity, spent)): (&PriceItem, (i128, i64))| ItemCost {
        item: item.to_string(),
        quantity: exact(quantity),
        unit: item.unit().to_owned(),
        spent: money(Money { micros: spent, currency: inputs.account.currency }),
    };
    sums.into_iter().map(view).collect()
}

fn days(inputs: &CostInputs, parts: &BTreeMap<PartKey, PartSum>) -> Vec<DayCost> {
    let mut sums: BTreeMap<Date, i64> = BTreeMap::new();
    for (key, part) in parts.iter().filter(|(key, _)| key.class == LineClass::Charged) {
        let spent = sums.entry(key.day).or_default();
        *spent = spent.saturating_add(part.value_micros);
    }
    let view = |(day, micros): (Date, i64)| DayCost {
        day: day.to_string(),
        spent: money(Money { micros, currency: inputs.account.currency }),
    };
    sums.into_iter().map(view).collect()
}

/// Usage that should have a price. CPU, memory and GPUs are part of a plan and need none.
fn unpriced(usage: &Unpriced) -> Option<UnpricedUsage> {
    let is_sold = match usage.item.meter() {
        None | Some(Meter::PodSeconds | Meter::DiskGibSeconds | Meter::EgressBytes) => true,
        Some(Meter::CpuMilliSeconds | Meter::MemoryMibSeconds | Meter::GpuSeconds) => false,
    };
    let reason = match usage.reason {
        UnpricedReason::NotSold if !is_sold => return None,
        UnpricedReason::NotSold => "the item has no price: give the service a plan",
        UnpricedReason::OtherCurrency => {
            "the item has no price in this currency: publish one, or change the currency of the org"
        }
        UnpricedReason::NotInForce => "no price was in force at that time",
    };
    Some(UnpricedUsage {
        item: usage.item.to_string(),
        quantity: exact(usage.segment.quantity_micros),
        unit: usage.item.unit().to_owned(),
        reason: reason.to_owned(),
    })
}

/// A quantity in millionths as a decimal number.
pub(crate) fn exact(micros: i128) -> String {
    let (whole, rest) = (micros.div_euclid(MICROS), micros.rem_euclid(MICROS));
    let text = format!("{whole}.{rest:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
