//! Orgs: the tenants, as operators list them.

use trueup_model::id::OrgId;
use trueup_model::org::{Org, PLATFORM};
use uuid::Uuid;

use crate::db::pool::Tx;
use crate::{App, Error};

type Columns = (Uuid, String, jiff_sqlx::Timestamp, Option<jiff_sqlx::Timestamp>);

fn row((id, name, created_at, deleting_at): Columns) -> Org {
    Org {
        id: OrgId::from_uuid(id),
        name,
        created_at: created_at.to_jiff(),
        deleting_at: deleting_at.map(jiff_sqlx::Timestamp::to_jiff),
    }
}

impl App {
    /// The org that an operator names, by name or id.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_org(&self, wanted: &str) -> Result<Option<OrgId>, Error> {
        if wanted.contains('\0') {
            return Ok(None);
        }
        let wanted =
            wanted.parse::<OrgId>().map_or_else(|_| wanted.to_owned(), |id| id.uuid().to_string());
        let (id,): (Option<Uuid>,) =
            sqlx::query_as("select find_org($1)").bind(wanted).fetch_one(self.pool()).await?;
        Ok(id.map(OrgId::from_uuid))
    }

    /// An org by its id.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn get_org(&self, id: OrgId) -> Result<Option<Org>, Error> {
        let mut tx = self.begin(id).await?;
        find(&mut tx, id).await
    }

    /// Every tenant, in name order; the platform's own org is not listed.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_orgs(&self) -> Result<Vec<Org>, Error> {
        let mut tx = self.begin(PLATFORM).await?;
        let rows: Vec<Columns> = sqlx::query_as(
            "select id, name, created_at, deleting_at from orgs where id <> $1 order by name",
        )
        .bind(PLATFORM.uuid())
        .fetch_all(&mut *tx)
        .await?;
        Ok(rows.into_iter().map(row).collect())
    }
}

/// An org by its id, which the transaction must be in.
pub(crate) async fn find(tx: &mut Tx, id: OrgId) -> Result<Option<Org>, Error> {
    let found: Option<Columns> =
        sqlx::query_as("select id, name, created_at, deleting_at from orgs where id = $1")
            .bind(id.uuid())
            .fetch_optional(&mut **tx)
            .await?;
    Ok(found.map(row))
}

/// Whether an org, which the transaction must be in, is being deleted; locked against a concurrent
/// deletion.
pub(crate) async fn lock_shared(tx: &mut Tx, id: OrgId) -> Result<bool, Error> {
    let (deleting,): (bool,) =
        sqlx::query_as("select deleting_at is not null from orgs where id = $1 for share")
            .bind(id.uuid())
            .fetch_one(&mut **tx)
            .await?;
    Ok(deleting)
}
