//! Receipts: the proof that a subject is gone. Stored once, kept for ever.

use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::id::{OrgId, ProjectId};
use trueup_model::order::Unit;
use trueup_model::receipt::Receipt;
use trueup_model::service::DesiredState;
use trueup_model::subject::Subject;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{json, read, read_json, unit, unit_uuid};
use crate::{App, Error, project};

/// A project or service with its receipt, if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptRow {
    /// The project or service.
    pub unit: Unit,
    /// Its name.
    pub name: String,
    /// Its project; a project is its own.
    pub project: ProjectId,
    /// The name of that project.
    pub project_name: String,
    /// Its desired state: without a receipt, whether its deletion was requested.
    pub desired: DesiredState,
    /// The receipt, once it is deleted.
    pub receipt: Option<Receipt>,
}

/// The receipts of a project and of every service that it ever had, or a page of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptBundle {
    /// The project.
    pub project: ProjectId,
    /// Its name.
    pub name: String,
    /// Whether the project and each of its services have a receipt, on this page or not.
    pub complete: bool,
    /// The services in name order, then the project, which is deleted last.
    pub rows: Vec<ReceiptRow>,
}

/// Rows of deleted projects and services stay, so their names are known for ever.
const SELECT: &str = "select u.kind, u.id, u.name, u.project_id, u.project_name, u.desired, r.receipt
     from (select 'service' as kind, s.id, s.name, s.desired, p.id as project_id, p.name as project_name
           from services s join projects p on p.id = s.project_id
           union all
           select 'project', p.id, p.name, p.desired, p.id, p.name from projects p) u
     left join receipts r on r.subject_kind = u.kind and r.subject_id = u.id";

fn row(row: &PgRow) -> Result<ReceiptRow, Error> {
    let kind: String = row.try_get("kind")?;
    let receipt: Option<Json<Value>> = row.try_get("receipt")?;
    Ok(ReceiptRow {
        unit: unit(&kind, row.try_get("id")?)?,
        name: row.try_get("name")?,
        project: ProjectId::from_uuid(row.try_get("project_id")?),
        project_name: row.try_get("project_name")?,
        desired: read("desired state", row.try_get("desired")?)?,
        receipt: receipt.map(|receipt| read_json("receipt", receipt)).transpose()?,
    })
}

impl App {
    /// A page of the receipts of a project by name or id, also after its deletion; `None` if there
    /// never was such a project. It begins after the service that another page ended with.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_receipts(
        &self,
        org: OrgId,
        project: &str,
        after: Option<Unit>,
        limit: i64,
    ) -> Result<Option<ReceiptBundle>, Error> {
        let mut tx = self.begin(org).await?;
        let Some((project, name)) = project::find_with_deleted(&mut tx, project).await? else {
            return Ok(None);
        };
        // Before the rows: receipts stay, so a complete bundle has no row without one.
        let complete = is_complete(&mut tx, project).await?;
        // In descending order of the kind, services come before their project. Of services that had
        // the same name one after the other, ids keep the order.
        let statement = format!(
            "{SELECT} where u.project_id = $1
                 and ($2::uuid is null
                      or (u.kind = 'project' and u.id <> $2)
                      or (u.kind = 'service'
                          and (u.name, u.id) > (select a.name, a.id from services a where a.id = $2)))
             order by u.kind desc, u.name, u.id limit $3"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(project.uuid())
            .bind(after.map(unit_uuid))
            .bind(limit)
            .fetch_all(&mut *tx)
            .await?;
        let rows = rows.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(ReceiptBundle { project, name, complete, rows }))
    }

    /// The receipts of every project that an org ever had, in name order.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_org_receipts(&self, org: OrgId) -> Result<Vec<ReceiptBundle>, Error> {
        let mut tx = self.begin(org).await?;
        let statement =
            format!("{SELECT} order by u.project_name, u.project_id, u.kind desc, u.name, u.id");
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement)).fetch_all(&mut *tx).await?;
        let rows = rows.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        Ok(rows.chunk_by(|one, next| one.project == next.project).filter_map(bundle).collect())
    }

    /// The receipt of a project or service by its id; `None` if it has no receipt.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_receipt(
        &self,
        org: OrgId,
        wanted: &str,
    ) -> Result<Option<ReceiptRow>, Error> {
        // Text that is not an id matches nothing; the statement is the same for every caller.
        let of = wanted.parse::<Subject>().ok();
        let mut tx = self.begin(org).await?;
        let statement =
            format!("{SELECT} where u.kind = $1 and u.id = $2 and r.receipt is not null");
        let found = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(of.map(Subject::kind))
            .bind(of.map(Subject::uuid))
            .fetch_optional(&mut *tx)
            .await?;
        found.as_ref().map(row).transpose()
    }
}

/// The bundle of a project from its rows; `None` without rows.
fn bundle(rows: &[ReceiptRow]) -> Option<ReceiptBundle> {
    let first = rows.first()?;
    Some(ReceiptBundle {
        project: first.project,
        name: first.project_name.clone(),
        complete: rows.iter().all(|row| row.receipt.is_some()),
        rows: rows.to_vec(),
    })
}

/// Whether a project and each of its services have a receipt.
async fn is_complete(tx: &mut Tx, project: ProjectId) -> Result<bool, Error> {
    let statement =
        format!("select not exists ({SELECT} where u.project_id = $1 and r.receipt is null)");
    let (complete,): (bool,) = sqlx::query_as(sqlx::AssertSqlSafe(statement))
        .bind(project.uuid())
        .fetch_one(&mut **tx)
        .await?;
    Ok(complete)
}

/// Stores the receipt of a subject; the first one stays.
pub(crate) async fn insert(
    tx: &mut Tx,
    of: Subject,
    org: OrgId,
    receipt: &Receipt,
) -> Result<(), Error> {
    sqlx::query(
        "insert into receipts (subject_kind, subject_id, org_id, receipt, verified_at)
         values ($1, $2, $3, $4, $5) on conflict (subject_kind, subject_id) do nothing",
    )
    .bind(of.kind())
    .bind(of.uuid())
    .bind(org.uuid())
    .bind(json(receipt))
    .bind(sql(receipt.verified_at))
    .execute(&mut **tx)
    .await?;
    Ok(())
}
