//! Tokens: authentication, and listing tokens.
//!
//! Only a hash is stored, and the app's role cannot even read that: it passes a hash to the SQL
//! function `authenticate` and gets the principal.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use sqlx::FromRow;
use sqlx::types::Json;
use trueup_model::id::{OrgId, TokenId};
use trueup_model::org::PLATFORM;
use trueup_model::principal::{Permission, Principal, PrincipalId, Role};
use trueup_model::token::TokenText;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::read;
use crate::db::setup::token_hash;
use crate::project_role::{Stored, roles};
use crate::{App, Error};

/// Granularity of a token's last use: finer would cost a write per request.
const USE_GRAIN: SignedDuration = SignedDuration::from_hours(1);

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// Its id.
    pub id: TokenId,
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The name of the only project that it reaches.
    pub project: Option<String>,
    /// The subset of its role's permissions; `None` means all of them.
    pub permissions: Option<BTreeSet<Permission>>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires, if it does.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, give or take an hour.
    pub used_at: Option<Timestamp>,
}

/// A new token; its text is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedToken {
    /// The token as it is listed.
    pub row: TokenRow,
    /// To be shown once; `None` for an idempotent retry, which cannot show it again.
    pub text: Option<TokenText>,
}

type Time = jiff_sqlx::Timestamp;

/// The columns of a token, without its hash.
#[derive(FromRow)]
pub(crate) struct Columns {
    id: Uuid,
    name: String,
    role: String,
    project: Option<String>,
    permissions: Option<Vec<String>>,
    created_at: Time,
    expires_at: Option<Time>,
    used_at: Option<Time>,
}

#[derive(FromRow)]
struct PrincipalColumns {
    id: Uuid,
    org_id: Uuid,
    name: String,
    role: String,
    permissions: Option<Vec<String>>,
    expires_at: Option<Time>,
    used_at: Option<Time>,
    projects: Json<Vec<Stored>>,
}

/// The columns of a token, without its hash; the alias is `t`.
pub(crate) const SELECT: &str = "select t.id, t.name, t.role,
        (select p.name from projects p where p.id = t.project_id) as project,
        t.permissions, t.created_at, t.expires_at, t.used_at from tokens t";

impl App {
    /// The principal that this token stands for, if it is valid now.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn authenticate(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<Option<Principal>, Error> {
        let row: Option<PrincipalColumns> = sqlx::query_as(
            "select id, org_id, name, role, permissions, expires_at, used_at, projects
             from authenticate($1, $2)",
        )
        .bind(token_hash(token))
        .bind(sql(now))
        .fetch_optional(self.pool())
        .await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let principal = Principal {
            id: PrincipalId::Token(TokenId::from_uuid(row.id)),
            name: row.name,
            role: read("role", row.role)?,
            projects: roles(row.projects)?,
            org: Some(OrgId::from_uuid(row.org_id)).filter(|org| *org != PLATFORM),
            permissions: narrowed(row.permissions)?,
            expires_at: row.expires_at.map(Time::to_jiff),
        };
        if row.used_at.is_none_or(|used| used.to_jiff() < grain(now)) {
            // Best effort: a failure to record the use does not fail the request.
            let _noted = self.note_use(&principal, now).await;
        }
        Ok(Some(principal))
    }

    /// The tokens of an org that are not revoked, in name order.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_tokens(&self, org: OrgId) -> Result<Vec<TokenRow>, Error> {
        let mut tx = self.begin(org).await?;
        let statement = format!("{SELECT} where t.revoked_at is null order by t.name");
        let rows: Vec<Columns> =
            sqlx::query_as(sqlx::AssertSqlSafe(statement)).fetch_all(&mut *tx).await?;
        rows.into_iter().map(row).collect()
    }
}

/// A last use before this time is out of date.
pub(crate) fn grain(now: Timestamp) -> Timestamp {
    now.checked_sub(USE_GRAIN).unwrap_or(now)
}

pub(crate) fn row(columns: Columns) -> Result<TokenRow, Error> {
    Ok(TokenRow {
        id: TokenId::from_uuid(columns.id),
        name: columns.name,
        role: read("role", columns.role)?,
        project: columns.project,
        permissions: narrowed(columns.permissions)?,
        created_at: columns.created_at.to_jiff(),
        expires_at: columns.expires_at.map(Time::to_jiff),
        used_at: columns.used_at.map(Time::to_jiff),
    })
}

pub(crate) fn narrowed(stored: Option<Vec<String>>) -> Result<Option<BTreeSet<Permission>>, Error> {
    let read_all = |all: Vec<String>| all.into_iter().map(|one| read("permission", one)).collect();
    stored.map(read_all).transpose()
}

/// A token of the org by its id, also after it was revoked.
pub(crate) async fn find(tx: &mut Tx, id: &str) -> Result<Option<TokenRow>, Error> {
    let statement = format!("{SELECT} where t.id = $1");
    let found: Option<Columns> = sqlx::query_as(sqlx::AssertSqlSafe(statement))
        .bind(id.parse::<TokenId>().ok().map(TokenId::uuid))
        .fetch_optional(&mut **tx)
        .await?;
    found.map(row).transpose()
}
