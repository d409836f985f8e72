//! Accepting projects, and their end.

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

use super::race::again;
use super::service::{hold_and_wake, write_down};
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
    /// Declares a project. Declaring it again changes nothing.
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

    /// Promises the end of a project and of every service in it. Asking again changes nothing.
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
        again(|| self.try_delete_project(org, wanted, context, now)).await
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
        let ended = end_services(&mut tx, row.project.id, context, now).await?;
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
        let fact = Fact::ProjectDeleteQueued { principal, services: ended.len() };
        record(&mut tx, &row.project, fact, context, now).await?;
        // Last, because everybody in the org wants the quota's row.
        for service in &ended {
            hold_and_wake(&mut tx, service, context, now).await?;
        }
        request(&mut tx, &row.project, Lane::Delete, context, now).await?;
        self.end(tx).await?;
        Ok(Accepted { row, changed: true })
    }
}

/// Makes the project of this name, with its event and its wake, if there is none.
pub(super) async fn declare(
    tx: &mut Tx,
    org: OrgId,
    name: &Name,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<Accepted<ProjectRow>, Refusal> {
    let Accepted { row, changed } = make(tx, org, name, now).await?;
    if changed {
        let unit = Unit::Project(row.project.id);
        status::accept(tx, unit, org, now).await?;
        record(tx, &row.project, Fact::ProjectQueued {}, context, now).await?;
        request(tx, &row.project, Lane::UserChange, context, now).await?;
    }
    Ok(Accepted { row, changed })
}

/// The project of this name, made if there is none.
async fn make(
    tx: &mut Tx,
    org: OrgId,
    name: &Name,
    now: Timestamp,
) -> Result<Accepted<ProjectRow>, Refusal> {
    if let Some(row) = find(tx, name.as_str()).await? {
        must_live(row.desired)?;
        return Ok(Accepted { row, changed: false });
    }
    // One cluster for now: placement is a decision of a later day.
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
    must_live(row.desired)?;
    Ok(Accepted { row, changed: inserted.rows_affected() == 1 })
}

/// Nothing new is promised about what shall be gone.
pub(super) fn must_live(desired: DesiredState) -> Result<(), Refusal> {
    match desired {
        DesiredState::Active | DesiredState::Paused => Ok(()),
        DesiredState::Deleted => Err(Refusal::Refused(Refused::BeingDeleted)),
    }
}

/// Nobody declares a service in it until this transaction is over.
async fn lock(tx: &mut Tx, project: ProjectId) -> Result<DesiredState, Error> {
    let (desired,): (String,) =
        sqlx::query_as("select desired from projects where id = $1 for update")
            .bind(project.uuid())
            .fetch_one(&mut **tx)
            .await?;
    read("desired state", desired)
}

/// The end of every service that was to stay, as if somebody had asked for each.
async fn end_services(
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
    let mut ended = Vec::new();
    for row in &rows {
        let current = service(row)?;
        let next = Service {
            desired: DesiredState::Deleted,
            generation: current.generation.saturating_add(1),
            accepted_at: now,
            ..current
        };
        write_down(tx, &next, "delete", context, now).await?;
        ended.push(next);
    }
    Ok(ended)
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
