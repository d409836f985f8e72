//! Projects: reading them, and completing their deletion.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::cluster::Freshness;
use trueup_model::id::{ClusterId, OrgId, ProjectId, ServiceId};
use trueup_model::name::Name;
use trueup_model::order::Unit;
use trueup_model::project::Project;
use trueup_model::receipt::Receipt;
use trueup_model::report::NamespaceSurvey;
use trueup_model::service::DesiredState;
use trueup_model::status::Status;
use trueup_model::subject::Subject;
use trueup_model::wake::Lane;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{freshness, json, read, read_json};
use crate::work::wake;
use crate::{App, Error, receipt, variable};

/// A project with its status and its cluster's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectRow {
    /// The project.
    pub project: Project,
    /// Its desired state.
    pub desired: DesiredState,
    /// The name of its cluster.
    pub cluster_name: String,
    /// When the last watch event of each kind of its cluster arrived.
    pub watches: Freshness,
    /// The last projected status.
    pub status: Status,
    /// The deletion receipt, once it is deleted.
    pub receipt: Option<Receipt>,
}

/// A project has no status while it is being created.
const SELECT: &str =
    "select p.id, p.org_id, p.name, p.cluster_id, p.namespace, p.generation, p.created_at, p.desired,
            p.drift, c.name as cluster_name, c.watches, t.status, r.receipt
     from projects p join clusters c on c.id = p.cluster_id
     left join statuses t on t.subject_kind = 'project' and t.subject_id = p.id
     left join receipts r on r.subject_kind = 'project' and r.subject_id = p.id";

fn row(row: &PgRow) -> Result<ProjectRow, Error> {
    let project = Project {
        id: ProjectId::from_uuid(row.try_get("id")?),
        org: OrgId::from_uuid(row.try_get("org_id")?),
        name: read::<Name>("project name", row.try_get("name")?)?,
        cluster: ClusterId::from_uuid(row.try_get("cluster_id")?),
        namespace: row.try_get("namespace")?,
        generation: row.try_get("generation")?,
        drift: read_json("drift policy", row.try_get("drift")?)?,
    };
    let created_at = row.try_get::<jiff_sqlx::Timestamp, _>("created_at")?.to_jiff();
    let status: Option<Json<Value>> = row.try_get("status")?;
    let status = status.map(|status| read_json("status", status)).transpose()?;
    let receipt: Option<Json<Value>> = row.try_get("receipt")?;
    Ok(ProjectRow {
        project,
        desired: read("desired state", row.try_get("desired")?)?,
        cluster_name: row.try_get("cluster_name")?,
        watches: freshness(row.try_get("watches")?)?,
        status: status.unwrap_or_else(|| Status::accepted(created_at)),
        receipt: receipt.map(|receipt| read_json("receipt", receipt)).transpose()?,
    })
}

impl App {
    /// The projects of an org that are not deleted, in name order.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_projects(&self, org: OrgId) -> Result<Vec<ProjectRow>, Error> {
        let mut tx = self.begin(org).await?;
        let statement = format!("{SELECT} where p.deleted_at is null order by p.name");
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement)).fetch_all(&mut *tx).await?;
        rows.iter().map(row).collect()
    }

    /// A project by name or id; an id also finds a deleted one.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_project(
        &self,
        org: OrgId,
        wanted: &str,
    ) -> Result<Option<ProjectRow>, Error> {
        let mut tx = self.begin(org).await?;
        find(&mut tx, wanted).await
    }
}

pub(crate) async fn find(tx: &mut Tx, wanted: &str) -> Result<Option<ProjectRow>, Error> {
    let id = wanted.parse::<ProjectId>().ok().map(ProjectId::uuid);
    // Text that is not a valid name matches nothing, and Postgres does not accept all of it.
    let name = wanted.parse::<Name>().ok();
    let statement = format!("{SELECT} where (p.name = $1 and p.deleted_at is null) or p.id = $2");
    let found = sqlx::query(sqlx::AssertSqlSafe(statement))
        .bind(name.as_ref().map(Name::as_str))
        .bind(id)
        .fetch_optional(&mut **tx)
        .await?;
    found.as_ref().map(row).transpose()
}

/// The id and name of a project by name or id, also after its deletion.
///
/// A name means the project that has it now; if there is none, the one that had it last.
pub(crate) async fn find_with_deleted(
    tx: &mut Tx,
    wanted: &str,
) -> Result<Option<(ProjectId, String)>, Error> {
    let id = wanted.parse::<ProjectId>().ok().map(ProjectId::uuid);
    let name = wanted.parse::<Name>().ok();
    let found: Option<(Uuid, String)> = sqlx::query_as(
        "select id, name from projects where name = $1 or id = $2
         order by deleted_at desc nulls first limit 1",
    )
    .bind(name.as_ref().map(Name::as_str))
    .bind(id)
    .fetch_optional(&mut **tx)
    .await?;
    Ok(found.map(|(id, name)| (ProjectId::from_uuid(id), name)))
}

/// The name of a project.
pub(crate) async fn name(tx: &mut Tx, project: ProjectId) -> Result<Name, Error> {
    let name: String = sqlx::query_scalar("select name from projects where id = $1")
        .bind(project.uuid())
        .fetch_one(&mut **tx)
        .await?;
    read("project name", name)
}

/// The desired state of a project, locked against a concurrent deletion.
pub(crate) async fn lock_shared(tx: &mut Tx, project: ProjectId) -> Result<DesiredState, Error> {
    let (desired,): (String,) =
        sqlx::query_as("select desired from projects where id = $1 for key share")
            .bind(project.uuid())
            .fetch_one(&mut **tx)
            .await?;
    read("desired state", desired)
}

/// Stores the deletion receipt of a project, frees its name and its quota, and deletes its entries.
pub(crate) async fn complete_deletion(
    tx: &mut Tx,
    project: ProjectId,
    org: OrgId,
    receipt: &Receipt,
) -> Result<(), Error> {
    receipt::insert(tx, Subject::Project(project), org, receipt).await?;
    variable::shred_project(tx, project).await?;
    sqlx::query(
        "with gone as (
         update projects set deleted_at = $2 where id = $1 and deleted_at is null returning org_id)
         update quotas q set projects_used = q.projects_used - 1 from gone g where q.org_id = g.org_id",
    )
    .bind(project.uuid())
    .bind(sql(receipt.verified_at))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records or clears the survey of a project's namespace. Only a change wakes the project.
pub(crate) async fn record_survey(
    tx: &mut Tx,
    project: ProjectId,
    survey: &NamespaceSurvey,
    now: Timestamp,
) -> Result<(), Error> {
    let survey = match survey {
        NamespaceSurvey::Clear(survey) => Some(json(survey)),
        NamespaceSurvey::Kept => None,
    };
    let deleting: Option<Deleting> = sqlx::query_as(
        "update projects set survey = $2
         where id = $1 and desired = 'deleted' and deleted_at is null and (survey is null) <> ($2 is null)
         returning id, org_id, cluster_id",
    )
    .bind(project.uuid())
    .bind(survey)
    .fetch_optional(&mut **tx)
    .await?;
    wake(tx, deleting, now).await
}

/// Wakes the project of a deleted service if it waits for its services to be deleted.
pub(crate) async fn wake_deleting(
    tx: &mut Tx,
    service: ServiceId,
    now: Timestamp,
) -> Result<(), Error> {
    let deleting: Option<Deleting> = sqlx::query_as(
        "select p.id, p.org_id, p.cluster_id from services s join projects p on p.id = s.project_id
         where s.id = $1 and p.desired = 'deleted' and p.deleted_at is null",
    )
    .bind(service.uuid())
    .fetch_optional(&mut **tx)
    .await?;
    wake(tx, deleting, now).await
}

/// A project that is being deleted, with its org and its cluster.
type Deleting = (Uuid, Uuid, Uuid);

async fn wake(tx: &mut Tx, deleting: Option<Deleting>, now: Timestamp) -> Result<(), Error> {
    let Some((id, org, cluster)) = deleting else { return Ok(()) };
    let again = wake::Request {
        unit: Unit::Project(ProjectId::from_uuid(id)),
        org: OrgId::from_uuid(org),
        cluster: ClusterId::from_uuid(cluster),
        lane: Lane::Delete,
        trace: None,
        fresh: false,
    };
    wake::request(tx, &again, now).await
}
