//! Accepts changes of services: declarations, operations and deletion.
//!
//! Locks are taken in one order everywhere: service, then quota, then wake.

use jiff::Timestamp;
use trueup_model::event::{Fact, NewEvent};
use trueup_model::id::{OrgId, PreviewRequestId, ServiceId};
use trueup_model::name::Name;
use trueup_model::order::Unit;
use trueup_model::project::Project;
use trueup_model::quota::Amounts;
use trueup_model::receipt::Force;
use trueup_model::service::{DesiredState, Service};
use trueup_model::wake::Lane;
use trueup_rules::admit::operation::{self, OperationContext, ServiceOperation, act};
use trueup_rules::admit::{
    AdmissionContext, AdmissionRequest, Admitted, ReleaseSpec, admit, wanted_plan,
};
use trueup_rules::render::names;

use super::config::check_generated_secrets;
use super::project::check_not_deleting;
use super::race::retry_on_conflict;
use super::{Accepted, Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::json;
use crate::door::idempotency;
use crate::service::{ServiceRow, find, service};
use crate::work::wake;
use crate::{App, Error, event, plan, preview_request, project, quota, release, status, template};

/// A requested change of a service.
#[derive(Debug, Clone)]
pub struct ServiceRequest<'a> {
    /// The project, by name or id.
    pub project: &'a str,
    /// The change.
    pub change: ServiceChange<'a>,
    /// Precondition: the generation the caller read.
    pub if_generation: Option<i64>,
    /// The project's name, if it is to be created when it does not exist.
    pub with_project: Option<&'a Name>,
    /// Precondition: the exact preview that must still hold.
    pub preview: Option<PreviewRequestId>,
}

impl<'a> ServiceRequest<'a> {
    /// Declares the service of this name.
    #[must_use]
    pub const fn declare(project: &'a str, name: &'a Name, request: &'a AdmissionRequest) -> Self {
        let change = ServiceChange::Declare(name, request);
        Self { project, change, if_generation: None, with_project: None, preview: None }
    }

    /// Performs an operation on a service.
    #[must_use]
    pub const fn act(project: &'a str, service: &'a str, action: &'a ServiceOperation) -> Self {
        let change = ServiceChange::Act(service, action);
        Self { project, change, if_generation: None, with_project: None, preview: None }
    }

    /// Adds a precondition on the generation.
    #[must_use]
    pub const fn if_generation(self, generation: Option<i64>) -> Self {
        Self { if_generation: generation, ..self }
    }
}

/// A change of a service.
#[derive(Debug, Clone)]
pub enum ServiceChange<'a> {
    /// Declares the service of this name, and creates it if it does not exist.
    Declare(&'a Name, &'a AdmissionRequest),
    /// Performs an operation on a service, by name or id.
    Act(&'a str, &'a ServiceOperation),
}

impl ServiceChange<'_> {
    const fn word(&self) -> &'static str {
        match self {
            Self::Declare(..) => "declare",
            Self::Act(_, action) => action.as_str(),
        }
    }
}

/// A decision that is not recorded yet.
struct Decided {
    /// The next generation, or the current one if nothing changed.
    after: Service,
    changed: bool,
}

impl App {
    /// Accepts a declaration, an operation or the deletion of a service. Idempotent.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn accept_service(
        &self,
        org: OrgId,
        wanted: &ServiceRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        retry_on_conflict(|| self.try_accept_service(org, wanted, context, now)).await
    }

    async fn try_accept_service(
        &self,
        org: OrgId,
        wanted: &ServiceRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        let mut tx = self.begin(org).await?;
        if let Some(subject) = idempotency::find(&mut tx, context, now).await? {
            let row = found(&mut tx, wanted.project, &subject).await?;
            return Ok(Accepted { row, changed: false });
        }
        if let Some(project) = wanted.with_project {
            super::project::declare(&mut tx, org, project, context, now).await?;
        }
        let valid = match wanted.preview {
            Some(preview) => {
                Some(preview_request::find_valid(&mut tx, preview, wanted, now).await?)
            }
            None => None,
        };
        let decided =
            decide(&mut tx, wanted, valid.as_ref().map(|valid| valid.service), now).await?;
        let id = decided.after.id;
        if decided.changed {
            let act = Act { word: wanted.change.word(), preview: wanted.preview };
            record_generation(&mut tx, &decided.after, act, context, now).await?;
            record_force(&mut tx, &decided.after, &wanted.change, context).await?;
        }
        if let Some(valid) = &valid {
            valid.check(&mut tx, &decided.after).await?;
        }
        idempotency::record(&mut tx, context, &id.to_string(), now).await?;
        let row = found(&mut tx, wanted.project, &id.to_string()).await?;
        // Last, because every change in the org locks the quota's row.
        if decided.changed {
            reserve_and_wake(&mut tx, &decided.after, context, now).await?;
        }
        self.end(tx).await?;
        Ok(Accepted { row, changed: decided.changed })
    }
}

/// Locks the service and asks the rules. A new service gets the id of its preview, if there is one.
async fn decide(
    tx: &mut Tx,
    wanted: &ServiceRequest<'_>,
    planned: Option<ServiceId>,
    now: Timestamp,
) -> Result<Decided, Refusal> {
    let project = project::find(tx, wanted.project).await?.ok_or(Refusal::NotFound("project"))?;
    let project = project.project;
    let (before, admitted) = match wanted.change {
        ServiceChange::Declare(name, request) => {
            let current = lock(tx, &project, name.as_str()).await?;
            check_generation(current.as_ref(), wanted.if_generation)?;
            if current.is_none() {
                check_not_deleting(project::lock_shared(tx, project.id).await?)?;
            }
            let template = template::find(tx, &request.template).await?;
            let plan = plan::find(tx, wanted_plan(request, template.as_ref())).await?;
            let context = AdmissionContext {
                template: template.as_ref(),
                plan: plan.as_ref(),
                current: current.as_ref(),
            };
            let admitted = admit(request, context).map_err(Refusal::Refused)?;
            (current, admitted)
        }
        ServiceChange::Act(service, action) => {
            let current = lock_found(tx, wanted.project, service).await?;
            check_generation(Some(&current), wanted.if_generation)?;
            let admitted = decide_action(tx, action, &current).await?;
            // A completed deletion cannot be forced any more.
            let over = matches!(action, ServiceOperation::ForceDelete { .. })
                && is_gone(tx, &current).await?;
            (Some(current), if over { Admitted::Unchanged } else { admitted })
        }
    };
    let (after, changed) = match (admitted, &before, &wanted.change) {
        (Admitted::Changed(release), Some(before), _) => (next(before, *release, now), true),
        (Admitted::Changed(release), None, ServiceChange::Declare(name, _)) => {
            (first(&project, name, planned.unwrap_or_else(|| new_id(now)), *release, now), true)
        }
        (Admitted::Unchanged, Some(before), _) => (before.clone(), false),
        // Only a declaration can name a service that does not exist, and it creates it.
        (_, None, _) => return Err(Refusal::NotFound("service")),
    };
    if changed && after.desired != DesiredState::Deleted {
        check_generated_secrets(tx, &after).await?;
    }
    Ok(Decided { after, changed })
}

async fn decide_action(
    tx: &mut Tx,
    action: &ServiceOperation,
    current: &Service,
) -> Result<Admitted, Refusal> {
    let release = match action {
        ServiceOperation::Rollback { to } => {
            if to.is_none() {
                let last = release::last_action(tx, current).await?;
                operation::undoes(last.as_deref()).map_err(Refusal::Refused)?;
            }
            release::rollback_target(tx, current, *to).await?
        }
        ServiceOperation::Pause
        | ServiceOperation::Resume
        | ServiceOperation::Restart
        | ServiceOperation::Scale { .. }
        | ServiceOperation::Autoscale { .. }
        | ServiceOperation::Resize { .. }
        | ServiceOperation::Delete
        | ServiceOperation::ForceDelete { .. } => None,
    };
    let reference = release.as_ref().map_or(&current.template, |release| &release.template);
    let template = template::find(tx, reference).await?;
    let wanted = match (&template, &release) {
        (_, Some(release)) => release.spec.plan.clone(),
        (Some(template), None) => {
            operation::ask(action, template, current).map_err(Refusal::Refused)?.plan
        }
        (None, None) => current.spec.plan.clone(),
    };
    let plan = plan::find(tx, wanted.as_ref()).await?;
    let context = OperationContext {
        current,
        template: template.as_ref(),
        plan: plan.as_ref(),
        release: release.as_ref(),
    };
    act(action, context).map_err(Refusal::Refused)
}

async fn found(tx: &mut Tx, project: &str, wanted: &str) -> Result<ServiceRow, Refusal> {
    find(tx, project, wanted).await?.ok_or(Refusal::NotFound("service"))
}

async fn lock(tx: &mut Tx, project: &Project, name: &str) -> Result<Option<Service>, Error> {
    let row = sqlx::query(
        "select * from services where project_id = $1 and name = $2 and deleted_at is null for update",
    )
    .bind(project.id.uuid())
    .bind(name)
    .fetch_optional(&mut **tx)
    .await?;
    row.as_ref().map(service).transpose()
}

/// Also finds a deleted service by its id, so that a repeated deletion changes nothing.
async fn lock_found(tx: &mut Tx, project: &str, wanted: &str) -> Result<Service, Refusal> {
    let row = found(tx, project, wanted).await?;
    let locked = sqlx::query("select * from services where id = $1 for update")
        .bind(row.service.id.uuid())
        .fetch_one(&mut **tx)
        .await?;
    Ok(service(&locked)?)
}

pub(super) fn check_generation(
    current: Option<&Service>,
    wanted: Option<i64>,
) -> Result<(), Refusal> {
    let current = current.map_or(0, |service| service.generation);
    match wanted {
        Some(wanted) if wanted != current => Err(Refusal::Changed { current }),
        Some(_) | None => Ok(()),
    }
}

/// The first generation of a service.
fn first(
    project: &Project,
    name: &Name,
    id: ServiceId,
    release: ReleaseSpec,
    now: Timestamp,
) -> Service {
    Service {
        id,
        org: project.org,
        project: project.id,
        name: name.clone(),
        cluster: project.cluster,
        object_name: names::object_name(name, id),
        template: release.template,
        parameters: release.parameters,
        spec: release.spec,
        desired: release.desired,
        generation: 1,
        accepted_at: now,
        created_at: now,
    }
}

/// The generation after the current one.
fn next(current: &Service, release: ReleaseSpec, now: Timestamp) -> Service {
    Service {
        template: release.template,
        parameters: release.parameters,
        spec: release.spec,
        desired: release.desired,
        generation: current.generation.saturating_add(1),
        accepted_at: now,
        ..current.clone()
    }
}

/// The name of a change, and the exact preview that it was accepted with.
pub(crate) struct Act {
    word: &'static str,
    preview: Option<PreviewRequestId>,
}

impl From<&'static str> for Act {
    fn from(word: &'static str) -> Self {
        Self { word, preview: None }
    }
}

/// Records a generation: row, release, status and event.
pub(crate) async fn record_generation(
    tx: &mut Tx,
    service: &Service,
    act: impl Into<Act>,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<(), Refusal> {
    let unit = Unit::Service(service.id);
    let Act { word, preview } = act.into();
    upsert(tx, service).await?;
    release::insert(tx, service, word, &context.principal.name).await?;
    status::accept(tx, unit, service.org, now).await?;
    let queued = NewEvent {
        id: new_id(now),
        org: service.org,
        source: context.source,
        unit,
        generation: service.generation,
        at: now,
        fact: Fact::ServiceQueued {
            deletes: service.desired == DesiredState::Deleted,
            principal: context.principal.name.clone(),
            action: word.to_owned(),
            preview,
        },
        trace: context.trace.clone(),
        cause: None,
    };
    event::record(tx, &[queued]).await?;
    Ok(())
}

/// Records who forces a deletion, and why.
async fn record_force(
    tx: &mut Tx,
    service: &Service,
    change: &ServiceChange<'_>,
    context: &RequestContext<'_>,
) -> Result<(), Error> {
    if let ServiceChange::Act(_, ServiceOperation::ForceDelete { reason }) = change {
        let principal = context.principal.name.clone();
        let force = Force { principal, reason: reason.trim().to_owned() };
        sqlx::query("update services set force = $2 where id = $1")
            .bind(service.id.uuid())
            .bind(json(&force))
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}

async fn is_gone(tx: &mut Tx, service: &Service) -> Result<bool, Error> {
    let (gone,): (bool,) =
        sqlx::query_as("select deleted_at is not null from services where id = $1")
            .bind(service.id.uuid())
            .fetch_one(&mut **tx)
            .await?;
    Ok(gone)
}

/// Reserves the service's quota and wakes it.
pub(super) async fn reserve_and_wake(
    tx: &mut Tx,
    service: &Service,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<(), Refusal> {
    reserve_quota(tx, service).await?;
    let lane = match service.desired {
        DesiredState::Active | DesiredState::Paused => Lane::UserChange,
        DesiredState::Deleted => Lane::Delete,
    };
    let unit = Unit::Service(service.id);
    let wanted = wake::Request::by(context, unit, service.org, service.cluster, lane);
    wake::request(tx, &wanted, now).await?;
    Ok(())
}

/// Reserves what this generation needs of the org's quota.
///
/// A service being deleted no longer counts as a service, but keeps its capacity until its absence
/// is verified.
async fn reserve_quota(tx: &mut Tx, service: &Service) -> Result<(), Refusal> {
    let wanted = match service.desired {
        DesiredState::Active | DesiredState::Paused => Amounts::of(&service.spec),
        DesiredState::Deleted => quota::held(tx, service.id).await?.unwrap_or_default().capacity(),
    };
    if quota::reserve(tx, service.id, wanted).await? {
        return Ok(());
    }
    let held = quota::held(tx, service.id).await?.unwrap_or_default();
    let quota = quota::load(tx).await?;
    Err(Refusal::OverQuota { more: wanted.less(held), quota })
}

async fn upsert(tx: &mut Tx, service: &Service) -> Result<(), Error> {
    sqlx::query(
        "insert into services (id, org_id, project_id, name, cluster_id, object_name, template_name,
                               template_version, parameters, spec, desired, generation, accepted_at,
                               created_at, plan_name)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
         on conflict (id) do update set template_version = $8, parameters = $9, spec = $10,
             desired = $11, generation = $12, accepted_at = $13, plan_name = $15",
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
    .execute(&mut **tx)
    .await?;
    Ok(())
}
