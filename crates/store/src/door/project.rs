//! Accepts projects and their deletion.

mod drift;
mod force;

use jiff::Timestamp;
use trueup_model::drift::DriftPolicy;
use trueup_model::event::{Fact, ProjectDeleteQueued};
use trueup_model::id::{OrgId, ProjectId};
use trueup_model::name::Name;
use trueup_model::order::Unit;
use trueup_model::service::{DesiredState, Service};
use trueup_model::wake::Lane;
use trueup_rules::render::names;
use uuid::Uuid;

use super::generation::next;
use super::lock::check_not_deleting;
use super::write::Write;
use super::{Accepted, Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::row::json;
use crate::project::{ProjectRow, find};
use crate::service::service;
use crate::{App, Error, org, quota, status};

pub use force::ProjectForce;

impl App {
    /// Declares a project with the drift policy of its services. Idempotent.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn accept_project(
        &self,
        org: OrgId,
        name: &Name,
        drift: &DriftPolicy,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ProjectRow>, Refusal> {
        self.write(org, context, now, |write| accept(write, name, drift)).await
    }

    /// Accepts the deletion of a project and of every service in it. Idempotent.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn delete_project(
        &self,
        org: OrgId,
        wanted: &str,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ProjectRow>, Refusal> {
        self.write(org, context, now, |write| delete(write, wanted)).await
    }
}

async fn accept(
    mut write: Write<'_>,
    name: &Name,
    drift: &DriftPolicy,
) -> Result<Accepted<ProjectRow>, Refusal> {
    let accepted = declare(&mut write, name, Some(drift)).await?;
    write.finish(accepted).await
}

async fn delete(mut write: Write<'_>, wanted: &str) -> Result<Accepted<ProjectRow>, Refusal> {
    let row = find(&mut write.tx, wanted).await?.ok_or(Refusal::NotFound("project"))?;
    let Some(deleted) = delete_found(&mut write, row.project.id).await? else {
        return write.finish(Accepted { row, changed: false }).await;
    };
    deleted.wake(&mut write).await?;
    write.finish(Accepted { row: deleted.row, changed: true }).await
}

/// A project whose deletion was accepted by this write, with its services.
pub(super) struct DeletedProject {
    row: ProjectRow,
    services: Vec<Service>,
}

impl DeletedProject {
    /// How many services are deleted with it that were not being deleted already.
    pub(super) const fn services(&self) -> usize {
        self.services.len()
    }

    /// Wakes its services and the project itself. After every other lock of the write.
    pub(super) async fn wake(&self, write: &mut Write<'_>) -> Result<(), Refusal> {
        for service in &self.services {
            write.reserve_and_wake(service).await?;
        }
        wake(write, &self.row, Lane::Delete).await?;
        Ok(())
    }
}

/// Accepts the deletion of a project and of its services, with their events and without their
/// wakes; `None` if it is being deleted already.
pub(super) async fn delete_found(
    write: &mut Write<'_>,
    project: ProjectId,
) -> Result<Option<DeletedProject>, Refusal> {
    let (_, desired) = write.lock_project(project).await?;
    if desired == DesiredState::Deleted {
        return Ok(None);
    }
    let services = delete_services(write, project).await?;
    sqlx::query(
        "update projects set desired = 'deleted', deleting_at = $2, generation = generation + 1
         where id = $1",
    )
    .bind(project.uuid())
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    let id = project.to_string();
    let row = find(&mut write.tx, &id).await?.ok_or(Refusal::NotFound("project"))?;
    let fact = Fact::ProjectDeleteQueued(ProjectDeleteQueued {
        principal: write.principal(),
        services: services.len(),
    });
    record(write, &row, fact).await?;
    Ok(Some(DeletedProject { row, services }))
}

/// Creates the project of this name, with its event and wake, if it does not exist. Without a drift
/// policy, that of an existing project stays.
pub(super) async fn declare(
    write: &mut Write<'_>,
    name: &Name,
    drift: Option<&DriftPolicy>,
) -> Result<Accepted<ProjectRow>, Refusal> {
    let Accepted { row, changed } = create(write, name, drift).await?;
    if changed {
        let unit = Unit::Project(row.project.id);
        status::accept(&mut write.tx, unit, row.project.org, write.now).await?;
        record(write, &row, Fact::ProjectQueued {}).await?;
        wake(write, &row, Lane::UserChange).await?;
        drift::wake_services(write, &row).await?;
    }
    Ok(Accepted { row, changed })
}

/// The project of this name and with this policy, created if it does not exist.
async fn create(
    write: &mut Write<'_>,
    name: &Name,
    drift: Option<&DriftPolicy>,
) -> Result<Accepted<ProjectRow>, Refusal> {
    if let Some(row) = find(&mut write.tx, name.as_str()).await? {
        check_not_deleting(row.desired)?;
        return drift::set(write, row, drift).await;
    }
    let none = DriftPolicy::default();
    let policy = drift.unwrap_or(&none);
    drift::check(policy)?;
    let org = write.org();
    if org::lock_shared(&mut write.tx, org).await? {
        return Err(Refusal::OrgBeingDeleted);
    }
    // There is only one cluster so far, so there is no placement decision.
    let cluster: Option<(Uuid,)> =
        sqlx::query_as("select id from clusters order by created_at limit 1")
            .fetch_optional(&mut *write.tx)
            .await?;
    let (cluster,) = cluster.ok_or(Refusal::NoCluster)?;
    let id: ProjectId = new_id(write.now);
    let inserted = sqlx::query(
        "insert into projects (id, org_id, name, cluster_id, namespace, generation, created_at, drift)
         values ($1, $2, $3, $4, $5, 1, $6, $7)
         on conflict (org_id, name) where deleted_at is null do nothing",
    )
    .bind(id.uuid())
    .bind(write.org().uuid())
    .bind(name.as_str())
    .bind(cluster)
    .bind(names::namespace(name, id))
    .bind(sql(write.now))
    .bind(json(policy))
    .execute(&mut *write.tx)
    .await?;
    let row = find(&mut write.tx, name.as_str()).await?.ok_or(Refusal::NotFound("project"))?;
    check_not_deleting(row.desired)?;
    if inserted.rows_affected() == 1 {
        quota::take_project(&mut write.tx).await?;
        return Ok(Accepted { row, changed: true });
    }
    // Another request created it meanwhile.
    drift::set(write, row, drift).await
}

/// Accepts the deletion of every service that is not being deleted yet.
async fn delete_services(
    write: &mut Write<'_>,
    project: ProjectId,
) -> Result<Vec<Service>, Refusal> {
    let rows = sqlx::query(
        "select * from services where project_id = $1 and desired <> 'deleted' order by id for update",
    )
    .bind(project.uuid())
    .fetch_all(&mut *write.tx)
    .await?;
    let mut deleted = Vec::new();
    for row in &rows {
        let next = next(service(row)?, write.now);
        let next = Service { desired: DesiredState::Deleted, ..next };
        write.record_generation(&next, "delete").await?;
        deleted.push(next);
    }
    Ok(deleted)
}

async fn record(write: &mut Write<'_>, of: &ProjectRow, fact: Fact) -> Result<(), Error> {
    write.record_about(Unit::Project(of.project.id), of.project.generation, fact).await
}

async fn wake(write: &mut Write<'_>, of: &ProjectRow, lane: Lane) -> Result<(), Error> {
    write.wake(Unit::Project(of.project.id), of.project.cluster, lane).await
}
