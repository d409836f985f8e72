//! Sign-ins with a provider: what is kept while a browser is there, and the session when it comes back.

use jiff::Timestamp;
use trueup_model::event::{IdentityLinked, ProviderSignInRefused, ProviderUnavailable};
use trueup_model::id::SessionId;
use trueup_model::principal::PrincipalId;
use trueup_model::provider::{
    Authorization, BROWSER_PREFIX, ProviderConnection, ProviderError, SIGN_IN_WITHIN,
};

use super::{
    App, Claims, Encryptor, Fact, Identity, IdentityEnd, IdentityId, OrgId, PLATFORM, PROVIDER,
    ProviderId, Refusal, RequestContext, SecretValue, UserId, Uuid, Write, answers, end, find,
    keep_confirmed, membership, said, sql, system_principal, vouch,
};
use crate::Error;
use crate::db::new_id::{new_code, new_id, new_session_secret};
use crate::db::setup::token_hash;
use crate::door::session;
use crate::session::NewSession;

/// A sign-in that a browser came back from. It is known once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingSignIn {
    /// The org.
    pub org: OrgId,
    /// The provider.
    pub provider: ProviderId,
    /// The nonce that the ID token must have.
    pub nonce: SecretValue,
    /// The PKCE verifier.
    pub verifier: SecretValue,
}

/// Somebody whom a provider vouched for just now.
#[derive(Debug, Clone, Copy)]
pub struct ProviderSignIn<'a> {
    /// The org.
    pub org: OrgId,
    /// The provider.
    pub provider: ProviderId,
    /// What it says.
    pub claims: &'a Claims,
    /// The session that the same browser had.
    pub former: Option<SessionId>,
    /// Encrypts the refresh token.
    pub encryptor: &'a Encryptor,
}

impl App {
    /// Keeps what the return of a browser is checked against; returns the secret for its cookie.
    ///
    /// Outside of the frame: nobody is known yet, and no event tells of it.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn keep_provider_sign_in(
        &self,
        provider: &ProviderConnection,
        authorization: &Authorization,
        now: Timestamp,
    ) -> Result<SecretValue, Error> {
        let browser = new_code(BROWSER_PREFIX);
        let mut tx = self.begin(PLATFORM).await?;
        sqlx::query("delete from provider_sign_ins where expires_at <= $1")
            .bind(sql(now))
            .execute(&mut *tx)
            .await?;
        sqlx::query(
            "insert into provider_sign_ins
                 (hash, browser, org_id, provider_id, nonce, verifier, expires_at)
             values ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(token_hash(authorization.state.reveal()))
        .bind(token_hash(browser.reveal()))
        .bind(provider.org.uuid())
        .bind(provider.provider.uuid())
        .bind(authorization.nonce.reveal())
        .bind(authorization.verifier.reveal())
        .bind(sql(now.checked_add(SIGN_IN_WITHIN).unwrap_or(now)))
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(browser)
    }

    /// The sign-in with this state, if this browser began it and did not come back before. From now on it is
    /// unknown, whatever becomes of it.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn take_provider_sign_in(
        &self,
        state: &str,
        browser: &str,
        now: Timestamp,
    ) -> Result<Option<PendingSignIn>, Error> {
        let mut tx = self.begin(PLATFORM).await?;
        let taken: Option<(Uuid, Uuid, String, String)> = sqlx::query_as(
            "delete from provider_sign_ins where hash = $1 and browser = $2 and expires_at > $3
             returning org_id, provider_id, nonce, verifier",
        )
        .bind(token_hash(state))
        .bind(token_hash(browser))
        .bind(sql(now))
        .fetch_optional(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(taken.map(|(org, provider, nonce, verifier)| PendingSignIn {
            org: OrgId::from_uuid(org),
            provider: ProviderId::from_uuid(provider),
            nonce: nonce.into(),
            verifier: verifier.into(),
        }))
    }

    /// Begins a session of somebody whom a provider vouched for: with an account and a role, if they are new.
    ///
    /// What the provider says is recorded as well when nobody signs in: whoever lost their groups is out.
    ///
    /// # Errors
    /// [`Refusal::NotVouched`] if the provider does not vouch for anybody who may enter; other [`Refusal`]s.
    pub async fn sign_in_with_provider(
        &self,
        wanted: &ProviderSignIn<'_>,
        trace: Option<String>,
        now: Timestamp,
    ) -> Result<NewSession, Refusal> {
        let principal = system_principal(wanted.org, PROVIDER);
        let context = RequestContext::new(&principal, trace);
        let secret = new_session_secret();
        let hash = token_hash(secret.reveal());
        let entered =
            self.write(wanted.org, &context, now, |write| enter(write, wanted, &hash)).await?;
        match entered {
            Ok(session) => Ok(NewSession { secret, session }),
            Err(reason) => Err(Refusal::NotVouched(reason)),
        }
    }

    /// Records in the log of an org that a sign-in with its provider was refused, and why for its owners; of a
    /// provider that could not be asked, that it is unavailable.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn refuse_provider_sign_in(
        &self,
        org: OrgId,
        provider: ProviderId,
        error: &ProviderError,
        trace: Option<String>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let principal = system_principal(org, PROVIDER);
        let context = RequestContext::new(&principal, trace);
        let why = error.to_string();
        let record = async |mut write: Write<'_>| {
            match error {
                ProviderError::Unavailable(_) => fails(&mut write, provider, &why).await?,
                ProviderError::Refused(_) | ProviderError::NotValid(_) => {
                    let fact = ProviderSignInRefused { provider, why: why.clone() };
                    write.record(Fact::ProviderSignInRefused(fact)).await?;
                }
            }
            write.finish(()).await
        };
        self.write(org, &context, now, record).await
    }
}

/// Notes that a provider could not be asked, with an event if it could before.
async fn fails(write: &mut Write<'_>, provider: ProviderId, why: &str) -> Result<(), Refusal> {
    let failed_before: Option<(bool,)> = sqlx::query_as(
        "with before as (
             select id, coalesce(failed_at > coalesce(confirmed_at, '-infinity'), false) as failed
             from identity_providers where id = $1 for update)
         update identity_providers p set failed_at = $2, failure = $3 from before where p.id = before.id
         returning before.failed",
    )
    .bind(provider.uuid())
    .bind(sql(write.now))
    .bind(why)
    .fetch_optional(&mut *write.tx)
    .await?;
    if failed_before == Some((false,)) {
        let fact = ProviderUnavailable { provider, why: why.to_owned() };
        write.record(Fact::ProviderUnavailable(fact)).await?;
    }
    Ok(())
}

type Entered = Result<trueup_model::session::Session, IdentityEnd>;

async fn enter(
    mut write: Write<'_>,
    wanted: &ProviderSignIn<'_>,
    hash: &[u8],
) -> Result<Entered, Refusal> {
    let provider = find(&mut write.tx, &wanted.provider.to_string()).await?;
    let provider = provider.filter(|provider| provider.spec.enabled);
    let provider = provider.ok_or(Refusal::NotFound("provider"))?;
    let claims = wanted.claims;
    let known = by_subject(&mut write, provider.id, &claims.subject).await?;
    let vouched = match vouch(claims, &provider.spec.groups, &provider.domains) {
        Ok(vouched) => vouched,
        Err(reason) => {
            if let Some(known) = known {
                end(&mut write, known, reason, &said(claims)).await?;
            }
            return write.finish(Err(reason)).await;
        }
    };
    let identity = match known {
        Some(known) => known,
        None => {
            let user = user_of(&mut write, vouched.email.as_str(), &vouched.name).await?;
            link(&mut write, provider.id, user, &claims.subject).await?
        }
    };
    membership::give(&mut write, identity, vouched.role).await?;
    let token = claims.refresh_token.as_ref();
    keep_confirmed(&mut write, identity.id, token, wanted.encryptor).await?;
    answers(&mut write, &provider).await?;
    write.enter(PLATFORM).await?;
    let holder = PrincipalId::User(identity.user);
    let session =
        session::insert(&mut write, holder, Some(identity.id), hash, wanted.former).await?;
    write.finish(Ok(session)).await
}

/// The current identity of a subject, locked.
async fn by_subject(
    write: &mut Write<'_>,
    provider: ProviderId,
    subject: &str,
) -> Result<Option<Identity>, Refusal> {
    let found: Option<(Uuid, Uuid)> = sqlx::query_as(
        "select id, user_id from identities
         where provider_id = $1 and subject = $2 and ended_at is null for update",
    )
    .bind(provider.uuid())
    .bind(subject)
    .fetch_optional(&mut *write.tx)
    .await?;
    Ok(found.map(|(id, user)| Identity {
        id: IdentityId::from_uuid(id),
        provider,
        user: UserId::from_uuid(user),
    }))
}

/// The account of an address, created without a password if there is none. Returns to the org of the write.
///
/// An account that exists is used: the session reaches the provider's org alone, whatever else the account may do.
async fn user_of(write: &mut Write<'_>, email: &str, name: &str) -> Result<UserId, Refusal> {
    let (org, id) = (write.org(), new_id::<trueup_model::id::noun::User>(write.now));
    write.enter(PLATFORM).await?;
    sqlx::query(
        "insert into users (id, email, name, created_at) values ($1, $2, $3, $4)
         on conflict (email) do nothing",
    )
    .bind(id.uuid())
    .bind(email)
    .bind(name)
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    let (user,): (Uuid,) = sqlx::query_as("select id from users where email = $1")
        .bind(email)
        .fetch_one(&mut *write.tx)
        .await?;
    write.enter(org).await?;
    Ok(UserId::from_uuid(user))
}

async fn link(
    write: &mut Write<'_>,
    provider: ProviderId,
    user: UserId,
    subject: &str,
) -> Result<Identity, Refusal> {
    let id: IdentityId = new_id(write.now);
    let linked = sqlx::query(
        "insert into identities (id, org_id, provider_id, user_id, subject, created_at, confirmed_at)
         values ($1, $2, $3, $4, $5, $6, $6)
         on conflict (provider_id, subject) where ended_at is null do nothing",
    )
    .bind(id.uuid())
    .bind(write.org().uuid())
    .bind(provider.uuid())
    .bind(user.uuid())
    .bind(subject)
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    if linked.rows_affected() == 0 {
        // The same person signs in elsewhere at this moment: this sign-in is repeated after that one.
        return Err(Refusal::Store(Error::Overtaken));
    }
    let fact = IdentityLinked { identity: id, provider, user };
    write.record(Fact::IdentityLinked(fact)).await?;
    Ok(Identity { id, provider, user })
}
