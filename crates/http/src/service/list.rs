//! Lists of services: filters, orders and pages.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use trueup_api::Code;
use trueup_api::schema::{ClusterKey, PageLimit, ProjectKey, SearchText};
use trueup_api::service::ServiceList;
use trueup_model::id::ServiceId;
use trueup_model::name::Name;
use trueup_model::principal::Permission;
use trueup_model::service::DesiredState;
use trueup_model::status::{Health, Phase, Reconciliation};
use trueup_store::{App, ServiceFilter, ServiceOrder, ServicePosition, ServiceSort};

use super::{PROBLEMS, view};
use crate::AppState;
use crate::front::caller::Caller;
use crate::front::cursor;
use crate::front::extract::Query;
use crate::front::problem::{Answer, Failure};
use crate::project::name;

/// The most ids in a filter: the largest page.
const MOST_IDS: usize = 1000;

/// Which services to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only services of this project, by name or id.
    #[param(value_type = Option<ProjectKey>)]
    project: Option<String>,
    /// Only services of this template, in any version.
    #[param(value_type = Option<Name>)]
    template: Option<String>,
    /// Only services with this plan.
    #[param(value_type = Option<Name>)]
    plan: Option<String>,
    /// Only services with this desired state.
    desired: Option<DesiredState>,
    /// Only services in this phase.
    phase: Option<Phase>,
    /// Only services with this health.
    health: Option<Health>,
    /// Only services with this reconciliation.
    reconciliation: Option<Reconciliation>,
    /// Only services in this cluster, by name or id.
    #[param(value_type = Option<ClusterKey>)]
    cluster: Option<String>,
    /// Only these services: up to 1000 ids, separated by commas.
    #[param(value_type = Option<String>, example = "svc_01h455vb4pex5vsknk084sn02q")]
    ids: Option<String>,
    /// Only services whose name contains this text.
    #[param(value_type = Option<SearchText>)]
    search: Option<String>,
    /// The order; the default is `name`.
    #[param(inline)]
    sort: Option<Sort>,
    /// With `true`, `total` says how many services match.
    #[serde(default)]
    count: bool,
    /// The `next` of the previous page.
    cursor: Option<String>,
    /// The page size, up to 1000; the default is 100.
    #[param(value_type = Option<PageLimit>)]
    limit: Option<i64>,
}

/// The order of a list: by a property, descending with a minus.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Sort {
    /// By name.
    #[default]
    Name,
    /// By name, from the end of the alphabet.
    #[serde(rename = "-name")]
    NameDescending,
    /// The oldest first.
    Created,
    /// The newest first.
    #[serde(rename = "-created")]
    CreatedDescending,
    /// By the last change of the observation, the longest ago first.
    Changed,
    /// By the last change of the observation, the latest first.
    #[serde(rename = "-changed")]
    ChangedDescending,
}

impl From<Sort> for ServiceOrder {
    fn from(sort: Sort) -> Self {
        let (by, descending) = match sort {
            Sort::Name => (ServiceSort::Name, false),
            Sort::NameDescending => (ServiceSort::Name, true),
            Sort::Created => (ServiceSort::Created, false),
            Sort::CreatedDescending => (ServiceSort::Created, true),
            Sort::Changed => (ServiceSort::Changed, false),
            Sort::ChangedDescending => (ServiceSort::Changed, true),
        };
        Self { by, descending }
    }
}

/// Lists the services of the org that are not deleted.
#[utoipa::path(get, path = "/v1/services", operation_id = "service_list", tag = "services",
    params(Filter),
    extensions(("x-problems" = json!(PROBLEMS))),
    responses((status = 200, body = ServiceList)))]
pub(crate) async fn service_list(
    State(state): State<AppState>,
    caller: Caller,
    Query(wanted): Query<Filter>,
) -> Answer<Json<ServiceList>> {
    let app = caller.within(&state.app, Permission::Read)?;
    let order = ServiceOrder::from(wanted.sort.unwrap_or_default());
    let after = cursor::position(caller.org, order, wanted.cursor.as_deref())?;
    let (limit, is_counted) = (cursor::limit(wanted.limit)?, wanted.count);
    let filter = filter(&app, &caller, wanted).await?;
    let now = state.clock.now();
    let (org, page) = (caller.org, (order, after.as_ref()));
    let mut rows = app.list_services(org, &filter, page, limit.saturating_add(1), now).await?;
    let total = if is_counted { Some(app.count_services(org, &filter, now).await?) } else { None };
    let more = usize::try_from(limit).is_ok_and(|limit| {
        let more = rows.len() > limit;
        rows.truncate(limit);
        more
    });
    let last = rows.last().filter(|_| more);
    let next = last.map(|row| cursor::after(org, ServicePosition::after(row, order)));
    Ok(Json(ServiceList { items: rows.iter().map(|row| view(row, now)).collect(), next, total }))
}

/// Checks the filter: invalid names and unknown projects are errors, not empty results.
async fn filter(app: &App, caller: &Caller, wanted: Filter) -> Answer<ServiceFilter> {
    let project = match &wanted.project {
        Some(wanted) => {
            let row = app.find_project(caller.org, wanted).await?;
            Some(row.ok_or_else(|| Failure::not_found("project"))?.project.id)
        }
        None => None,
    };
    let cluster = match &wanted.cluster {
        Some(wanted) => {
            let found = app.find_cluster(caller.org, wanted).await?;
            Some(found.ok_or_else(|| Failure::not_found("cluster"))?.0.id)
        }
        None => None,
    };
    let search = wanted.search.map(|text| text.to_lowercase());
    if search.as_ref().is_some_and(|text| text.is_empty() || text.contains('\0')) {
        return Err(Failure::new(Code::BadRequest, "`search` must be part of a name"));
    }
    Ok(ServiceFilter {
        project,
        template: wanted.template.map(|text| name("template", &text)).transpose()?,
        plan: wanted.plan.map(|text| name("plan", &text)).transpose()?,
        desired: wanted.desired,
        phase: wanted.phase,
        health: wanted.health,
        reconciliation: wanted.reconciliation,
        cluster,
        ids: wanted.ids.as_deref().map(ids).transpose()?,
        search,
    })
}

/// The ids in a list that is separated by commas.
fn ids(text: &str) -> Answer<Vec<ServiceId>> {
    let ids: Result<Vec<ServiceId>, _> = text.split(',').map(str::parse).collect();
    ids.ok().filter(|ids| ids.len() <= MOST_IDS).ok_or_else(|| {
        let detail =
            format!("`ids` must be up to {MOST_IDS} ids of services (svc_…), separated by commas");
        Failure::new(Code::BadRequest, detail)
    })
}
