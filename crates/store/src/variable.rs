//! Variables, and all entries (variables and secrets) that are set outside of manifests.

use std::collections::BTreeMap;

use sqlx::Row;
use sqlx::postgres::PgRow;
use trueup_model::id::{OrgId, ProjectId, ServiceId};
use trueup_model::variable::{Scope, Variable};
use trueup_rules::admit::variable::Entries;
use uuid::Uuid;

use crate::db::pool::Tx;
use crate::db::row::read;
use crate::{App, Error, project, secret, service};

/// Every entry that is set, by project and service.
pub(crate) type AllEntries = BTreeMap<(ProjectId, Option<ServiceId>), Entries>;

impl App {
    /// The variables of a project or of one of its services, in name order; `None` if there is no
    /// such project or service.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_variables(
        &self,
        org: OrgId,
        project: &str,
        service: Option<&str>,
    ) -> Result<Option<Vec<Variable>>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(scope) = find_scope(&mut tx, project, service).await? else {
            return Ok(None);
        };
        list(&mut tx, scope).await.map(Some)
    }
}

/// The variables of exactly this scope, in name order.
pub(crate) async fn list(tx: &mut Tx, scope: Scope) -> Result<Vec<Variable>, Error> {
    let rows = sqlx::query(
        "select name, value, version, set_by, set_at from variables
         where project_id = $1 and service_id is not distinct from $2 and value is not null
         order by name",
    )
    .bind(scope.project.uuid())
    .bind(scope.service.map(ServiceId::uuid))
    .fetch_all(&mut **tx)
    .await?;
    rows.iter().map(variable).collect()
}

pub(crate) fn variable(row: &PgRow) -> Result<Variable, Error> {
    Ok(Variable {
        name: read("variable name", row.try_get("name")?)?,
        value: row.try_get("value")?,
        version: row.try_get("version")?,
        set_by: row.try_get("set_by")?,
        set_at: row.try_get::<jiff_sqlx::Timestamp, _>("set_at")?.to_jiff(),
    })
}

/// The scope of a project or service; `None` if there is no such project or service.
pub(crate) async fn find_scope(
    tx: &mut Tx,
    project: &str,
    service: Option<&str>,
) -> Result<Option<Scope>, Error> {
    match service {
        None => Ok(project::find(tx, project).await?.map(|row| Scope {
            org: row.project.org,
            project: row.project.id,
            service: None,
        })),
        Some(wanted) => Ok(service::find(tx, project, wanted).await?.map(|row| Scope {
            org: row.service.org,
            project: row.service.project,
            service: Some(row.service.id),
        })),
    }
}

/// All entries of these projects and of their services.
pub(crate) async fn entries(tx: &mut Tx, projects: &[Uuid]) -> Result<AllEntries, Error> {
    let mut all = AllEntries::new();
    let rows = sqlx::query(
        "select project_id, service_id, name, value from variables
         where project_id = any($1) and value is not null",
    )
    .bind(projects)
    .fetch_all(&mut **tx)
    .await?;
    for row in &rows {
        let name = read("variable name", row.try_get("name")?)?;
        let entries = all.entry(owner(row)?).or_default();
        entries.variables.insert(name, row.try_get("value")?);
    }
    for secret in secret::encrypted(tx, projects).await? {
        let scope = secret.place.scope;
        let entries = all.entry((scope.project, scope.service)).or_default();
        entries.secrets.insert(secret.place.name.clone(), secret);
    }
    Ok(all)
}

pub(crate) fn owner(row: &PgRow) -> Result<(ProjectId, Option<ServiceId>), Error> {
    let project = ProjectId::from_uuid(row.try_get("project_id")?);
    let service: Option<Uuid> = row.try_get("service_id")?;
    Ok((project, service.map(ServiceId::from_uuid)))
}

/// Deletes all entries of a service whose absence is verified.
pub(crate) async fn shred(tx: &mut Tx, service: ServiceId) -> Result<(), Error> {
    sqlx::query("delete from variables where service_id = $1")
        .bind(service.uuid())
        .execute(&mut **tx)
        .await?;
    sqlx::query("delete from secrets where service_id = $1")
        .bind(service.uuid())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Deletes all entries of a project whose absence is verified.
pub(crate) async fn shred_project(tx: &mut Tx, project: ProjectId) -> Result<(), Error> {
    sqlx::query("delete from variables where project_id = $1")
        .bind(project.uuid())
        .execute(&mut **tx)
        .await?;
    sqlx::query("delete from secrets where project_id = $1")
        .bind(project.uuid())
        .execute(&mut **tx)
        .await?;
    Ok(())
}
