//! Lists of services: filtered and ordered, a page at a time; and their number.
//!
//! Keyset pagination by sort key and id: no page repeats or skips a service that stays in place. The statement is built from
//! fixed pieces; callers' values are only bound.

use jiff::Timestamp;
use sqlx::{Postgres, QueryBuilder};
use trueup_model::id::{ClusterId, OrgId, ProjectId, ServiceId};
use trueup_model::name::Name;
use trueup_model::service::DesiredState;
use trueup_model::status::{Health, Phase, Reconciliation};
use uuid::Uuid;

use super::{SELECT, ServiceRow, service_row, shown};
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::{App, Error};

/// Which services to list.
#[derive(Debug, Clone, Default)]
pub struct ServiceFilter {
    /// Only those of this project.
    pub project: Option<ProjectId>,
    /// Only those of this template, in any version.
    pub template: Option<Name>,
    /// Only those of this plan.
    pub plan: Option<Name>,
    /// Only those with this desired state.
    pub desired: Option<DesiredState>,
    /// Only those in this phase.
    pub phase: Option<Phase>,
    /// Only those that are shown with this health.
    pub health: Option<Health>,
    /// Only those that are shown with this reconciliation.
    pub reconciliation: Option<Reconciliation>,
    /// Only those in this cluster.
    pub cluster: Option<ClusterId>,
    /// Only these.
    pub ids: Option<Vec<ServiceId>>,
    /// Only those whose name contains this text.
    pub search: Option<String>,
}

/// What a list of services is ordered by; then by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServiceSort {
    /// The name.
    #[default]
    Name,
    /// When it was created.
    Created,
    /// When its observation last changed; before there is one, when it was accepted.
    Changed,
}

/// The order of a list of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServiceOrder {
    /// What it is ordered by.
    pub by: ServiceSort,
    /// Whether the largest comes first.
    pub descending: bool,
}

/// Where a page begins: after this service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePosition {
    /// The name of the last service of the previous page.
    pub name: String,
    /// Its id.
    pub id: ServiceId,
    /// Its time, where the list is ordered by one.
    pub at: Option<Timestamp>,
}

impl ServicePosition {
    /// The position after a service in a list with this order.
    #[must_use]
    pub fn after(row: &ServiceRow, order: ServiceOrder) -> Self {
        let service = &row.service;
        let observed_at = row.status.evidence.as_ref().map(|evidence| evidence.observed_at);
        let at = match order.by {
            ServiceSort::Name => None,
            ServiceSort::Created => Some(service.created_at),
            ServiceSort::Changed => Some(observed_at.unwrap_or(service.accepted_at)),
        };
        Self { name: service.name.to_string(), id: service.id, at }
    }
}

/// SQL: when the observation of a service last changed.
const CHANGED: &str =
    "coalesce((t.status #>> '{evidence,observed_at}')::timestamptz, s.accepted_at)";

impl App {
    /// A page of the services of an org that are not deleted.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_services(
        &self,
        org: OrgId,
        filter: &ServiceFilter,
        (order, after): (ServiceOrder, Option<&ServicePosition>),
        limit: i64,
        now: Timestamp,
    ) -> Result<Vec<ServiceRow>, Error> {
        let mut tx = self.begin(org).await?;
        let named = found_by_name(&mut tx, filter.search.as_deref()).await?;
        let mut query = shown::with_heard(now);
        query.push(SELECT).push(shown::JOIN);
        restrict(&mut query, filter, named);
        arrange(&mut query, order, after);
        query.push(" limit ").push_bind(limit);
        let rows = query.build().fetch_all(&mut *tx).await?;
        rows.iter().map(service_row).collect()
    }

    /// How many services of an org match a filter.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn count_services(
        &self,
        org: OrgId,
        filter: &ServiceFilter,
        now: Timestamp,
    ) -> Result<i64, Error> {
        let mut tx = self.begin(org).await?;
        let named = found_by_name(&mut tx, filter.search.as_deref()).await?;
        let mut query = shown::with_heard(now);
        query.push(
            "select count(*) from services s
             join statuses t on t.subject_kind = 'service' and t.subject_id = s.id",
        );
        query.push(shown::JOIN);
        restrict(&mut query, filter, named);
        Ok(query.build_query_scalar().fetch_one(&mut *tx).await?)
    }
}

/// Orders the rows, and begins after a position.
fn arrange(
    query: &mut QueryBuilder<Postgres>,
    order: ServiceOrder,
    after: Option<&ServicePosition>,
) {
    let key = match order.by {
        ServiceSort::Name => "s.name",
        ServiceSort::Created => "s.created_at",
        ServiceSort::Changed => CHANGED,
    };
    let (beyond, direction) = if order.descending { ("<", "desc") } else { (">", "asc") };
    if let Some(ServicePosition { name, id, at }) = after {
        query.push(format!(" and ({key}, s.id) {beyond} ("));
        match at {
            Some(at) => query.push_bind(sql(*at)),
            None => query.push_bind(name.clone()),
        };
        query.push(", ").push_bind(id.uuid()).push(")");
    }
    query.push(format!(" order by {key} {direction}, s.id {direction}"));
}

fn restrict(query: &mut QueryBuilder<Postgres>, filter: &ServiceFilter, named: Option<Vec<Uuid>>) {
    query.push(" where s.org_id = trueup_org() and s.deleted_at is null");
    match (named, &filter.search) {
        (Some(few), _) => {
            query.push(" and s.id = any(").push_bind(few).push(")");
        }
        (None, Some(search)) => {
            query.push(" and position(").push_bind(search.clone()).push(" in s.name) > 0");
        }
        (None, None) => {}
    }
    if let Some(ids) = &filter.ids {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
        query.push(" and s.id = any(").push_bind(ids).push(")");
    }
    if let Some(cluster) = filter.cluster {
        query.push(" and s.cluster_id = ").push_bind(cluster.uuid());
    }
    if let Some(project) = filter.project {
        query.push(" and s.project_id = ").push_bind(project.uuid());
    }
    if let Some(template) = &filter.template {
        query.push(" and s.template_name = ").push_bind(template.as_str().to_owned());
    }
    if let Some(plan) = &filter.plan {
        query.push(" and s.plan_name = ").push_bind(plan.as_str().to_owned());
    }
    if let Some(desired) = filter.desired {
        query.push(" and s.desired = ").push_bind(desired.into_str());
    }
    if let Some(phase) = filter.phase {
        query.push(" and t.phase = ").push_bind(phase.into_str());
    }
    if let Some(health) = filter.health {
        if health != Health::Unknown {
            // What is shown as unknown may be stored as anything; all else is shown as it is stored.
            query.push(" and t.health = ").push_bind(health.into_str());
        }
        query.push(format!(" and {} = ", shown::health())).push_bind(health.into_str());
    }
    if let Some(wanted) = filter.reconciliation {
        query.push(format!(" and {} = ", shown::reconciliation())).push_bind(wanted.into_str());
    }
}

/// The index works on trigrams: it cannot find shorter text.
const TRIGRAM: usize = 3;
/// With more matches than this, scanning names in order fills a page soon enough.
const FEW: i32 = 1000;

/// The services whose name contains this text, found by the index; `None` if there are too many.
async fn found_by_name(tx: &mut Tx, search: Option<&str>) -> Result<Option<Vec<Uuid>>, Error> {
    let Some(search) = search.filter(|text| text.chars().count() >= TRIGRAM) else {
        return Ok(None);
    };
    let found: Vec<Uuid> = sqlx::query_scalar("select * from search_services($1, $2)")
        .bind(search)
        .bind(FEW.saturating_add(1))
        .fetch_all(&mut **tx)
        .await?;
    Ok(usize::try_from(FEW).is_ok_and(|few| found.len() <= few).then_some(found))
}
