//! Tokens: who is calling.

use jiff::Timestamp;
use trueup_model::id::{OrgId, TokenId};
use trueup_model::principal::Principal;
use uuid::Uuid;

use crate::clock::sql;
use crate::row::read;
use crate::setup::token_hash;
use crate::{App, Error};

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
        let row: Option<(Uuid, Option<Uuid>, String, String)> =
            sqlx::query_as("select id, org_id, name, role from authenticate($1, $2)")
                .bind(token_hash(token))
                .bind(sql(now))
                .fetch_optional(self.pool())
                .await?;
        row.map(|(id, org, name, role)| {
            Ok(Principal {
                token: TokenId::from_uuid(id),
                name,
                role: read("role", role)?,
                org: org.map(OrgId::from_uuid),
            })
        })
        .transpose()
    }

    /// The org that an operator names, by name or id.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_org(&self, wanted: &str) -> Result<Option<OrgId>, Error> {
        let wanted =
            wanted.parse::<OrgId>().map_or_else(|_| wanted.to_owned(), |id| id.uuid().to_string());
        let (id,): (Option<Uuid>,) =
            sqlx::query_as("select find_org($1)").bind(wanted).fetch_one(self.pool()).await?;
        Ok(id.map(OrgId::from_uuid))
    }
}
