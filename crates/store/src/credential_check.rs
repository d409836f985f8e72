//! The credentials of open streams: which of them are still valid, in one statement for all of them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::types::Json;
use trueup_model::id::OrgId;
use trueup_model::principal::Role;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::row::read;
use crate::project_role::{Stored, digest, roles};
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
    /// A digest of the roles in single projects.
    pub projects: u64,
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
        let rows: Vec<(Uuid, Uuid, String, Json<Vec<Stored>>)> = sqlx::query_as(
            "select id, home, role, projects from unnest($1::bytea[], $2::uuid[]) as wanted (hash, home),
                  live_credential(wanted.hash, wanted.home, $3)",
        )
        .bind(hashes)
        .bind(homes)
        .bind(sql(now))
        .fetch_all(self.pool())
        .await?;
        let live = |(id, home, role, projects)| -> Result<LiveCredential, Error> {
            let (home, role) = (OrgId::from_uuid(home), read("role", role)?);
            Ok(LiveCredential { id, home, role, projects: digest(&roles(projects)?) })
        };
        rows.into_iter().map(live).collect()
    }
}
