//! Accepting projects.

use jiff::Timestamp;
use trueup_model::event::{Fact, NewEvent, Source};
use trueup_model::id::{OrgId, ProjectId};
use trueup_model::name::Name;
use trueup_model::order::Unit;
use trueup_model::wake::Lane;
use trueup_rules::names;
use uuid::Uuid;

use super::{Accepted, Asker, Refusal};
use crate::clock::sql;
use crate::mint::mint;
use crate::pool::Tx;
use crate::project::{ProjectRow, find};
use crate::{App, event, status, wake};

impl App {
    /// Declares a project. Declaring it again changes nothing.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn accept_project(
        &self,
        org: OrgId,
        name: &Name,
        asker: &Asker<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ProjectRow>, Refusal> {
        let mut tx = self.begin(org).await?;
        let accepted = declare(&mut tx, org, name, asker, now).await?;
        self.end(tx).await?;
        Ok(accepted)
    }
}

/// Makes the project of this name, with its event and its wake, if there is none.
pub(super) async fn declare(
    tx: &mut Tx,
    org: OrgId,
    name: &Name,
    asker: &Asker<'_>,
    now: Timestamp,
) -> Result<Accepted<ProjectRow>, Refusal> {
    let Accepted { row, changed } = make(tx, org, name, now).await?;
    if changed {
        let unit = Unit::Project(row.project.id);
        let queued = NewEvent {
            id: mint(now),
            org,
            source: Source::User,
            unit,
            generation: 1,
            at: now,
            fact: Fact::ProjectQueued {},
            trace: asker.trace.clone(),
            cause: None,
        };
        status::accept(tx, unit, org, now).await?;
        event::record(tx, &[queued]).await?;
        let (cluster, lane) = (row.project.cluster, Lane::UserChange);
        let wanted = wake::Request::by(asker, unit, org, cluster, lane);
        wake::request(tx, &wanted, now).await?;
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
        return Ok(Accepted { row, changed: false });
    }
    // One cluster for now: placement is a decision of a later day.
    let cluster: Option<(Uuid,)> =
        sqlx::query_as("select id from clusters order by created_at limit 1")
            .fetch_optional(&mut **tx)
            .await?;
    let (cluster,) = cluster.ok_or(Refusal::NoCluster)?;
    let id: ProjectId = mint(now);
    let inserted = sqlx::query(
        "insert into projects (id, org_id, name, cluster_id, namespace, generation, created_at)
         values ($1, $2, $3, $4, $5, 1, $6)
         on conflict on constraint projects_name_key do nothing",
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
    Ok(Accepted { row, changed: inserted.rows_affected() == 1 })
}
