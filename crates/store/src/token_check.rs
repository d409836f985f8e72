//! The tokens of open streams: which of them are still valid, in one statement for all of them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use trueup_model::id::TokenId;
use trueup_model::principal::Role;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::row::read;
use crate::{App, Error};

impl App {
    /// The id and role of each token that is valid now, of those with these hashes.
    ///
    /// They may belong to different orgs: the SQL function `authenticate` decides about each of
    /// them, as it does at the start of a request. This does not count as a use of the token.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn live_tokens(
        &self,
        hashes: &[&[u8]],
        now: Timestamp,
    ) -> Result<BTreeSet<(TokenId, Role)>, Error> {
        let rows: Vec<(Uuid, String)> = sqlx::query_as(
            "select id, role from unnest($1::bytea[]) as wanted (hash),
                  authenticate(wanted.hash, $2)",
        )
        .bind(hashes)
        .bind(sql(now))
        .fetch_all(self.pool())
        .await?;
        let live = |(id, role): (Uuid, String)| -> Result<(TokenId, Role), Error> {
            Ok((TokenId::from_uuid(id), read("role", role)?))
        };
        rows.into_iter().map(live).collect()
    }
}
