//! Members of an org: reading them.

use sqlx::FromRow;
use sqlx::types::Json;
use trueup_model::id::{OrgId, UserId};
use trueup_model::user::{Member, User};
use uuid::Uuid;

use crate::db::row::read;
use crate::project_role::{Stored, roles};
use crate::{App, Error};

/// A membership with its user.
#[derive(FromRow)]
pub(crate) struct Columns {
    id: Uuid,
    name: String,
    email: String,
    role: String,
    projects: Json<Vec<Stored>>,
    created_at: jiff_sqlx::Timestamp,
}

/// The columns of a current membership; the aliases are `m` and `u`.
pub(crate) const SELECT: &str = "select u.id, u.name, u.email, m.role,
        (select coalesce(jsonb_agg(jsonb_build_object('project', p.id, 'name', p.name, 'role', b.role)
                         order by p.name), '[]')
         from role_bindings b join projects p on p.id = b.project_id and p.deleted_at is null
         where b.principal_id = u.id and b.removed_at is null) as projects,
        m.created_at
    from memberships m join users u on u.id = m.user_id where m.removed_at is null";

pub(crate) fn member(row: Columns) -> Result<Member, Error> {
    Ok(Member {
        user: User { id: UserId::from_uuid(row.id), name: row.name, email: row.email },
        role: read("role", row.role)?,
        projects: roles(row.projects)?,
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
