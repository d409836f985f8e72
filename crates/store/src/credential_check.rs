//! The credentials of open streams: which of them are still valid, in one statement for all of them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use trueup_model::id::OrgId;
use trueup_model::principal::Role;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::row::read;
use crate::{App, Error};

/// A valid token, or a valid session in one of its orgs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LiveCredential {
    /// The id of the token or of the session.
    pub id: Uuid,
    /// The org that its role belongs to.
    pub home: OrgId,
    /// The role.
    pub role: Role,
}

impl App {
    /// The credentials that are valid now, of those with these hashes in these orgs.
    ///
    /// They may belong to different orgs: the SQL function `live_credential` decides about each of
    /// them, as it is decided at the start of a request. This does not count as a use.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn live_credentials(
        &self,
        wanted: &[(&[u8], OrgId)],
        now: Timestamp,
    ) -> Result<BTreeSet<LiveCredential>, Error> {
        let (hashes, homes): (Vec<&[u8]>, Vec<Uuid>) =
            wanted.iter().map(|(hash, home)| (*hash, home.uuid())).unzip();
        let rows: Vec<(Uuid, Uuid, String)> = sqlx::query_as(
            "select id, home, role from unnest($1::bytea[], $2::uuid[]) as wanted (hash, home),
                  live_credential(wanted.hash, wanted.home, $3)",
        )
        .bind(hashes)
        .bind(homes)
        .bind(sql(now))
        .fetch_all(self.pool())
        .await?;
        let live = |(id, home, role): (Uuid, Uuid, String)| -> Result<LiveCredential, Error> {
            Ok(LiveCredential { id, home: OrgId::from_uuid(home), role: read("role", role)? })
        };
        rows.into_iter().map(live).collect()
    }
}
