//! Tokens: who is calling, and making, listing and revoking what calls are made with.
//!
//! Only a hash is stored, and the app's role cannot even read that: it hands a hash to the function
//! `authenticate` and is told who that is.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
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

/// How old the note of a token's last use may be: finer would cost a write per request.
const USE_GRAIN: SignedDuration = SignedDuration::from_hours(1);

/// A token as it is known here: everything but the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// Its id.
    pub id: TokenId,
    /// What it is called.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The only permissions it has of its role; none means all of them.
    pub permissions: Option<BTreeSet<Permission>>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends, if it does.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, give or take an hour.
    pub used_at: Option<Timestamp>,
}

/// A new token; its text exists here and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedToken {
    /// As it will be listed.
    pub row: TokenRow,
    /// To be shown once; none where the request is a repeat and it was shown before.
    pub text: Option<TokenText>,
}

type Time = jiff_sqlx::Timestamp;
type Columns = (Uuid, String, String, Option<Vec<String>>, Time, Option<Time>, Option<Time>);
type Known = (Uuid, Uuid, String, String, Option<Vec<String>>, Option<Time>, Option<Time>);

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
        let row: Option<Known> = sqlx::query_as(
            "select id, org_id, name, role, permissions, expires_at, used_at
             from authenticate($1, $2)",
        )
        .bind(token_hash(token))
        .bind(sql(now))
        .fetch_optional(self.pool())
        .await?;
        let Some((id, org, name, role, permissions, expires_at, used_at)) = row else {
            return Ok(None);
        };
        let principal = Principal {
            token: TokenId::from_uuid(id),
            name,
            role: read("role", role)?,
            org: Some(OrgId::from_uuid(org)).filter(|org| *org != PLATFORM),
            permissions: narrowed(permissions)?,
            expires_at: expires_at.map(Time::to_jiff),
        };
        if used_at.is_none_or(|used| used.to_jiff() < grain(now)) {
            // A note and no more: who may be let in is not refused because it cannot be written.
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

    /// Makes a token in an org, if the context may.
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
        let minted = insert(&mut tx, org, wanted, context, now).await?;
        idempotency::record(&mut tx, context, &minted.row.id.to_string(), now).await?;
        self.end(tx).await?;
        Ok(minted)
    }

    /// Revokes a token by name or id: from now on it is nobody's.
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
        // All that can make tokens are locked in one order: two owners who revoke each other at the
        // same moment take turns, and the second one finds itself to be the last.
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

/// Postgres takes no zero byte in a text, and no name has one.
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
    let (id, name, role, permissions, created_at, expires_at, used_at) = columns;
    Ok(TokenRow {
        id: TokenId::from_uuid(id),
        name,
        role: read("role", role)?,
        permissions: narrowed(permissions)?,
        created_at: created_at.to_jiff(),
        expires_at: expires_at.map(Time::to_jiff),
        used_at: used_at.map(Time::to_jiff),
    })
}

fn narrowed(stored: Option<Vec<String>>) -> Result<Option<BTreeSet<Permission>>, Error> {
    let read_all = |all: Vec<String>| all.into_iter().map(|one| read("permission", one)).collect();
    stored.map(read_all).transpose()
}

/// The token that a former request made, as it is now.
pub(crate) async fn made_before(tx: &mut Tx, id: &str) -> Result<TokenRow, Refusal> {
    let found: Option<Columns> = sqlx::query_as(
        "select id, name, role, permissions, created_at, expires_at, used_at from tokens where id = $1",
    )
    .bind(id.parse::<TokenId>().ok().map(TokenId::uuid))
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row(found.ok_or(Refusal::NotFound("token"))?)?)
}

/// Writes a token that may be made, and the event.
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
        permissions.as_ref().map(|some| some.iter().map(|one| one.as_str()).collect());
    let inserted = sqlx::query(
        "insert into tokens (id, org_id, name, role, permissions, hash, created_at, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (org_id, name) where revoked_at is null do nothing",
    )
    .bind(id.uuid())
    .bind(org.uuid())
    .bind(&name)
    .bind(role.as_str())
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
