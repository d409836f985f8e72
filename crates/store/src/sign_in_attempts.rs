//! Failed sign-ins of the last minutes: how many more are allowed.
//!
//! Each attempt is counted before its password is checked, so that parallel guesses cannot pass the limit
//! together; a successful sign-in sets the counts of its address back. An address without an account is
//! counted like any other.

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use trueup_model::org::PLATFORM;
use trueup_model::user::EmailAddress;

use crate::db::clock::sql;
use crate::{App, Error};

/// How long failures count, from the first of them.
pub const SIGN_IN_WINDOW: SignedDuration = SignedDuration::from_mins(15);
/// Failures of one address from one client.
const PER_PAIR: i32 = 10;
/// Failures of one address, from anywhere: guessing from many clients.
const PER_ADDRESS: i32 = 100;
/// Failures of one client, with any address: trying one password everywhere.
const PER_CLIENT: i32 = 100;

/// What attempts are counted by: digests, because a mistyped address may be a password.
#[derive(Debug, Clone)]
pub struct SignInAttempt {
    pair: Vec<u8>,
    address: Vec<u8>,
    client: Vec<u8>,
}

impl SignInAttempt {
    /// An attempt with this address from this client.
    #[must_use]
    pub fn new(email: Option<&EmailAddress>, client: &str) -> Self {
        let email = email.map_or("", EmailAddress::as_str);
        let digest = |kind: &str, of: &str| Sha256::digest(format!("{kind} {of}")).to_vec();
        Self {
            pair: digest("pair", &format!("{email} {client}")),
            address: digest("address", email),
            client: digest("client", client),
        }
    }
}

impl App {
    /// Counts an attempt; whether it may be made.
    ///
    /// Outside of the frame of writes: it stays counted when the sign-in is refused.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn count_sign_in(
        &self,
        attempt: &SignInAttempt,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let expired = now.checked_sub(SIGN_IN_WINDOW).unwrap_or(now);
        let mut tx = self.begin(PLATFORM).await?;
        // In the order of the keys, so that two attempts do not wait for each other.
        let counted: Vec<(bool,)> = sqlx::query_as(
            "with wanted as (
                 select * from unnest($1::bytea[], $2::integer[]) as wanted (key, most) order by key
             ), counted as (
                 insert into sign_in_attempts as a (key, failures, since)
                 select key, 1, $3 from wanted
                 on conflict (key) do update set
                     failures = case when a.since <= $4 then 1 else least(a.failures, 1000000) + 1 end,
                     since = case when a.since <= $4 then $3 else a.since end
                 returning a.key, a.failures
             )
             select counted.failures <= wanted.most from counted join wanted using (key)",
        )
        .bind([&attempt.pair, &attempt.address, &attempt.client].map(Vec::as_slice))
        .bind([PER_PAIR, PER_ADDRESS, PER_CLIENT])
        .bind(sql(now))
        .bind(sql(expired))
        .fetch_all(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(counted.iter().all(|(allowed,)| *allowed))
    }

    /// Forgets the failures of an address after a successful sign-in; those of its client still count,
    /// but for this attempt.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn forgive_sign_ins(&self, attempt: &SignInAttempt) -> Result<(), Error> {
        let mut tx = self.begin(PLATFORM).await?;
        sqlx::query(
            "update sign_in_attempts set failures = case when key = $3 then greatest(failures - 1, 0) else 0 end
             where key in ($1, $2, $3)",
        )
        .bind(attempt.pair.as_slice())
        .bind(attempt.address.as_slice())
        .bind(attempt.client.as_slice())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }
}
