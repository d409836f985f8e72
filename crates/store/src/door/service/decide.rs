//! Decides a change of a service under its lock; nothing is recorded yet.

use jiff::Timestamp;
use trueup_model::active_hours::Turn;
use trueup_model::id::ServiceId;
use trueup_model::name::Name;
use trueup_model::project::Project;
use trueup_model::service::{DesiredState, Service};
use trueup_rules::active_hours::settle;
use trueup_rules::admit::operation::{self, OperationContext, ServiceOperation, act};
use trueup_rules::admit::{AdmissionContext, Admitted, ReleaseSpec, admit, wanted_plan};
use trueup_rules::render::names;

use super::{ServiceChange, ServiceRequest};
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::door::Refusal;
use crate::door::config::check_generated_secrets;
use crate::door::generation::next;
use crate::door::lock::{check_generation, check_not_deleting};
use crate::door::write::Write;
use crate::service::service;
use crate::{Error, plan, project, release, template};

/// A decision that is not recorded yet.
pub(super) struct Decided {
    /// The next generation, or the current one if nothing changed.
    pub(super) after: Service,
    pub(super) changed: bool,
    /// What new active hours do at once.
    pub(super) turn: Option<Turn>,
}

/// Locks the service and asks the rules. A new service gets the id of its preview, if there is one.
pub(super) async fn decide(
    write: &mut Write<'_>,
    wanted: &ServiceRequest<'_>,
    planned: Option<ServiceId>,
) -> Result<Decided, Refusal> {
    let now = write.now;
    let project = project::find(&mut write.tx, wanted.project).await?;
    let project = project.ok_or(Refusal::NotFound("project"))?.project;
    let (before, admitted) = match wanted.change {
        ServiceChange::Declare(name, request) => {
            let tx = &mut write.tx;
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
            // Also finds a deleted service by its id, so that a repeated deletion changes nothing.
            let found = write.find_service(wanted.project, service).await?.service.id;
            let current = write.lock_service(found).await?;
            check_generation(Some(&current), wanted.if_generation)?;
            let admitted = decide_action(&mut write.tx, action, &current).await?;
            // A completed deletion cannot be forced any more.
            let over = matches!(action, ServiceOperation::ForceDelete { .. })
                && is_gone(&mut write.tx, &current).await?;
            (Some(current), if over { Admitted::Unchanged } else { admitted })
        }
    };
    let mut turn = None;
    let (after, changed) = match (admitted, &before, &wanted.change) {
        (Admitted::Changed(mut release), Some(before), _) => {
            turn = settle(&mut release, Some(before), now);
            (next_release(before, *release, now), true)
        }
        (Admitted::Changed(mut release), None, ServiceChange::Declare(name, _)) => {
            turn = settle(&mut release, None, now);
            (first(&project, name, planned.unwrap_or_else(|| new_id(now)), *release, now), true)
        }
        (Admitted::Unchanged, Some(before), _) => (before.clone(), false),
        // Only a declaration can name a service that does not exist, and it creates it.
        (_, None, _) => return Err(Refusal::NotFound("service")),
    };
    if changed && after.desired != DesiredState::Deleted {
        check_generated_secrets(&mut write.tx, &after).await?;
    }
    Ok(Decided { after, changed, turn })
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
        | ServiceOperation::Hours { .. }
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
        drift: release.drift,
        active: release.active,
        spec: release.spec,
        desired: release.desired,
        scheduled_off: release.scheduled_off,
        generation: 1,
        accepted_at: now,
        created_at: now,
    }
}

/// The generation after the current one, with this release.
fn next_release(current: &Service, release: ReleaseSpec, now: Timestamp) -> Service {
    Service {
        template: release.template,
        parameters: release.parameters,
        drift: release.drift,
        active: release.active,
        spec: release.spec,
        desired: release.desired,
        scheduled_off: release.scheduled_off,
        ..next(current.clone(), now)
    }
}

async fn is_gone(tx: &mut Tx, service: &Service) -> Result<bool, Error> {
    let (gone,): (bool,) =
        sqlx::query_as("select deleted_at is not null from services where id = $1")
            .bind(service.id.uuid())
            .fetch_one(&mut **tx)
            .await?;
    Ok(gone)
}
