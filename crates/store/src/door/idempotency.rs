//! Idempotency keys: a retry with the same `Idempotency-Key` is applied once.
//!
//! The key is recorded in the same transaction as the effect: there is never one without the other.
//! Refusals are not recorded, so a corrected request may use the same key.

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::door::{Refusal, RequestContext};
use crate::{Error, Worker};

/// How long a key is kept.
const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Identifies a request: its route, its key and its body.
#[derive(Debug, Clone)]
pub struct IdempotencyKey {
    /// Method and path.
    pub route: String,
    /// The `Idempotency-Key` header.
    pub key: String,
    /// A digest of the body.
    pub body_hash: [u8; 32],
}

impl IdempotencyKey {
    /// The key of a request with this body.
    #[must_use]
    pub fn new(route: String, key: String, body: &[u8]) -> Self {
        Self { route, key, body_hash: Sha256::digest(body).into() }
    }
}

/// The subject recorded by an earlier request with this key, if there is one.
pub(crate) async fn find(
    tx: &mut Tx,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<Option<String>, Refusal> {
    let Some(key) = &context.idempotency_key else { return Ok(None) };
    // Serializes concurrent requests with the same key: the second finds what the first recorded.
    // Of one principal in one org: a key that others choose must not make anybody wait.
    sqlx::query(
        "select pg_advisory_xact_lock(hashtextextended(
             trueup_org()::text || ' ' || $1::text || ' ' || $2 || ' ' || $3, 0))",
    )
    .bind(context.principal.id.uuid())
    .bind(&key.route)
    .bind(&key.key)
    .execute(&mut **tx)
    .await?;
    let found: Option<(Vec<u8>, String)> = sqlx::query_as(
        "select body_hash, subject from idempotency_keys
         where org_id = trueup_org() and principal = $1 and route = $2 and key = $3 and created_at > $4",
    )
    .bind(context.principal.id.uuid())
    .bind(&key.route)
    .bind(&key.key)
    .bind(sql(oldest(now)))
    .fetch_optional(&mut **tx)
    .await?;
    match found {
        Some((hash, subject)) if hash == key.body_hash => Ok(Some(subject)),
        Some(_) => Err(Refusal::KeyReused),
        None => Ok(None),
    }
}

/// Records the subject of this request under its key.
pub(crate) async fn record(
    tx: &mut Tx,
    context: &RequestContext<'_>,
    subject: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let Some(key) = &context.idempotency_key else { return Ok(()) };
    sqlx::query(
        "insert into idempotency_keys (org_id, principal, route, key, body_hash, subject, created_at)
         values (trueup_org(), $1, $2, $3, $4, $5, $6)
         on conflict on constraint idempotency_keys_key
             do update set body_hash = $4, subject = $5, created_at = $6",
    )
    .bind(context.principal.id.uuid())
    .bind(&key.route)
    .bind(&key.key)
    .bind(key.body_hash.as_slice())
    .bind(subject)
    .bind(sql(now))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

impl Worker {
    /// Deletes expired keys; returns how many.
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
