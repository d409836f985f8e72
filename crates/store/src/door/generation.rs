//! Generations of services: what every accepted change of a service writes.

use jiff::Timestamp;
use trueup_model::event::{Fact, ServiceQueued};
use trueup_model::id::{PreviewRequestId, ProjectId};
use trueup_model::name::Name;
use trueup_model::order::Unit;
use trueup_model::quota::{Amounts, Quota, Resource};
use trueup_model::service::{DesiredState, Service};
use trueup_model::wake::Lane;
use trueup_rules::active_hours;

use super::write::Write;
use super::{Refusal, budget};
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::json;
use crate::{Error, project, project_quota, quota, release, status, subscription};

/// The name of a change, and the exact preview that it was accepted with.
pub(super) struct Act {
    pub(super) word: &'static str,
    pub(super) preview: Option<PreviewRequestId>,
}

impl From<&'static str> for Act {
    fn from(word: &'static str) -> Self {
        Self { word, preview: None }
    }
}

/// The generation after the current one, with the same spec.
pub(super) fn next(current: Service, now: Timestamp) -> Service {
    Service { generation: current.generation.saturating_add(1), accepted_at: now, ..current }
}

impl Write<'_> {
    /// Records a generation: row, release, status and event.
    pub(super) async fn record_generation(
        &mut self,
        service: &Service,
        act: impl Into<Act>,
    ) -> Result<(), Error> {
        let unit = Unit::Service(service.id);
        let Act { word, preview } = act.into();
        let context = self.context;
        upsert(&mut self.tx, service).await?;
        release::insert(&mut self.tx, service, word, &context.principal.name).await?;
        status::accept(&mut self.tx, unit, service.org, self.now).await?;
        let queued = Fact::ServiceQueued(ServiceQueued {
            deletes: service.desired == DesiredState::Deleted,
            principal: self.principal(),
            action: word.to_owned(),
            preview,
        });
        self.record_about(unit, service.generation, queued).await
    }

    /// Reserves the service's quota and wakes it.
    ///
    /// Last, because every change in the org locks the quota's row.
    pub(super) async fn reserve_and_wake(&mut self, service: &Service) -> Result<(), Refusal> {
        reserve_quota(&mut self.tx, service, self.now).await?;
        budget::reserve(&mut self.tx, service, self.now).await?;
        let lane = match service.desired {
            DesiredState::Active | DesiredState::Paused => Lane::UserChange,
            DesiredState::Deleted => Lane::Delete,
        };
        self.wake(Unit::Service(service.id), service.cluster, lane).await?;
        Ok(())
    }
}

/// Reserves what this generation needs of the org's quota.
///
/// Disk is held for the most pods that the service ever had: nothing deletes their claims before the
/// service. A service being deleted no longer counts as a service, but keeps its capacity until its absence
/// is verified.
async fn reserve_quota(tx: &mut Tx, service: &Service, now: Timestamp) -> Result<(), Refusal> {
    let held = quota::held(tx, service.id).await?.unwrap_or_default();
    let wanted = match service.desired {
        DesiredState::Active | DesiredState::Paused => {
            let amounts = Amounts::of(&service.spec);
            // The claims of pods that were removed stay, with their data, as long as the service.
            Amounts { storage_gib: amounts.storage_gib.max(held.storage_gib), ..amounts }
        }
        DesiredState::Deleted => held.capacity(),
    };
    let more = wanted.less(held);
    let mut reserved = quota::reserve(tx, service.id, wanted).await?;
    if !reserved {
        // A change of the subscription may have begun.
        subscription::apply(tx, service.org, now).await?;
        reserved = quota::reserve(tx, service.id, wanted).await?;
    }
    if !reserved {
        let quota = Box::new(quota::load(tx).await?);
        return Err(Refusal::OverQuota { more, quota, project: None });
    }
    if Resource::ALL.into_iter().any(|resource| more.get(resource) > 0) {
        check_project(tx, service.project, more).await?;
    }
    Ok(())
}

/// Refuses what the quota of the project has no room for, after it was reserved.
async fn check_project(tx: &mut Tx, project: ProjectId, more: Amounts) -> Result<(), Refusal> {
    let Some(quota) = project_quota::own(tx, project).await? else { return Ok(()) };
    let before = Quota { used: quota.used.less(more), ..quota };
    if before.short_of(more).next().is_none() {
        return Ok(());
    }
    let project = Some(project::name(tx, project).await?);
    Err(Refusal::OverQuota { more, quota: Box::new(before), project })
}

/// When the active hours of a service change something next.
fn next_edge(service: &Service) -> Option<Timestamp> {
    active_hours::next_edge(service.active.as_ref()?, service.accepted_at).map(|edge| edge.at)
}

async fn upsert(tx: &mut Tx, service: &Service) -> Result<(), Error> {
    sqlx::query(
        "insert into services (id, org_id, project_id, name, cluster_id, object_name, template_name,
                               template_version, parameters, spec, desired, generation, accepted_at,
                               created_at, plan_name, drift, active_hours, scheduled_off, schedule_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
         on conflict (id) do update set template_version = $8, parameters = $9, spec = $10,
             desired = $11, generation = $12, accepted_at = $13, plan_name = $15, drift = $16,
             active_hours = $17, scheduled_off = $18,
             -- An edge that is due is not lost by another change.
             schedule_at = case when services.active_hours is distinct from $17 then $19
                           else services.schedule_at end",
    )
    .bind(service.id.uuid())
    .bind(service.org.uuid())
    .bind(service.project.uuid())
    .bind(service.name.as_str())
    .bind(service.cluster.uuid())
    .bind(&service.object_name)
    .bind(service.template.name.as_str())
    .bind(i32::try_from(service.template.version).unwrap_or(i32::MAX))
    .bind(json(&service.parameters))
    .bind(json(&service.spec))
    .bind(service.desired.into_str())
    .bind(service.generation)
    .bind(sql(service.accepted_at))
    .bind(sql(service.created_at))
    .bind(service.spec.plan.as_ref().map(Name::as_str))
    .bind(json(&service.drift))
    .bind(service.active.as_ref().map(json))
    .bind(service.scheduled_off)
    .bind(next_edge(service).map(sql))
    .execute(&mut **tx)
    .await?;
    Ok(())
}
