//! Members of an org: reading them.

use sqlx::FromRow;
use trueup_model::id::{OrgId, UserId};
use trueup_model::user::{Member, User};
use uuid::Uuid;

use crate::db::row::read;
use crate::{App, Error};

/// A membership with its user.
#[derive(FromRow)]
pub(crate) struct Columns {
    id: Uuid,
    name: String,
    email: String,
    role: String,
    created_at: jiff_sqlx::Timestamp,
}

/// The columns of a current membership; the aliases are `m` and `u`.
pub(crate) const SELECT: &str = "select u.id, u.name, u.email, m.role, m.created_at
    from memberships m join users u on u.id = m.user_id where m.removed_at is null";

pub(crate) fn member(row: Columns) -> Result<Member, Error> {
    Ok(Member {
        user: User { id: UserId::from_uuid(row.id), name: row.name, email: row.email },
        role: read("role", row.role)?,
        joined_at: row.created_at.to_jiff(),
    })
}

impl App {
    /// The members of an org, in the order of their addresses.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_members(&self, org: OrgId) -> Result<Vec<Member>, Error> {
        let mut tx = self.begin(org).await?;
        let statement = format!("{SELECT} order by u.email");
        let rows: Vec<Columns> =
            sqlx::query_as(sqlx::AssertSqlSafe(statement)).fetch_all(&mut *tx).await?;
        rows.into_iter().map(member).collect()
    }
}
