//! Tokens: authentication, and creating, listing and revoking tokens.
//!
//! Only a hash is stored, and the app's role cannot even read that: it passes a hash to the SQL
//! function `authenticate` and gets the principal.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use sqlx::FromRow;
use trueup_model::event::Fact;
use trueup_model::id::{OrgId, TokenId};
use trueup_model::org::PLATFORM;
use trueup_model::principal::{Permission, Principal, Role};
use trueup_model::token::{TokenSpec, TokenText};
use trueup_rules::access::{self, may_create_token};
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::new_id::new_token;
use crate::db::pool::Tx;
use crate::db::row::read;
use crate::db::setup::token_hash;
use crate::door::{Refusal, RequestContext, idempotency};
use crate::{App, Error, event};

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

#[derive(FromRow)]
struct Columns {
    id: Uuid,
    name: String,
    role: String,
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
}

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
            "select id, org_id, name, role, permissions, expires_at, used_at
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
            token: TokenId::from_uuid(row.id),
            name: row.name,
            role: read("role", row.role)?,
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

    async fn note_use(&self, principal: &Principal, now: Timestamp) -> Result<(), Error> {
        let mut tx = self.begin(principal.home()).await?;
        sqlx::query(
            "update tokens set used_at = $2 where id = $1 and (used_at is null or used_at < $3)",
        )
        .bind(principal.token.uuid())
        .bind(sql(now))
        .bind(sql(grain(now)))
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }

    /// The tokens of an org that are not revoked, in name order.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_tokens(&self, org: OrgId) -> Result<Vec<TokenRow>, Error> {
        let mut tx = self.begin(org).await?;
        let rows: Vec<Columns> = sqlx::query_as(
            "select id, name, role, permissions, created_at, expires_at, used_at from tokens
             where revoked_at is null order by name",
        )
        .fetch_all(&mut *tx)
        .await?;
        rows.into_iter().map(row).collect()
    }

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
        let mut tx = self.begin(org).await?;
        if let Some(former) = idempotency::find(&mut tx, context, now).await? {
            return Ok(CreatedToken { row: made_before(&mut tx, &former).await?, text: None });
        }
        let wanted =
            may_create_token(context.principal, wanted.clone(), now).map_err(Refusal::TokenSpec)?;
        let created = insert(&mut tx, org, wanted, context, now).await?;
        idempotency::record(&mut tx, context, &created.row.id.to_string(), now).await?;
        self.end(tx).await?;
        Ok(created)
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
        let mut tx = self.begin(org).await?;
        // Lock all tokens that can create tokens, in id order: of two owners that revoke each other
        // concurrently, the second finds itself to be the last.
        let rows: Vec<Columns> = sqlx::query_as(
            "select id, name, role, permissions, created_at, expires_at, used_at from tokens
             where revoked_at is null and (role in ('owner', 'operator') or id = $1 or name = $2)
             order by id for update",
        )
        .bind(wanted.parse::<TokenId>().ok().map(TokenId::uuid))
        .bind(wanted_name(wanted))
        .fetch_all(&mut *tx)
        .await?;
        let rows = rows.into_iter().map(row).collect::<Result<Vec<_>, Error>>()?;
        let is_it = |row: &&TokenRow| row.id.to_string() == wanted || row.name == wanted;
        let target = rows.iter().find(is_it).ok_or(Refusal::NotFound("token"))?;
        let others = rows.iter().filter(|row| row.id != target.id);
        if !access::may_revoke(context.principal, &key(target), others.map(key), now) {
            return Err(Refusal::LastOwner);
        }
        sqlx::query("update tokens set revoked_at = $2 where id = $1")
            .bind(target.id.uuid())
            .bind(sql(now))
            .execute(&mut *tx)
            .await?;
        let fact = Fact::TokenRevoked {
            token: target.id,
            name: target.name.clone(),
            principal: context.principal.name.clone(),
        };
        event::record_of_org(&mut tx, org, fact, context, now).await?;
        self.end(tx).await?;
        Ok(target.clone())
    }
}

/// A valid token name: Postgres rejects NUL bytes in text, and no name contains one.
fn wanted_name(wanted: &str) -> Option<&str> {
    trueup_model::token::check_name(wanted).is_ok().then_some(wanted)
}

fn grain(now: Timestamp) -> Timestamp {
    now.checked_sub(USE_GRAIN).unwrap_or(now)
}

fn key(row: &TokenRow) -> access::Key {
    access::Key { role: row.role, permissions: row.permissions.clone(), expires_at: row.expires_at }
}

fn row(columns: Columns) -> Result<TokenRow, Error> {
    Ok(TokenRow {
        id: TokenId::from_uuid(columns.id),
        name: columns.name,
        role: read("role", columns.role)?,
        permissions: narrowed(columns.permissions)?,
        created_at: columns.created_at.to_jiff(),
        expires_at: columns.expires_at.map(Time::to_jiff),
        used_at: columns.used_at.map(Time::to_jiff),
    })
}

fn narrowed(stored: Option<Vec<String>>) -> Result<Option<BTreeSet<Permission>>, Error> {
    let read_all = |all: Vec<String>| all.into_iter().map(|one| read("permission", one)).collect();
    stored.map(read_all).transpose()
}

/// The token that an earlier request created, as it is now.
pub(crate) async fn made_before(tx: &mut Tx, id: &str) -> Result<TokenRow, Refusal> {
    let found: Option<Columns> = sqlx::query_as(
        "select id, name, role, permissions, created_at, expires_at, used_at from tokens where id = $1",
    )
    .bind(id.parse::<TokenId>().ok().map(TokenId::uuid))
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row(found.ok_or(Refusal::NotFound("token"))?)?)
}

/// Inserts a new token and records the event.
pub(crate) async fn insert(
    tx: &mut Tx,
    org: OrgId,
    wanted: TokenSpec,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<CreatedToken, Refusal> {
    let (id, text) = new_token(now);
    let TokenSpec { name, role, permissions, expires_at } = wanted;
    let stored: Option<Vec<&str>> =
        permissions.as_ref().map(|some| some.iter().map(|one| one.into_str()).collect());
    let inserted = sqlx::query(
        "insert into tokens (id, org_id, name, role, permissions, hash, created_at, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (org_id, name) where revoked_at is null do nothing",
    )
    .bind(id.uuid())
    .bind(org.uuid())
    .bind(&name)
    .bind(role.into_str())
    .bind(stored)
    .bind(token_hash(text.reveal()))
    .bind(sql(now))
    .bind(expires_at.map(sql))
    .execute(&mut **tx)
    .await?;
    if inserted.rows_affected() == 0 {
        return Err(Refusal::NameTaken("token"));
    }
    let principal = context.principal.name.clone();
    let fact = Fact::TokenCreated { token: id, name: name.clone(), role, principal };
    event::record_of_org(tx, org, fact, context, now).await?;
    let row = TokenRow { id, name, role, permissions, created_at: now, expires_at, used_at: None };
    Ok(CreatedToken { row, text: Some(text) })
}
