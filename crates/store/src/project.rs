//! Projects: reading them.

use trueup_model::id::{ClusterId, OrgId, ProjectId};
use trueup_model::name::Name;
use trueup_model::project::Project;
use uuid::Uuid;

use crate::pool::Tx;
use crate::row::read;
use crate::{App, Error};

/// A project with its cluster's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectRow {
    /// The project.
    pub project: Project,
    /// What its cluster is called.
    pub cluster_name: String,
}

type Columns = (Uuid, Uuid, String, Uuid, String, i64, String);

const SELECT: &str =
    "select p.id, p.org_id, p.name, p.cluster_id, p.namespace, p.generation, c.name
     from projects p join clusters c on c.id = p.cluster_id";

fn row(
    (id, org, name, cluster, namespace, generation, cluster_name): Columns,
) -> Result<ProjectRow, Error> {
    let project = Project {
        id: ProjectId::from_uuid(id),
        org: OrgId::from_uuid(org),
        name: read::<Name>("project name", name)?,
        cluster: ClusterId::from_uuid(cluster),
        namespace,
        generation,
    };
    Ok(ProjectRow { project, cluster_name })
}

impl App {
    /// The projects of an org, in name order.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_projects(&self, org: OrgId) -> Result<Vec<ProjectRow>, Error> {
        let mut tx = self.begin(org).await?;
        let statement = format!("{SELECT} order by p.name");
        let rows: Vec<Columns> =
            sqlx::query_as(sqlx::AssertSqlSafe(statement)).fetch_all(&mut *tx).await?;
        rows.into_iter().map(row).collect()
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
    let found: Option<Columns> = sqlx::query_as(sqlx::AssertSqlSafe(statement))
        .bind(name.as_ref().map(Name::as_str))
        .bind(id)
        .fetch_optional(&mut **tx)
        .await?;
    found.map(row).transpose()
}
