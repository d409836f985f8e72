//! Begins and ends sessions.

use jiff::Timestamp;
use trueup_model::event::{Fact, SignInRefused, SignedIn, SignedOut};
use trueup_model::id::{IdentityId, OrgId, SessionId, UserId};
use trueup_model::org::PLATFORM;
use trueup_model::principal::PrincipalId;
use trueup_model::session::{Holder, LIFETIME, Session};
use uuid::Uuid;

use super::write::Write;
use super::{Refusal, RequestContext, system_principal};
use crate::db::clock::sql;
use crate::db::new_id::{new_id, new_session_secret};
use crate::db::setup::token_hash;
use crate::session::{NewSession, begun, grain};
use crate::{App, Error};

/// The name under which a refused sign-in is recorded: nobody signed in.
const NOBODY: &str = "nobody";

impl App {
    /// Begins a session of a user whose password was checked, or of a token that was authenticated.
    ///
    /// A session that the same browser had before ends: its secret never lives on in the new one.
    ///
    /// # Errors
    /// [`Refusal`] says why not. [`Refusal::NotFound`]: the holder is not valid any more.
    pub async fn sign_in(
        &self,
        holder: PrincipalId,
        former: Option<SessionId>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<NewSession, Refusal> {
        let secret = new_session_secret();
        let hash = token_hash(secret.reveal());
        let session =
            self.write(PLATFORM, context, now, |write| begin(write, holder, &hash, former)).await?;
        Ok(NewSession { secret, session })
    }

    /// Ends a session at once.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn sign_out(
        &self,
        session: &Session,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        self.write(PLATFORM, context, now, |write| end(write, session)).await
    }

    /// Records that a sign-in was refused.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn refuse_sign_in(
        &self,
        user: Option<UserId>,
        trace: Option<String>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let nobody = system_principal(PLATFORM, NOBODY);
        let context = RequestContext::new(&nobody, trace);
        let record = async |mut write: Write<'_>| {
            write.record(Fact::SignInRefused(SignInRefused { user })).await?;
            write.finish(()).await
        };
        self.write(PLATFORM, &context, now, record).await
    }

    /// Notes that a session is used.
    ///
    /// Outside of the frame: no request asks for it, it has no event, and a failure is ignored.
    pub(crate) async fn note_session_use(
        &self,
        session: SessionId,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.begin(PLATFORM).await?;
        sqlx::query("update sessions set used_at = $2 where id = $1 and used_at < $3")
            .bind(session.uuid())
            .bind(sql(now))
            .bind(sql(grain(now)))
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }
}

/// The orgs that a session has a role in.
fn orgs(session: &Session) -> Vec<OrgId> {
    match &session.holder {
        Holder::User(_, roles) => roles.iter().map(|role| role.org).collect(),
        Holder::Token(principal, _) => vec![principal.home()],
    }
}

async fn begin(
    mut write: Write<'_>,
    holder: PrincipalId,
    hash: &[u8],
    former: Option<SessionId>,
) -> Result<Session, Refusal> {
    let session = insert(&mut write, holder, None, hash, former).await?;
    write.finish(session).await
}

/// Begins a session in a write of the platform's org, with an event in each org that it reaches.
pub(super) async fn insert(
    write: &mut Write<'_>,
    holder: PrincipalId,
    identity: Option<IdentityId>,
    hash: &[u8],
    former: Option<SessionId>,
) -> Result<Session, Refusal> {
    if let Some(former) = former {
        revoke(write, former).await?;
    }
    let id: SessionId = new_id(write.now);
    let expires_at = write.now.checked_add(LIFETIME).unwrap_or(Timestamp::MAX);
    sqlx::query(
        "insert into sessions (id, hash, user_id, token_id, identity_id, created_at, used_at, expires_at)
         values ($1, $2, $3, $4, $7, $5, $5, $6)",
    )
    .bind(id.uuid())
    .bind(hash)
    .bind(holder.user().map(UserId::uuid))
    .bind(holder.token().map(|token| token.uuid()))
    .bind(sql(write.now))
    .bind(sql(expires_at))
    .bind(identity.map(IdentityId::uuid))
    .execute(&mut *write.tx)
    .await?;
    let session = begun(&mut write.tx, hash, write.now).await?;
    let session = session.ok_or(Refusal::NotFound("session"))?;
    // In the log of each of its orgs: owners see who entered.
    for org in orgs(&session) {
        write.enter(org).await?;
        let principal = write.principal();
        write.record(Fact::SignedIn(SignedIn { session: id, principal })).await?;
    }
    Ok(session)
}

async fn end(mut write: Write<'_>, session: &Session) -> Result<(), Refusal> {
    if revoke(&mut write, session.id).await? {
        for org in orgs(session) {
            write.enter(org).await?;
            let principal = write.principal();
            write.record(Fact::SignedOut(SignedOut { session: session.id, principal })).await?;
        }
    }
    write.finish(()).await
}

/// Revokes a session; false if it was revoked before.
async fn revoke(write: &mut Write<'_>, session: SessionId) -> Result<bool, Error> {
    let revoked: Option<(Uuid,)> = sqlx::query_as(
        "update sessions set revoked_at = $2 where id = $1 and revoked_at is null returning id",
    )
    .bind(session.uuid())
    .bind(sql(write.now))
    .fetch_optional(&mut *write.tx)
    .await?;
    Ok(revoked.is_some())
}
