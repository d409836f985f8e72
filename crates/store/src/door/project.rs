//! Accepts projects and their deletion.

mod force;

use jiff::Timestamp;
use trueup_model::event::{Fact, NewEvent, Source};
use trueup_model::id::{OrgId, ProjectId};
use trueup_model::name::Name;
use trueup_model::order::Unit;
use trueup_model::project::Project;
use trueup_model::service::{DesiredState, Service};
use trueup_model::wake::Lane;
use trueup_rules::admit::Refused;
use trueup_rules::render::names;
use uuid::Uuid;

use super::race::retry_on_conflict;
use super::service::{record_generation, reserve_and_wake};
use super::{Accepted, Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::read;
use crate::project::{ProjectRow, find};
use crate::service::service;
use crate::work::wake;
use crate::{App, Error, event, status};

pub use force::ProjectForce;

impl App {
    /// Declares a project. Idempotent.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn accept_project(
        &self,
        org: OrgId,
        name: &Name,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ProjectRow>, Refusal> {
        let mut tx = self.begin(org).await?;
        let accepted = declare(&mut tx, org, name, context, now).await?;
        self.end(tx).await?;
        Ok(accepted)
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
        retry_on_conflict(|| self.try_delete_project(org, wanted, context, now)).await
    }

    async fn try_delete_project(
        &self,
        org: OrgId,
        wanted: &str,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ProjectRow>, Refusal> {
        let mut tx = self.begin(org).await?;
        let row = find(&mut tx, wanted).await?.ok_or(Refusal::NotFound("project"))?;
        if lock(&mut tx, row.project.id).await? == DesiredState::Deleted {
            self.end(tx).await?;
            return Ok(Accepted { row, changed: false });
        }
        let deleted = delete_services(&mut tx, row.project.id, context, now).await?;
        sqlx::query(
            "update projects set desired = 'deleted', deleting_at = $2, generation = generation + 1
             where id = $1",
        )
        .bind(row.project.id.uuid())
        .bind(sql(now))
        .execute(&mut *tx)
        .await?;
        let id = row.project.id.to_string();
        let row = find(&mut tx, &id).await?.ok_or(Refusal::NotFound("project"))?;
        let principal = context.principal.name.clone();
        let fact = Fact::ProjectDeleteQueued { principal, services: deleted.len() };
        record(&mut tx, &row.project, fact, context, now).await?;
        // Last, because every change in the org locks the quota's row.
        for service in &deleted {
            reserve_and_wake(&mut tx, service, context, now).await?;
        }
        request(&mut tx, &row.project, Lane::Delete, context, now).await?;
        self.end(tx).await?;
        Ok(Accepted { row, changed: true })
    }
}

/// Creates the project of this name, with its event and wake, if it does not exist.
pub(super) async fn declare(
    tx: &mut Tx,
    org: OrgId,
    name: &Name,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<Accepted<ProjectRow>, Refusal> {
    let Accepted { row, changed } = create(tx, org, name, now).await?;
    if changed {
        let unit = Unit::Project(row.project.id);
        status::accept(tx, unit, org, now).await?;
        record(tx, &row.project, Fact::ProjectQueued {}, context, now).await?;
        request(tx, &row.project, Lane::UserChange, context, now).await?;
    }
    Ok(Accepted { row, changed })
}

/// The project of this name, created if it does not exist.
async fn create(
    tx: &mut Tx,
    org: OrgId,
    name: &Name,
    now: Timestamp,
) -> Result<Accepted<ProjectRow>, Refusal> {
    if let Some(row) = find(tx, name.as_str()).await? {
        check_not_deleting(row.desired)?;
        return Ok(Accepted { row, changed: false });
    }
    // There is only one cluster so far, so there is no placement decision.
    let cluster: Option<(Uuid,)> =
        sqlx::query_as("select id from clusters order by created_at limit 1")
            .fetch_optional(&mut **tx)
            .await?;
    let (cluster,) = cluster.ok_or(Refusal::NoCluster)?;
    let id: ProjectId = new_id(now);
    let inserted = sqlx::query(
        "insert into projects (id, org_id, name, cluster_id, namespace, generation, created_at)
         values ($1, $2, $3, $4, $5, 1, $6)
         on conflict (org_id, name) where deleted_at is null do nothing",
    )
    .bind(id.uuid())
    .bind(org.uuid())
    .bind(name.as_str())
    .bind(cluster)
    .bind(names::namespace(name, id))
    .bind(sql(now))
    .execute(&mut **tx)
    .await?;
    let row = find(tx, name.as_str()).await?.ok_or(Refusal::NotFound("project"))?;
    check_not_deleting(row.desired)?;
    Ok(Accepted { row, changed: inserted.rows_affected() == 1 })
}

/// Refuses changes to a project that is being deleted.
pub(super) fn check_not_deleting(desired: DesiredState) -> Result<(), Refusal> {
    match desired {
        DesiredState::Active | DesiredState::Paused => Ok(()),
        DesiredState::Deleted => Err(Refusal::Refused(Refused::BeingDeleted)),
    }
}

/// Locks the project, so that no service is declared in it; returns its desired state.
async fn lock(tx: &mut Tx, project: ProjectId) -> Result<DesiredState, Error> {
    let (desired,): (String,) =
        sqlx::query_as("select desired from projects where id = $1 for update")
            .bind(project.uuid())
            .fetch_one(&mut **tx)
            .await?;
    read("desired state", desired)
}

/// Accepts the deletion of every service that is not being deleted yet.
async fn delete_services(
    tx: &mut Tx,
    project: ProjectId,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<Vec<Service>, Refusal> {
    let rows = sqlx::query(
        "select * from services where project_id = $1 and desired <> 'deleted' order by id for update",
    )
    .bind(project.uuid())
    .fetch_all(&mut **tx)
    .await?;
    let mut deleted = Vec::new();
    for row in &rows {
        let current = service(row)?;
        let next = Service {
            desired: DesiredState::Deleted,
            generation: current.generation.saturating_add(1),
            accepted_at: now,
            ..current
        };
        record_generation(tx, &next, "delete", context, now).await?;
        deleted.push(next);
    }
    Ok(deleted)
}

async fn record(
    tx: &mut Tx,
    project: &Project,
    fact: Fact,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    let event = NewEvent {
        id: new_id(now),
        org: project.org,
        source: Source::User,
        unit: Unit::Project(project.id),
        generation: project.generation,
        at: now,
        fact,
        trace: context.trace.clone(),
        cause: None,
    };
    event::record(tx, &[event]).await
}

async fn request(
    tx: &mut Tx,
    project: &Project,
    lane: Lane,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    let unit = Unit::Project(project.id);
    let wanted = wake::Request::by(context, unit, project.org, project.cluster, lane);
    wake::request(tx, &wanted, now).await
}
