//! Accepting services: declare, act upon, delete.
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

use super::config::check_promise;
use super::project::must_live;
use super::race::again;
use super::{Accepted, Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::json;
use crate::door::idempotency;
use crate::service::{ServiceRow, find, service};
use crate::work::wake;
use crate::{App, Error, event, plan, preview_request, project, quota, release, status, template};

/// What somebody asks of a service.
#[derive(Debug, Clone)]
pub struct ServiceRequest<'a> {
    /// The project, by name or id.
    pub project: &'a str,
    /// What is asked.
    pub change: ServiceChange<'a>,
    /// The generation the caller has seen, if it insists on it.
    pub if_generation: Option<i64>,
    /// The project's name, if it is to be made where there is none.
    pub with_project: Option<&'a Name>,
    /// The exact preview that has to hold, if the caller insists on one.
    pub preview: Option<PreviewRequestId>,
}

impl<'a> ServiceRequest<'a> {
    /// Asks for the service of this name to be like this.
    #[must_use]
    pub const fn declare(project: &'a str, name: &'a Name, ask: &'a AdmissionRequest) -> Self {
        let change = ServiceChange::Declare(name, ask);
        Self { project, change, if_generation: None, with_project: None, preview: None }
    }

    /// Asks for this to be done with a service.
    #[must_use]
    pub const fn act(project: &'a str, service: &'a str, action: &'a ServiceOperation) -> Self {
        let change = ServiceChange::Act(service, action);
        Self { project, change, if_generation: None, with_project: None, preview: None }
    }

    /// Only if it has this generation.
    #[must_use]
    pub const fn if_generation(self, generation: Option<i64>) -> Self {
        Self { if_generation: generation, ..self }
    }
}

/// A change that can be asked for.
#[derive(Debug, Clone)]
pub enum ServiceChange<'a> {
    /// That the service of this name be like this, made if there is none.
    Declare(&'a Name, &'a AdmissionRequest),
    /// That this be done with a service, by name or id.
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
    /// The next generation, or what is promised already.
    after: Service,
    changed: bool,
}

impl App {
    /// Makes a change durable: declares, acts upon or deletes a service, or finds that nothing is to
    /// be changed.
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
        again(|| self.try_accept_service(org, wanted, context, now)).await
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
        let held = match wanted.preview {
            Some(preview) => Some(preview_request::hold(&mut tx, preview, wanted, now).await?),
            None => None,
        };
        let decided = decide(&mut tx, wanted, held.as_ref().map(|held| held.service), now).await?;
        let id = decided.after.id;
        if decided.changed {
            let act = Act { word: wanted.change.word(), preview: wanted.preview };
            write_down(&mut tx, &decided.after, act, context, now).await?;
            write_force(&mut tx, &decided.after, &wanted.change, context).await?;
        }
        if let Some(held) = &held {
            held.check(&mut tx, &decided.after).await?;
        }
        idempotency::record(&mut tx, context, &id.to_string(), now).await?;
        let row = found(&mut tx, wanted.project, &id.to_string()).await?;
        // Last, because everybody in the org wants the quota's row.
        if decided.changed {
            hold_and_wake(&mut tx, &decided.after, context, now).await?;
        }
        self.end(tx).await?;
        Ok(Accepted { row, changed: decided.changed })
    }
}

/// Locks the service and asks the rules. A new one gets the id that was planned for it.
async fn decide(
    tx: &mut Tx,
    wanted: &ServiceRequest<'_>,
    planned: Option<ServiceId>,
    now: Timestamp,
) -> Result<Decided, Refusal> {
    let project = project::find(tx, wanted.project).await?.ok_or(Refusal::NotFound("project"))?;
    let project = project.project;
    let (before, admitted) = match wanted.change {
        ServiceChange::Declare(name, ask) => {
            let current = lock(tx, &project, name.as_str()).await?;
            check_generation(current.as_ref(), wanted.if_generation)?;
            if current.is_none() {
                must_live(project::hold(tx, project.id).await?)?;
            }
            let template = template::find(tx, &ask.template).await?;
            let plan = plan::find(tx, wanted_plan(ask, template.as_ref())).await?;
            let known = AdmissionContext {
                template: template.as_ref(),
                plan: plan.as_ref(),
                current: current.as_ref(),
            };
            let admitted = admit(ask, known).map_err(Refusal::Refused)?;
            (current, admitted)
        }
        ServiceChange::Act(service, action) => {
            let current = lock_found(tx, wanted.project, service).await?;
            check_generation(Some(&current), wanted.if_generation)?;
            let admitted = decide_action(tx, action, &current).await?;
            // What is gone is gone: there is nothing left to end.
            let over = matches!(action, ServiceOperation::ForceDelete { .. })
                && is_gone(tx, &current).await?;
            (Some(current), if over { Admitted::Unchanged } else { admitted })
        }
    };
    let (after, changed) = match (admitted, &before, &wanted.change) {
        (Admitted::Changed(promise), Some(before), _) => (next(before, *promise, now), true),
        (Admitted::Changed(promise), None, ServiceChange::Declare(name, _)) => {
            (first(&project, name, planned.unwrap_or_else(|| new_id(now)), *promise, now), true)
        }
        (Admitted::Unchanged, Some(before), _) => (before.clone(), false),
        // Only a declaration can be about a service that is not there, and it changes that.
        (_, None, _) => return Err(Refusal::NotFound("service")),
    };
    if changed && after.desired != DesiredState::Deleted {
        check_promise(tx, &after).await?;
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
    let knowing = OperationContext {
        current,
        template: template.as_ref(),
        plan: plan.as_ref(),
        release: release.as_ref(),
    };
    act(action, knowing).map_err(Refusal::Refused)
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

/// Also finds one that is gone, by its id: asking for its deletion again changes nothing.
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
    promise: ReleaseSpec,
    now: Timestamp,
) -> Service {
    Service {
        id,
        org: project.org,
        project: project.id,
        name: name.clone(),
        cluster: project.cluster,
        object_name: names::object_name(name, id),
        template: promise.template,
        parameters: promise.parameters,
        spec: promise.spec,
        desired: promise.desired,
        generation: 1,
        accepted_at: now,
        created_at: now,
    }
}

/// The generation after the current one.
fn next(current: &Service, promise: ReleaseSpec, now: Timestamp) -> Service {
    Service {
        template: promise.template,
        parameters: promise.parameters,
        spec: promise.spec,
        desired: promise.desired,
        generation: current.generation.saturating_add(1),
        accepted_at: now,
        ..current.clone()
    }
}

/// What was done, and the exact preview that it was accepted with.
pub(crate) struct Act {
    word: &'static str,
    preview: Option<PreviewRequestId>,
}

impl From<&'static str> for Act {
    fn from(word: &'static str) -> Self {
        Self { word, preview: None }
    }
}

/// The generation itself: row, release, status, event.
pub(crate) async fn write_down(
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

/// Who ends the deletion without proof, and why.
async fn write_force(
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

pub(super) async fn hold_and_wake(
    tx: &mut Tx,
    service: &Service,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<(), Refusal> {
    hold(tx, service).await?;
    let lane = match service.desired {
        DesiredState::Active | DesiredState::Paused => Lane::UserChange,
        DesiredState::Deleted => Lane::Delete,
    };
    let unit = Unit::Service(service.id);
    let wanted = wake::Request::by(context, unit, service.org, service.cluster, lane);
    wake::request(tx, &wanted, now).await?;
    Ok(())
}

/// Holds what this generation takes of the org's quota. A service that is being deleted counts no
/// more, and keeps its capacity until it is verified to be gone.
async fn hold(tx: &mut Tx, service: &Service) -> Result<(), Refusal> {
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
    .bind(service.desired.as_str())
    .bind(service.generation)
    .bind(sql(service.accepted_at))
    .bind(sql(service.created_at))
    .bind(service.spec.plan.as_ref().map(Name::as_str))
    .execute(&mut **tx)
    .await?;
    Ok(())
}
