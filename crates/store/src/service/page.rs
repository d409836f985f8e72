//! Lists of services: filtered, in name order, a page at a time.
//!
//! Keyset pagination by name and id, so that every page costs the same. The statement is built from
//! fixed pieces; callers' values are only bound.

use jiff::{SignedDuration, Timestamp};
use sqlx::{Postgres, QueryBuilder};
use trueup_model::cluster::STALE_AFTER_SECONDS;
use trueup_model::id::{OrgId, ProjectId, ServiceId};
use trueup_model::name::Name;
use trueup_model::service::DesiredState;
use trueup_model::status::{Health, Phase};
use uuid::Uuid;

use super::{SELECT, ServiceRow, service_row};
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::{App, Error};

/// SQL: the oldest last watch event among the kinds that a service's health depends on.
///
/// The same kinds as `rules::status::freshness::evidence`.
const HEARD: &str = "least(
    coalesce((c.watches ->> 'Pod')::timestamptz, '-infinity'),
    coalesce((c.watches ->> case s.spec ->> 'workload' when 'deployment' then 'Deployment'
        when 'stateful_set' then 'StatefulSet' when 'cron_job' then 'CronJob' else 'Job' end)::timestamptz, '-infinity'),
    case when s.spec ->> 'volume' is null then 'infinity'::timestamptz
         else coalesce((c.watches ->> 'PersistentVolumeClaim')::timestamptz, '-infinity') end)";

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
    /// Only those whose name contains this text.
    pub search: Option<String>,
}

/// Where a page begins: after the service with this name and id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePosition {
    /// The name of the last service of the previous page.
    pub name: String,
    /// Its id.
    pub id: ServiceId,
}

impl App {
    /// A page of the services of an org that are not deleted, in name order.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_services(
        &self,
        org: OrgId,
        filter: &ServiceFilter,
        after: Option<&ServicePosition>,
        limit: i64,
        now: Timestamp,
    ) -> Result<Vec<ServiceRow>, Error> {
        let mut tx = self.begin(org).await?;
        let named = match &filter.search {
            Some(search) => found_by_name(&mut tx, search).await?,
            None => None,
        };
        let mut query = QueryBuilder::<Postgres>::new(SELECT);
        query.push(" where s.org_id = trueup_org() and s.deleted_at is null");
        restrict(&mut query, filter, now);
        match (named, &filter.search) {
            (Some(few), _) => {
                query.push(" and s.id = any(").push_bind(few).push(")");
            }
            (None, Some(search)) => {
                query.push(" and position(").push_bind(search.clone()).push(" in s.name) > 0");
            }
            (None, None) => {}
        }
        if let Some(ServicePosition { name, id }) = after {
            query.push(" and (s.name, s.id) > (").push_bind(name.clone());
            query.push(", ").push_bind(id.uuid()).push(")");
        }
        query.push(" order by s.name, s.id limit ").push_bind(limit);
        let rows = query.build().fetch_all(&mut *tx).await?;
        rows.iter().map(service_row).collect()
    }
}

fn restrict(query: &mut QueryBuilder<Postgres>, filter: &ServiceFilter, now: Timestamp) {
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
        // Health from a stale watch is shown as unknown, whatever was observed.
        let silence = SignedDuration::from_secs(STALE_AFTER_SECONDS);
        let fresh_since = now.checked_sub(silence).unwrap_or(Timestamp::MIN);
        let join = if health == Health::Unknown { " or (" } else { " and not (" };
        query.push(" and (t.health = ").push_bind(health.into_str()).push(join);
        query.push(HEARD).push(" < ").push_bind(sql(fresh_since)).push("))");
    }
}

/// The index works on trigrams: it cannot find shorter text.
const TRIGRAM: usize = 3;
/// With more matches than this, scanning names in order fills a page soon enough.
const FEW: i32 = 1000;

/// The services whose name contains this text, found by the index; `None` if there are too many.
async fn found_by_name(tx: &mut Tx, search: &str) -> Result<Option<Vec<Uuid>>, Error> {
    if search.chars().count() < TRIGRAM {
        return Ok(None);
    }
    let found: Vec<Uuid> = sqlx::query_scalar("select * from search_services($1, $2)")
        .bind(search)
        .bind(FEW.saturating_add(1))
        .fetch_all(&mut **tx)
        .await?;
    Ok(usize::try_from(FEW).is_ok_and(|few| found.len() <= few).then_some(found))
}
