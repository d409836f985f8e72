//! Conflicts: reading fields that two writers fight over.

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Row};
use trueup_model::drift::{Conflict, ConflictDecision, FieldRef, Settlement};
use trueup_model::id::{ClusterId, ConflictId, OrgId};
use uuid::Uuid;

use crate::db::pool::Tx;
use crate::db::row::{key, maybe_time, read, time, unit};
use crate::{App, Error};

/// A conflict with the names around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictRow {
    /// The conflict.
    pub conflict: Conflict,
    /// The name of its project.
    pub project_name: String,
    /// The name of its service; `None` for an object of the project itself.
    pub service_name: Option<String>,
}

const SELECT: &str = "select c.id, c.org_id, c.subject_kind, c.subject_id, c.cluster_id, c.kind, c.namespace,
        c.name, c.field, c.manager, c.raised_at, c.decision, c.settled_by, c.settled_at, c.holds_until,
        p.name as project_name, s.name as service_name
     from conflicts c join projects p on p.id = c.project_id
     left join services s on c.subject_kind = 'service' and s.id = c.subject_id";

impl App {
    /// Conflicts in the order in which they were raised: only open ones, or all.
    ///
    /// A conflict of a deleted service or project is not open: nothing is left to decide.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_conflicts(
        &self,
        org: OrgId,
        settled: bool,
        after: Option<ConflictId>,
        limit: i64,
    ) -> Result<Vec<ConflictRow>, Error> {
        let mut tx = self.begin(org).await?;
        let statement = format!(
            "{SELECT} where c.org_id = trueup_org() and ($2::uuid is null or c.id > $2)
               and ($1 or c.settled_at is null and s.deleted_at is null and p.deleted_at is null)
             order by c.id limit $3"
        );
        let rows = sqlx::query(AssertSqlSafe(statement))
            .bind(settled)
            .bind(after.map(ConflictId::uuid))
            .bind(limit)
            .fetch_all(&mut *tx)
            .await?;
        rows.iter().map(conflict_row).collect()
    }

    /// A conflict by its id.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_conflict(
        &self,
        org: OrgId,
        id: ConflictId,
    ) -> Result<Option<ConflictRow>, Error> {
        let mut tx = self.begin(org).await?;
        find(&mut tx, id).await
    }
}

/// A conflict of the org by its id.
pub(crate) async fn find(tx: &mut Tx, id: ConflictId) -> Result<Option<ConflictRow>, Error> {
    let statement = format!("{SELECT} where c.id = $1");
    let row =
        sqlx::query(AssertSqlSafe(statement)).bind(id.uuid()).fetch_optional(&mut **tx).await?;
    row.as_ref().map(conflict_row).transpose()
}

fn conflict_row(row: &PgRow) -> Result<ConflictRow, Error> {
    let kind: String = row.try_get("subject_kind")?;
    let conflict = Conflict {
        id: ConflictId::from_uuid(row.try_get("id")?),
        org: OrgId::from_uuid(row.try_get("org_id")?),
        unit: unit(&kind, row.try_get::<Uuid, _>("subject_id")?)?,
        cluster: ClusterId::from_uuid(row.try_get("cluster_id")?),
        at: FieldRef { key: key(row)?, field: row.try_get("field")? },
        by: row.try_get("manager")?,
        raised_at: time(row, "raised_at")?,
        settled: settlement(row)?,
    };
    Ok(ConflictRow {
        conflict,
        project_name: row.try_get("project_name")?,
        service_name: row.try_get("service_name")?,
    })
}

fn settlement(row: &PgRow) -> Result<Option<Settlement>, Error> {
    let decision: Option<String> = row.try_get("decision")?;
    let principal: Option<String> = row.try_get("settled_by")?;
    let (Some(decision), Some(principal), Some(at)) =
        (decision, principal, maybe_time(row, "settled_at")?)
    else {
        return Ok(None);
    };
    let decision: ConflictDecision = read("decision", decision)?;
    Ok(Some(Settlement { decision, principal, at, until: maybe_time(row, "holds_until")? }))
}
