//! Repeats: a request with an `Idempotency-Key` that was recorded before is known again.
//!
//! The record is written in the transaction of what it speaks of: there is never an effect without
//! its record, nor a record without its effect. Refusals are not recorded, so a mended request may
//! use the same key.

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::door::{Refusal, RequestContext};
use crate::{Error, Worker};

/// How long a key is remembered.
const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What makes a request the same request: its route, its key and its body.
#[derive(Debug, Clone)]
pub struct IdempotencyKey {
    /// Method and path.
    pub route: String,
    /// What the caller sent as `Idempotency-Key`.
    pub key: String,
    /// A digest of the body.
    pub body_hash: [u8; 32],
}

impl IdempotencyKey {
    /// The marks of a request.
    #[must_use]
    pub fn new(route: String, key: String, body: &[u8]) -> Self {
        Self { route, key, body_hash: Sha256::digest(body).into() }
    }
}

/// What a former request with this key was about, if there was one.
pub(crate) async fn find(
    tx: &mut Tx,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<Option<String>, Refusal> {
    let Some(repeat) = &context.repeat else { return Ok(None) };
    // Of two at once, the second waits here and then finds what the first did.
    sqlx::query("select pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 0))")
        .bind(&repeat.route)
        .bind(&repeat.key)
        .execute(&mut **tx)
        .await?;
    let found: Option<(Vec<u8>, String)> = sqlx::query_as(
        "select body_hash, subject from idempotency_keys
         where org_id = trueup_org() and principal = $1 and route = $2 and key = $3 and created_at > $4",
    )
    .bind(context.principal.token.uuid())
    .bind(&repeat.route)
    .bind(&repeat.key)
    .bind(sql(oldest(now)))
    .fetch_optional(&mut **tx)
    .await?;
    match found {
        Some((hash, subject)) if hash == repeat.body_hash => Ok(Some(subject)),
        Some(_) => Err(Refusal::KeyReused),
        None => Ok(None),
    }
}

/// Remembers what this request was about.
pub(crate) async fn record(
    tx: &mut Tx,
    context: &RequestContext<'_>,
    subject: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let Some(repeat) = &context.repeat else { return Ok(()) };
    sqlx::query(
        "insert into idempotency_keys (org_id, principal, route, key, body_hash, subject, created_at)
         values (trueup_org(), $1, $2, $3, $4, $5, $6)
         on conflict on constraint idempotency_keys_key
             do update set body_hash = $4, subject = $5, created_at = $6",
    )
    .bind(context.principal.token.uuid())
    .bind(&repeat.route)
    .bind(&repeat.key)
    .bind(repeat.body_hash.as_slice())
    .bind(subject)
    .bind(sql(now))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

impl Worker {
    /// Forgets keys that are older than they are kept; answers how many.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn purge_idempotency_keys(&self, now: Timestamp) -> Result<u64, Error> {
        let gone = sqlx::query("delete from idempotency_keys where created_at <= $1")
            .bind(sql(oldest(now)))
            .execute(self.pool())
            .await?;
        Ok(gone.rows_affected())
    }
}

fn oldest(now: Timestamp) -> Timestamp {
    now.checked_sub(KEPT).unwrap_or(Timestamp::MIN)
}
