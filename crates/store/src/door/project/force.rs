//! Force-completes the deletion of a project whose absence cannot be verified.
//!
//! This is a generation of its own, so that a report of an earlier pass cannot complete it.

use jiff::Timestamp;
use trueup_model::event::{Fact, ProjectForceQueued};
use trueup_model::id::{OrgId, ProjectId};
use trueup_model::receipt::Force;
use trueup_model::wake::Lane;
use trueup_rules::admit::operation::force_project;

use super::{record, wake};
use crate::db::pool::Tx;
use crate::db::row::json;
use crate::door::write::Write;
use crate::door::{Accepted, Refusal, RequestContext};
use crate::project::{ProjectRow, find};
use crate::{App, Error};

/// A request to force-complete the deletion of a project.
#[derive(Debug, Clone, Copy)]
pub struct ProjectForce<'a> {
    /// The project, by name or id.
    pub project: &'a str,
    /// The reason, for the receipt.
    pub reason: &'a str,
    /// Precondition: the generation that the caller read.
    pub generation: i64,
}

impl App {
    /// Force-completes a project's deletion. Idempotent: the first reason is kept.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn force_project(
        &self,
        org: OrgId,
        wanted: &ProjectForce<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ProjectRow>, Refusal> {
        self.write(org, context, now, |write| force(write, wanted)).await
    }
}

async fn force(
    mut write: Write<'_>,
    wanted: &ProjectForce<'_>,
) -> Result<Accepted<ProjectRow>, Refusal> {
    if let Some(subject) = write.earlier().await? {
        let row = found(&mut write.tx, &subject).await?;
        return Ok(Accepted { row, changed: false });
    }
    let id = found(&mut write.tx, wanted.project).await?.project.id;
    // Under the lock: the project may have changed after it was found.
    let (current, desired) = write.lock_project(id).await?;
    if current != wanted.generation {
        return Err(Refusal::Changed { current });
    }
    let services = services_left(&mut write.tx, id).await?;
    force_project(wanted.reason, desired, &services).map_err(Refusal::Refused)?;
    let (principal, reason) = (write.principal(), wanted.reason.trim().to_owned());
    let force = Force { principal, reason };
    let changed = record_force(&mut write.tx, id, &force).await?;
    let row = found(&mut write.tx, &id.to_string()).await?;
    if changed {
        let Force { principal, reason } = force;
        let fact = Fact::ProjectForceQueued(ProjectForceQueued { principal, reason });
        record(&mut write, &row, fact).await?;
        wake(&mut write, &row, Lane::Delete).await?;
    }
    write.finish_as(&id.to_string(), Accepted { row, changed }).await
}

async fn found(tx: &mut Tx, wanted: &str) -> Result<ProjectRow, Refusal> {
    find(tx, wanted).await?.ok_or(Refusal::NotFound("project"))
}

/// The services whose deletion is not complete. A project being deleted gets no new ones.
async fn services_left(tx: &mut Tx, project: ProjectId) -> Result<Vec<String>, Error> {
    let rows: Vec<(String,)> = sqlx::query_as(
        "select name from services where project_id = $1 and deleted_at is null order by name",
    )
    .bind(project.uuid())
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|(name,)| name).collect())
}

/// Records who forces the deletion, and why; returns false if it was forced or completed before.
async fn record_force(tx: &mut Tx, project: ProjectId, force: &Force) -> Result<bool, Error> {
    let written = sqlx::query(
        "update projects set force = $2, generation = generation + 1
         where id = $1 and force is null and deleted_at is null",
    )
    .bind(project.uuid())
    .bind(json(force))
    .execute(&mut **tx)
    .await?;
    Ok(written.rows_affected() == 1)
}
