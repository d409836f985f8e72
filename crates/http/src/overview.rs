//! The overview: what the dashboard opens with, and `trueup status` prints.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use trueup_api::overview::{
    DriftNow, Need, NeedCause, NeedList, Overview, SealLag, ServiceCounts, WorkNow,
};
use trueup_model::principal::Permission;
use trueup_model::status::{Health, Phase};
use trueup_store::{self as store, ServiceCount};

use crate::AppState;
use crate::cluster;
use crate::front::caller::Caller;
use crate::front::problem::Answer;
use crate::plan::money;

/// Shows the state of the org at a glance: numbers of services, what needs a person, drift, work in
/// flight, clusters and spend.
#[utoipa::path(get, path = "/v1/overview", operation_id = "overview_get", tag = "overview",
    responses((status = 200, body = Overview)))]
pub(crate) async fn overview_get(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<Overview>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let now = state.clock.now();
    let found = app.overview(caller.org, now).await?;
    let clusters = app.list_clusters().await?;
    let spend = state.spend.of(&state, caller.org, now).await?;
    Ok(Json(Overview {
        as_of: now,
        needs: needs(&found),
        drift: DriftNow {
            open: found.divergences,
            proposals: found.proposals,
            conflicts: found.conflicts,
            hourly: found.drift_hourly.iter().copied().map(money).collect(),
        },
        work: WorkNow {
            queued: found.queued,
            running: found.running,
            dead: found.dead,
            oldest_due_at: found.waits_since,
        },
        clusters: clusters.iter().map(|row| cluster::view(row, now)).collect(),
        spend,
        seal: SealLag { unsealed: found.unsealed, oldest_at: found.unsealed_since },
        services: counts(&found.services),
    }))
}

fn counts(found: &[ServiceCount]) -> ServiceCounts {
    let by = |key: fn(&ServiceCount) -> String| {
        let mut sums = BTreeMap::new();
        for count in found {
            let sum: &mut i64 = sums.entry(key(count)).or_default();
            *sum = sum.saturating_add(count.count);
        }
        sums
    };
    ServiceCounts {
        total: number(found, |_| true),
        reconciliation: by(|count| count.reconciliation.to_string()),
        health: by(|count| count.health.to_string()),
        phase: by(|count| count.phase.to_string()),
    }
}

fn number(found: &[ServiceCount], counts: impl Fn(&ServiceCount) -> bool) -> i64 {
    let counted = found.iter().filter(|count| counts(count));
    counted.fold(0, |sum, count| sum.saturating_add(count.count))
}

fn needs(found: &store::Overview) -> NeedList {
    let services = number(&found.services, |count| {
        count.phase == Phase::Blocked || count.health == Health::Error
    });
    NeedList {
        total: services.saturating_add(found.conflicts).saturating_add(found.proposals),
        items: found.needs.iter().map(need).collect(),
    }
}

fn need(found: &store::Need) -> Need {
    let (cause, id) = match &found.cause {
        store::NeedCause::Blocked => (NeedCause::Blocked, None),
        store::NeedCause::Conflict(id) => (NeedCause::Conflict, Some(id.to_string())),
        store::NeedCause::Failing => (NeedCause::Failing, None),
        store::NeedCause::Proposal(id) => (NeedCause::Proposal, Some(id.to_string())),
    };
    Need {
        cause,
        id,
        project: found.project_name.clone(),
        service: found.service_name.clone(),
        service_id: found.service.map(|id| id.to_string()),
        since: found.since,
        message: found.message.clone(),
        hourly: found.hourly.map(money),
    }
}
