//! Where the capacity of a cluster went: delivered, idle, without an owner, unobserved, or lost.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use trueup_api::Code;
use trueup_api::cluster::{CapacityAccount, CapacityCost, CapacityDay, CapacityReport};
use trueup_api::schema::ClusterKey;
use trueup_model::principal::Permission;
use trueup_model::usage::{Meter, Unsold};
use trueup_rules::usage::capacity::Account;
use trueup_store::CapacityDay as Row;

use crate::AppState;
use crate::cost::exact;
use crate::front::caller::Scope;
use crate::front::extract::{Path, Query};
use crate::front::problem::{Answer, Failure};
use crate::plan::money;

/// The most days that are shown.
const MOST: i32 = 400;
/// How many days are shown.
const DEFAULT: i32 = 7;

/// How many days.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// The number of days, up to 400; the default is 7.
    #[param(minimum = 1, maximum = 400)]
    days: Option<i32>,
}

/// Shows where the capacity of a cluster's nodes went, by day. For operators.
///
/// Delivered, idle, orphaned, unobserved and under-delivered capacity add up to what all nodes had.
/// It is computed from the usage that is billed, and kept.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/capacity", operation_id = "cluster_capacity",
    tag = "clusters",
    params(("cluster" = ClusterKey, Path, description = "name or id"), Wanted),
    extensions(("x-problems" = json!([Code::BadRequest]))),
    responses((status = 200, body = CapacityReport)))]
pub(crate) async fn cluster_capacity(
    State(state): State<AppState>,
    Scope(caller): Scope,
    Path(cluster): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer<Json<CapacityReport>> {
    caller.must(Permission::ReadPlatform)?;
    let days = wanted.days.unwrap_or(DEFAULT);
    if !(1..=MOST).contains(&days) {
        return Err(Failure::new(Code::BadRequest, format!("`days` must be from 1 to {MOST}")));
    }
    let found = state.app.find_cluster(caller.org, &cluster).await?;
    let (row, _) = found.ok_or_else(|| Failure::not_found("cluster"))?;
    let days = state.app.list_capacity_days(Some(row.id), days).await?;
    let holds = days.iter().all(Row::holds);
    Ok(Json(CapacityReport { holds, items: days.iter().map(day).collect() }))
}

fn day(row: &Row) -> CapacityDay {
    let cost = |(why, cost): &(Unsold, _)| CapacityCost { why: *why, cost: money(*cost) };
    CapacityDay {
        day: row.day.clone(),
        known_until: row.known_until,
        meters: row.accounts.iter().map(|(meter, it)| account(*meter, it)).collect(),
        costs: row.costs.iter().map(cost).collect(),
    }
}

fn account(meter: Meter, account: &Account) -> CapacityAccount {
    CapacityAccount {
        meter,
        unit: meter.unit().to_owned(),
        capacity: exact(account.capacity),
        delivered: exact(account.delivered),
        idle: exact(account.idle),
        orphan: exact(account.orphan),
        gap: exact(account.gap),
        under_delivered: exact(account.under_delivered),
        unexplained: exact(account.unexplained),
    }
}
