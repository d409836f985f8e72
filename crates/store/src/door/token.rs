//! Creates and revokes tokens, and notes when one is used.

use jiff::Timestamp;
use trueup_model::event::{Fact, TokenCreated, TokenRevoked};
use trueup_model::id::{OrgId, ProjectId, TokenId, UserId};
use trueup_model::principal::Principal;
use trueup_model::token::{TokenSpec, check_name};
use trueup_rules::access::{self, may_create_token};

use super::write::Write;
use super::{Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::new_id::new_token;
use crate::db::pool::Tx;
use crate::db::setup::token_hash;
use crate::token::{Columns, CreatedToken, SELECT, TokenRow, find, grain, row};
use crate::{App, Error};

impl App {
    /// Creates a token in an org, if the principal may.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn create_token(
        &self,
        org: OrgId,
        wanted: &TokenSpec,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<CreatedToken, Refusal> {
        self.write(org, context, now, |write| create(write, wanted)).await
    }

    /// Revokes a token by name or id.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn revoke_token(
        &self,
        org: OrgId,
        wanted: &str,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<TokenRow, Refusal> {
        self.write(org, context, now, |write| revoke(write, wanted)).await
    }

    /// Notes that a token is used.
    ///
    /// Outside of the frame: no request asks for it, it has no event, and a failure is ignored.
    pub(crate) async fn note_use(
        &self,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.begin(principal.home()).await?;
        sqlx::query(
            "update tokens set used_at = $2 where id = $1 and (used_at is null or used_at < $3)",
        )
        .bind(principal.id.uuid())
        .bind(sql(now))
        .bind(sql(grain(now)))
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }
}

async fn create(mut write: Write<'_>, wanted: &TokenSpec) -> Result<CreatedToken, Refusal> {
    if let Some(earlier) = write.earlier().await? {
        return created_before(&mut write.tx, &earlier).await;
    }
    let wanted = may_create_token(write.context.principal, wanted.clone(), write.now)
        .map_err(Refusal::TokenSpec)?;
    let created = insert(&mut write, wanted).await?;
    let id = created.row.id.to_string();
    write.finish_as(&id, created).await
}

async fn revoke(mut write: Write<'_>, wanted: &str) -> Result<TokenRow, Refusal> {
    let rows = lock_creators(&mut write.tx, wanted).await?;
    let is_it = |row: &&TokenRow| row.id.to_string() == wanted || row.name == wanted;
    let target = rows.iter().find(is_it).ok_or(Refusal::NotFound("token"))?;
    let others = rows.iter().filter(|row| row.id != target.id);
    if !access::may_revoke(write.context.principal, &key(target), others.map(key), write.now) {
        return Err(Refusal::LastOwner);
    }
    sqlx::query("update tokens set revoked_at = $2 where id = $1")
        .bind(target.id.uuid())
        .bind(sql(write.now))
        .execute(&mut *write.tx)
        .await?;
    let fact = Fact::TokenRevoked(TokenRevoked {
        token: target.id,
        name: None,
        principal: write.principal(),
    });
    write.record(fact).await?;
    write.finish(target.clone()).await
}

/// Locks the wanted token and all tokens that can create tokens, in id order.
///
/// Of two owners that revoke each other concurrently, the second finds itself to be the last.
async fn lock_creators(tx: &mut Tx, wanted: &str) -> Result<Vec<TokenRow>, Error> {
    let statement = format!(
        "{SELECT} where t.revoked_at is null
             and (t.role in ('owner', 'operator') or t.id = $1 or t.name = $2)
         order by t.id for update of t"
    );
    let rows: Vec<Columns> = sqlx::query_as(sqlx::AssertSqlSafe(statement))
        .bind(wanted.parse::<TokenId>().ok().map(TokenId::uuid))
        .bind(wanted_name(wanted))
        .fetch_all(&mut **tx)
        .await?;
    rows.into_iter().map(row).collect()
}

/// A valid token name: Postgres rejects NUL bytes in text, and no name contains one.
fn wanted_name(wanted: &str) -> Option<&str> {
    check_name(wanted).is_ok().then_some(wanted)
}

fn key(row: &TokenRow) -> access::Key {
    access::Key { role: row.role, permissions: row.permissions.clone(), expires_at: row.expires_at }
}

/// The token that an earlier request created, as it is now.
pub(super) async fn created_before(tx: &mut Tx, id: &str) -> Result<CreatedToken, Refusal> {
    let row = find(tx, id).await?.ok_or(Refusal::NotFound("token"))?;
    Ok(CreatedToken { row, text: None })
}

/// Inserts a new token of the org and records the event.
pub(super) async fn insert(
    write: &mut Write<'_>,
    wanted: TokenSpec,
) -> Result<CreatedToken, Refusal> {
    let now = write.now;
    let (id, text) = new_token(now);
    let TokenSpec { name, role, project, permissions, expires_at } = wanted;
    let found = match project {
        None => None,
        Some(id) => Some(project_name(&mut write.tx, id).await?),
    };
    let stored: Option<Vec<&str>> =
        permissions.as_ref().map(|some| some.iter().map(|one| one.into_str()).collect());
    let inserted = sqlx::query(
        "insert into tokens
             (id, org_id, name, role, permissions, hash, created_at, expires_at, user_id, project_id)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         on conflict (org_id, name) where revoked_at is null do nothing",
    )
    .bind(id.uuid())
    .bind(write.org().uuid())
    .bind(&name)
    .bind(role.into_str())
    .bind(stored)
    .bind(token_hash(text.reveal()))
    .bind(sql(now))
    .bind(expires_at.map(sql))
    .bind(write.context.principal.id.user().map(UserId::uuid))
    .bind(project.map(ProjectId::uuid))
    .execute(&mut *write.tx)
    .await?;
    if inserted.rows_affected() == 0 {
        return Err(Refusal::NameTaken("token"));
    }
    let principal = write.principal();
    let fact = Fact::TokenCreated(TokenCreated { token: id, name: None, role, principal });
    write.record(fact).await?;
    let row = TokenRow {
        id,
        name,
        role,
        project: found,
        permissions,
        created_at: now,
        expires_at,
        used_at: None,
    };
    Ok(CreatedToken { row, text: Some(text) })
}

/// The name of a project that a token or role is to be bound to; it must not be deleted.
async fn project_name(tx: &mut Tx, id: ProjectId) -> Result<String, Refusal> {
    let found: Option<(String,)> =
        sqlx::query_as("select name from projects where id = $1 and deleted_at is null")
            .bind(id.uuid())
            .fetch_optional(&mut **tx)
            .await?;
    found.map(|(name,)| name).ok_or(Refusal::NotFound("project"))
}
