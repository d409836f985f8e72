//! Credits: what orgs were granted, and what is left of it.

use jiff::Timestamp;
use sqlx::Row;
use sqlx::postgres::PgRow;
use trueup_model::id::{CreditId, OrgId};
use trueup_model::invoice::Credit;

use crate::db::pool::Tx;
use crate::db::row::{maybe_time, read, time};
use crate::{App, Error};

const COLUMNS: &str =
    "id, granted_micros, used_micros, expired_micros, currency, reason, expires_at,
     granted_at, granted_by";

impl App {
    /// The credits of an org, oldest first.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_credits(&self, org: OrgId) -> Result<Vec<Credit>, Error> {
        let mut tx = self.begin(org).await?;
        all(&mut tx, org).await
    }
}

/// Every credit of an org, oldest first.
pub(crate) async fn all(tx: &mut Tx, org: OrgId) -> Result<Vec<Credit>, Error> {
    let statement = format!("select {COLUMNS} from credits where org_id = $1 order by id");
    let rows =
        sqlx::query(sqlx::AssertSqlSafe(statement)).bind(org.uuid()).fetch_all(&mut **tx).await?;
    rows.iter().map(credit).collect()
}

/// The credit with this id.
pub(crate) async fn find(tx: &mut Tx, id: CreditId) -> Result<Option<Credit>, Error> {
    let statement = format!("select {COLUMNS} from credits where id = $1");
    let row = sqlx::query(sqlx::AssertSqlSafe(statement))
        .bind(id.uuid())
        .fetch_optional(&mut **tx)
        .await?;
    row.as_ref().map(credit).transpose()
}

/// The credits of an org whose end has come, with something left of them.
pub(crate) fn expired(credits: &[Credit], now: Timestamp) -> impl Iterator<Item = &Credit> {
    credits.iter().filter(move |credit| !credit.holds_at(now) && credit.left_micros() > 0)
}

fn credit(row: &PgRow) -> Result<Credit, Error> {
    Ok(Credit {
        id: CreditId::from_uuid(row.try_get("id")?),
        granted_micros: row.try_get("granted_micros")?,
        used_micros: row.try_get("used_micros")?,
        expired_micros: row.try_get("expired_micros")?,
        currency: read("currency", row.try_get("currency")?)?,
        reason: row.try_get("reason")?,
        expires_at: maybe_time(row, "expires_at")?,
        granted_at: time(row, "granted_at")?,
        granted_by: row.try_get("granted_by")?,
    })
}
