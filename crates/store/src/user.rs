//! Users: seeding the first ones of an install.

use jiff::Timestamp;
use trueup_model::id::{MembershipId, OrgId, UserId};
use trueup_model::principal::Role;
use trueup_model::user::EmailAddress;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::setup::token_hash;
use crate::{Error, Setup};

/// A user that an install begins with.
#[derive(Debug)]
pub struct FirstUser<'a> {
    /// The address.
    pub email: &'a EmailAddress,
    /// The name.
    pub name: &'a str,
    /// The hash of the password.
    pub password_hash: &'a str,
}

impl Setup {
    /// The user with this address, created if there is none. The password of one that exists stays.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn ensure_user(
        &self,
        wanted: &FirstUser<'_>,
        now: Timestamp,
    ) -> Result<UserId, Error> {
        let (id,): (Uuid,) = sqlx::query_as(
            "insert into users (id, email, name, password_hash, created_at)
             values ($1, $2, $3, $4, $5)
             on conflict (email) do update set email = excluded.email returning id",
        )
        .bind(new_id::<trueup_model::id::noun::User>(now).uuid())
        .bind(wanted.email.as_str())
        .bind(wanted.name)
        .bind(wanted.password_hash)
        .bind(sql(now))
        .fetch_one(self.pool())
        .await?;
        Ok(UserId::from_uuid(id))
    }

    /// Whether anybody has an account.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn has_users(&self) -> Result<bool, Error> {
        let (any,): (bool,) =
            sqlx::query_as("select exists (select from users)").fetch_one(self.pool()).await?;
        Ok(any)
    }

    /// Makes this code valid for the first account.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn ensure_setup_code(&self, code: &str, now: Timestamp) -> Result<(), Error> {
        sqlx::query(
            "insert into setup_codes (hash, created_at) values ($1, $2) on conflict do nothing",
        )
        .bind(token_hash(code))
        .bind(sql(now))
        .execute(self.pool())
        .await?;
        Ok(())
    }

    /// Gives a user a role in an org, unless they have one or had one there: a removed member stays
    /// removed.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn ensure_member(
        &self,
        org: OrgId,
        user: UserId,
        role: Role,
        now: Timestamp,
    ) -> Result<(), Error> {
        let id: MembershipId = new_id(now);
        sqlx::query(
            "insert into memberships (id, org_id, user_id, role, created_at)
             select $1, $2, $3, $4, $5
             where not exists (select from memberships where org_id = $2 and user_id = $3)",
        )
        .bind(id.uuid())
        .bind(org.uuid())
        .bind(user.uuid())
        .bind(role.into_str())
        .bind(sql(now))
        .execute(self.pool())
        .await?;
        Ok(())
    }
}
