//! Invitations: reading them, and finding the one with a code.

use jiff::Timestamp;
use sqlx::FromRow;
use trueup_model::id::{InvitationId, OrgId, ProjectId};
use trueup_model::invitation::Invitation;
use trueup_model::principal::{Permission, Role};
use trueup_model::user::EmailAddress;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::read;
use crate::db::setup::token_hash;
use crate::token::narrowed;
use crate::{App, Error};

/// The columns of an invitation, without its hash.
#[derive(FromRow)]
pub(crate) struct Columns {
    id: Uuid,
    email: String,
    role: String,
    project: Option<String>,
    created_at: jiff_sqlx::Timestamp,
    expires_at: jiff_sqlx::Timestamp,
}

/// An open invitation that somebody has the code of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenInvitation {
    /// Its id.
    pub id: InvitationId,
    /// The org.
    pub org: OrgId,
    /// The name of the org.
    pub org_name: String,
    /// The invited address.
    pub email: EmailAddress,
    /// The role that it offers.
    pub role: Role,
    /// The only project that it offers the role in.
    pub project: Option<ProjectId>,
    /// What its inviter may do today; none if they have left.
    pub(crate) inviter: Option<(Role, Option<std::collections::BTreeSet<Permission>>)>,
}

/// The columns of an invitation; the alias is `i`.
pub(crate) const SELECT: &str = "select i.id, i.email, i.role,
        (select p.name from projects p where p.id = i.project_id) as project, i.created_at, i.expires_at
    from invitations i";

pub(crate) fn invitation(row: Columns) -> Result<Invitation, Error> {
    Ok(Invitation {
        id: InvitationId::from_uuid(row.id),
        email: row.email,
        role: read("role", row.role)?,
        project: row.project,
        created_at: row.created_at.to_jiff(),
        expires_at: row.expires_at.to_jiff(),
    })
}

impl App {
    /// The open invitations of an org, the newest first.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_invitations(
        &self,
        org: OrgId,
        now: Timestamp,
    ) -> Result<Vec<Invitation>, Error> {
        let mut tx = self.begin(org).await?;
        let statement = format!(
            "{SELECT} where i.accepted_at is null and i.revoked_at is null and i.expires_at > $1
             order by i.id desc"
        );
        let rows: Vec<Columns> = sqlx::query_as(sqlx::AssertSqlSafe(statement))
            .bind(sql(now))
            .fetch_all(&mut *tx)
            .await?;
        rows.into_iter().map(invitation).collect()
    }

    /// The open invitation with this code.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_invitation(
        &self,
        code: &str,
        now: Timestamp,
    ) -> Result<Option<OpenInvitation>, Error> {
        // Before its org is known.
        let mut tx = self.begin(trueup_model::org::PLATFORM).await?;
        open(&mut tx, &token_hash(code), now).await
    }
}

#[derive(FromRow)]
struct OpenColumns {
    id: Uuid,
    org_id: Uuid,
    org_name: String,
    email: String,
    role: String,
    project_id: Option<Uuid>,
    inviter_role: Option<String>,
    inviter_permissions: Option<Vec<String>>,
}

/// The open invitation whose code has this hash.
pub(crate) async fn open(
    tx: &mut Tx,
    hash: &[u8],
    now: Timestamp,
) -> Result<Option<OpenInvitation>, Error> {
    let found: Option<OpenColumns> = sqlx::query_as(
        "select id, org_id, org_name, email, role, project_id, inviter_role, inviter_permissions
         from find_invitation($1, $2)",
    )
    .bind(hash)
    .bind(sql(now))
    .fetch_optional(&mut **tx)
    .await?;
    let Some(row) = found else { return Ok(None) };
    let inviter_role = row.inviter_role.map(|role| read("role", role)).transpose()?;
    let permissions = narrowed(row.inviter_permissions)?;
    Ok(Some(OpenInvitation {
        id: InvitationId::from_uuid(row.id),
        org: OrgId::from_uuid(row.org_id),
        org_name: row.org_name,
        email: row.email.parse().map_err(|source| Error::corrupt("email", source))?,
        role: read("role", row.role)?,
        project: row.project_id.map(ProjectId::from_uuid),
        inviter: inviter_role.map(|role| (role, permissions)),
    }))
}
