//! Sessions: who signed in, and whose password to check.
//!
//! Only hashes are stored, and the app's role cannot even read those: it passes a hash to a SQL function and
//! gets the session.

use jiff::{SignedDuration, Timestamp};
use sqlx::FromRow;
use sqlx::types::Json;
use trueup_model::id::{OrgId, SessionId, TokenId, UserId};
use trueup_model::org::PLATFORM;
use trueup_model::principal::{Principal, PrincipalId};
use trueup_model::session::{Holder, Session, SessionSecret};
use trueup_model::user::{EmailAddress, OrgRole, User};
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::read;
use crate::db::setup::token_hash;
use crate::project_role::{Stored, roles as project_roles};
use crate::token::narrowed;
use crate::{App, Error};

/// Granularity of a session's last use: finer would cost a write per request.
const USE_GRAIN: SignedDuration = SignedDuration::from_mins(5);

type Time = jiff_sqlx::Timestamp;

/// Finds a session by the hash of its secret.
const FIND: &str = "select session_id, expires_at, used_at, user_id, token_id, name, email, org_id,
        org_name, role, permissions, token_expires_at, projects
    from authenticate_session($1, $2)";

/// A session with one of its roles.
#[derive(FromRow)]
struct Columns {
    session_id: Uuid,
    expires_at: Time,
    used_at: Time,
    user_id: Option<Uuid>,
    token_id: Option<Uuid>,
    name: String,
    email: Option<String>,
    org_id: Uuid,
    org_name: String,
    role: String,
    permissions: Option<Vec<String>>,
    token_expires_at: Option<Time>,
    projects: Json<Vec<Stored>>,
}

/// A new session; its secret is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// The secret, for its holder alone.
    pub secret: SessionSecret,
    /// The session.
    pub session: Session,
}

/// The account of an address, and the hash that its password must have.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The account.
    pub user: UserId,
    /// The hash, with its parameters; none if they sign in with a provider alone.
    pub password_hash: Option<String>,
    /// Whether the user has a role anywhere: others cannot sign in.
    pub is_member: bool,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl App {
    /// The session with this secret, if it is valid now.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_session(
        &self,
        secret: &str,
        now: Timestamp,
    ) -> Result<Option<Session>, Error> {
        let rows: Vec<Columns> = sqlx::query_as(FIND)
            .bind(token_hash(secret))
            .bind(sql(now))
            .fetch_all(self.pool())
            .await?;
        let used = rows.first().map(|row| row.used_at.to_jiff());
        let found = session(rows)?;
        if let (Some(session), Some(used)) = (&found, used)
            && used < grain(now)
        {
            // Best effort: a failure to record the use does not fail the request.
            let _noted = self.note_session_use(session.id, now).await;
        }
        Ok(found)
    }

    /// The account of an address. Also asked about a text that is no address, so that all sign-ins
    /// cost the same.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_login(&self, email: Option<&EmailAddress>) -> Result<Option<Login>, Error> {
        let found: Option<(Uuid, Option<String>, bool)> =
            sqlx::query_as("select id, password_hash, is_member from find_login($1)")
                .bind(email.map_or("", EmailAddress::as_str))
                .fetch_optional(self.pool())
                .await?;
        let login = |(id, password_hash, is_member)| {
            let user = UserId::from_uuid(id);
            Login { user, password_hash, is_member }
        };
        Ok(found.map(login))
    }
}

/// The session with this hash, read in the transaction that begins it.
pub(crate) async fn begun(
    tx: &mut Tx,
    hash: &[u8],
    now: Timestamp,
) -> Result<Option<Session>, Error> {
    session(sqlx::query_as(FIND).bind(hash).bind(sql(now)).fetch_all(&mut **tx).await?)
}

/// A last use before this time is out of date.
pub(crate) fn grain(now: Timestamp) -> Timestamp {
    now.checked_sub(USE_GRAIN).unwrap_or(now)
}

/// The session of its rows, which differ in the org and the role alone.
fn session(rows: Vec<Columns>) -> Result<Option<Session>, Error> {
    let mut roles = Vec::new();
    let mut found = None;
    for row in rows {
        let (org, role) = (OrgId::from_uuid(row.org_id), read("role", row.role)?);
        let projects = project_roles(row.projects)?;
        let expires_at = row.expires_at.to_jiff();
        let holder = if let Some(token) = row.token_id {
            let principal = Principal {
                id: PrincipalId::Token(TokenId::from_uuid(token)),
                name: row.name,
                role,
                projects,
                org: Some(org).filter(|org| *org != PLATFORM),
                permissions: narrowed(row.permissions)?,
                expires_at: row.token_expires_at.map(Time::to_jiff),
            };
            Holder::Token(principal, row.org_name)
        } else {
            roles.push(OrgRole { org, org_name: row.org_name, role, projects });
            let id = UserId::from_uuid(row.user_id.unwrap_or_default());
            let user = User { id, name: row.name, email: row.email.unwrap_or_default() };
            Holder::User(user, Vec::new())
        };
        found = Some(Session { id: SessionId::from_uuid(row.session_id), holder, expires_at });
    }
    Ok(found.map(|session| match session.holder {
        Holder::User(user, _) => Session { holder: Holder::User(user, roles), ..session },
        Holder::Token(..) => session,
    }))
}
