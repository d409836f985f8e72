//! Projects: reading them.

use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::cluster::Freshness;
use trueup_model::id::{ClusterId, OrgId, ProjectId};
use trueup_model::name::Name;
use trueup_model::project::Project;
use trueup_model::status::Status;

use crate::pool::Tx;
use crate::row::{freshness, read, read_json};
use crate::{App, Error};

/// A project with its status and its cluster's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectRow {
    /// The project.
    pub project: Project,
    /// What its cluster is called.
    pub cluster_name: String,
    /// When each kind of its cluster was last heard of.
    pub watches: Freshness,
    /// What was projected last.
    pub status: Status,
}

/// A project that is just being made has no status yet.
const SELECT: &str =
    "select p.id, p.org_id, p.name, p.cluster_id, p.namespace, p.generation, p.created_at,
            c.name as cluster_name, c.watches, t.status
     from projects p join clusters c on c.id = p.cluster_id
     left join statuses t on t.unit_kind = 'project' and t.unit_id = p.id";

fn row(row: &PgRow) -> Result<ProjectRow, Error> {
    let project = Project {
        id: ProjectId::from_uuid(row.try_get("id")?),
        org: OrgId::from_uuid(row.try_get("org_id")?),
        name: read::<Name>("project name", row.try_get("name")?)?,
        cluster: ClusterId::from_uuid(row.try_get("cluster_id")?),
        namespace: row.try_get("namespace")?,
        generation: row.try_get("generation")?,
    };
    let made_at = row.try_get::<jiff_sqlx::Timestamp, _>("created_at")?.to_jiff();
    let status: Option<Json<Value>> = row.try_get("status")?;
    let status = status.map(|status| read_json("status", status)).transpose()?;
    Ok(ProjectRow {
        project,
        cluster_name: row.try_get("cluster_name")?,
        watches: freshness(row.try_get("watches")?)?,
        status: status.unwrap_or_else(|| Status::accepted(made_at)),
    })
}

impl App {
    /// The projects of an org, in name order.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_projects(&self, org: OrgId) -> Result<Vec<ProjectRow>, Error> {
        let mut tx = self.begin(org).await?;
        let statement = format!("{SELECT} order by p.name");
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement)).fetch_all(&mut *tx).await?;
        rows.iter().map(row).collect()
    }

    /// A project by name or id.
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
    // What cannot be a name names nothing; Postgres would not even take every such text.
    let name = wanted.parse::<Name>().ok();
    let statement = format!("{SELECT} where p.name = $1 or p.id = $2");
    let found = sqlx::query(sqlx::AssertSqlSafe(statement))
        .bind(name.as_ref().map(Name::as_str))
        .bind(id)
        .fetch_optional(&mut **tx)
        .await?;
    found.as_ref().map(row).transpose()
}
