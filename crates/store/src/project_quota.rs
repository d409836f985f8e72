//! Quotas of projects: limits below those of their org.
//!
//! What a project uses is the sum of the reservations of its services. They change only under the lock of
//! the org's quota, so of two requests for the last of a project's quota the second sees the first.

use sqlx::Row;
use trueup_model::id::{OrgId, ProjectId};
use trueup_model::quota::{Amounts, LimitSource, Quota};

use crate::db::pool::Tx;
use crate::quota::amounts;
use crate::{App, Error, project, quota};

impl App {
    /// The quota of a project, or what it uses of its org's; `None` if there is no such project.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_project_quota(
        &self,
        org: OrgId,
        wanted: &str,
    ) -> Result<Option<Quota>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(found) = project::find(&mut tx, wanted).await? else { return Ok(None) };
        of(&mut tx, found.project.id).await.map(Some)
    }
}

/// The quota of a project, or what it uses of its org's.
pub(crate) async fn of(tx: &mut Tx, project: ProjectId) -> Result<Quota, Error> {
    if let Some(own) = own(tx, project).await? {
        return Ok(own);
    }
    let org = quota::load(tx).await?;
    Ok(Quota { used: used(tx, project).await?, ..org })
}

/// The quota that a project has of its own.
pub(crate) async fn own(tx: &mut Tx, project: ProjectId) -> Result<Option<Quota>, Error> {
    let row = sqlx::query("select * from project_quotas where project_id = $1 and holds")
        .bind(project.uuid())
        .fetch_optional(&mut **tx)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let (limit, source) = (amounts(&row, "_limit")?, LimitSource::Project);
    Ok(Some(Quota { limit, used: used(tx, project).await?, source }))
}

async fn used(tx: &mut Tx, project: ProjectId) -> Result<Amounts, Error> {
    let row = sqlx::query(
        "select coalesce(sum(r.services), 0)::bigint as services,
                coalesce(sum(r.cpu_millis), 0)::bigint as cpu_millis,
                coalesce(sum(r.memory_mib), 0)::bigint as memory_mib,
                coalesce(sum(r.storage_gib), 0)::bigint as storage_gib,
                coalesce(sum(r.gpus), 0)::bigint as gpus
         from reservations r join services s on s.id = r.service_id where s.project_id = $1",
    )
    .bind(project.uuid())
    .fetch_one(&mut **tx)
    .await?;
    Ok(Amounts {
        services: row.try_get("services")?,
        cpu_millis: row.try_get("cpu_millis")?,
        memory_mib: row.try_get("memory_mib")?,
        storage_gib: row.try_get("storage_gib")?,
        gpus: row.try_get("gpus")?,
        ..Amounts::default()
    })
}
