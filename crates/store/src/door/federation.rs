//! People of identity providers: their sign-ins, and what happens when a provider says something else about them.
//!
//! A provider gives a role to whoever has none in the org, changes only roles that it gave, and takes them away with
//! everything that hangs on them.

mod membership;
mod sign_in;

use jiff::Timestamp;
use trueup_model::event::{Fact, IdentityEnded, ProviderAnswers};
use trueup_model::id::{IdentityId, OrgId, ProviderId, UserId};
use trueup_model::org::PLATFORM;
use trueup_model::provider::{
    CONFIRM_EVERY, Claims, CredentialKind, IdentityEnd, Provider, UNCONFIRMED_FOR,
};
use trueup_model::secret::SecretValue;
use trueup_rules::envelope::Encryptor;
use trueup_rules::federation::vouch;
use uuid::Uuid;

use super::secret::org_key;
use super::write::Write;
use super::{Refusal, RequestContext, system_principal};
use crate::App;
use crate::db::clock::sql;
use crate::db::new_id::entropy;
use crate::provider::find;

pub use sign_in::{PendingSignIn, ProviderSignIn};

/// The principal's name in events that a provider causes.
const PROVIDER: &str = "identity provider";

/// A person of a provider.
#[derive(Debug, Clone, Copy)]
struct Identity {
    id: IdentityId,
    provider: ProviderId,
    user: UserId,
}

impl App {
    /// Records that a provider confirmed a person, with what it says about them now: a role that it gives is
    /// changed or taken away. Returns why the identity ended, if it did.
    ///
    /// # Errors
    /// The database cannot be reached, or the new refresh token cannot be encrypted.
    pub async fn confirm_identity(
        &self,
        org: OrgId,
        identity: IdentityId,
        claims: &Claims,
        encryptor: &Encryptor,
        now: Timestamp,
    ) -> Result<Option<IdentityEnd>, Refusal> {
        let principal = system_principal(org, PROVIDER);
        let context = RequestContext::system(&principal);
        self.write(org, &context, now, |write| confirm(write, identity, claims, encryptor)).await
    }

    /// Ends an identity: its sessions, and the membership that its provider gave. False if it had ended before.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn end_identity(
        &self,
        org: OrgId,
        identity: IdentityId,
        reason: IdentityEnd,
        evidence: &str,
        now: Timestamp,
    ) -> Result<bool, Refusal> {
        let principal = system_principal(org, PROVIDER);
        let context = RequestContext::system(&principal);
        let ending = async |mut write: Write<'_>| {
            let Some(found) = lock(&mut write, identity).await? else { return Ok(false) };
            end(&mut write, found, reason, evidence).await?;
            write.finish(true).await
        };
        self.write(org, &context, now, ending).await
    }
}

async fn confirm(
    mut write: Write<'_>,
    identity: IdentityId,
    claims: &Claims,
    encryptor: &Encryptor,
) -> Result<Option<IdentityEnd>, Refusal> {
    let Some(found) = lock(&mut write, identity).await? else { return Ok(None) };
    let provider = find(&mut write.tx, &found.provider.to_string()).await?;
    let provider = provider.ok_or(Refusal::NotFound("provider"))?;
    let ended = match vouch(claims, &provider.spec.groups, &provider.domains) {
        Err(reason) => Some((reason, said(claims))),
        Ok(vouched) => {
            // Somebody who was removed here by hand comes back by signing in, never by themselves.
            let changed = membership::change(&mut write, found, vouched.role).await?;
            (!changed).then(|| (IdentityEnd::MemberRemoved, "the member was removed".to_owned()))
        }
    };
    if let Some((reason, evidence)) = &ended {
        end(&mut write, found, *reason, evidence).await?;
    } else {
        let token = claims.refresh_token.as_ref();
        keep_confirmed(&mut write, found.id, token, encryptor).await?;
    }
    answers(&mut write, &provider).await?;
    write.finish(ended.map(|(reason, _)| reason)).await
}

/// The evidence in what a provider says: its groups, without the address, because events are kept for ever.
fn said(claims: &Claims) -> String {
    let verified = if claims.email_verified { "verified" } else { "not verified" };
    let groups: Vec<String> = claims.groups.iter().take(20).map(|one| format!("`{one}`")).collect();
    let text = format!("address {verified}; groups: {}", groups.join(", "));
    text.chars().filter(|c| !c.is_control()).take(500).collect()
}

/// Locks a current identity.
async fn lock(write: &mut Write<'_>, id: IdentityId) -> Result<Option<Identity>, Refusal> {
    let found: Option<(Uuid, Uuid)> = sqlx::query_as(
        "select provider_id, user_id from identities where id = $1 and ended_at is null for update",
    )
    .bind(id.uuid())
    .fetch_optional(&mut *write.tx)
    .await?;
    Ok(found.map(|(provider, user)| Identity {
        id,
        provider: ProviderId::from_uuid(provider),
        user: UserId::from_uuid(user),
    }))
}

/// Notes that a person is confirmed now, and stores the new refresh token, if the provider gave one.
async fn keep_confirmed(
    write: &mut Write<'_>,
    id: IdentityId,
    token: Option<&SecretValue>,
    encryptor: &Encryptor,
) -> Result<(), Refusal> {
    if let Some(token) = token {
        let org = write.org();
        let key = org_key(write, org, encryptor).await?;
        let kind = CredentialKind::RefreshToken(id);
        let sealed = encryptor
            .seal_credential(org, &key, kind, token, entropy())
            .map_err(Refusal::CannotEncrypt)?;
        sqlx::query("update identities set nonce = $2, sealed = $3 where id = $1")
            .bind(id.uuid())
            .bind(sealed.nonce.as_slice())
            .bind(&sealed.bytes)
            .execute(&mut *write.tx)
            .await?;
    }
    let now = write.now;
    let next = |after| sql(now.checked_add(after).unwrap_or(Timestamp::MAX));
    sqlx::query(
        "update identities set confirmed_at = $2, failed_at = null,
                next_check_at = case when sealed is null then $4 else $3 end where id = $1",
    )
    .bind(id.uuid())
    .bind(sql(now))
    .bind(next(CONFIRM_EVERY))
    .bind(next(UNCONFIRMED_FOR))
    .execute(&mut *write.tx)
    .await?;
    Ok(())
}

/// Notes that a provider answered, with an event if it could not be asked before.
async fn answers(write: &mut Write<'_>, provider: &Provider) -> Result<(), Refusal> {
    let again: Option<(bool,)> = sqlx::query_as(
        "with before as (
             select id, failed_at > coalesce(confirmed_at, '-infinity') as failed
             from identity_providers where id = $1 for update)
         update identity_providers p set confirmed_at = $2 from before where p.id = before.id
         returning coalesce(before.failed, false)",
    )
    .bind(provider.id.uuid())
    .bind(sql(write.now))
    .fetch_optional(&mut *write.tx)
    .await?;
    if again == Some((true,)) {
        write.record(Fact::ProviderAnswers(ProviderAnswers { provider: provider.id })).await?;
    }
    Ok(())
}

/// Ends an identity with its sessions, and takes away what its provider gave.
async fn end(
    write: &mut Write<'_>,
    found: Identity,
    reason: IdentityEnd,
    evidence: &str,
) -> Result<(), Refusal> {
    sqlx::query("update identities set ended_at = $2, end_reason = $3, nonce = null, sealed = null where id = $1")
        .bind(found.id.uuid())
        .bind(sql(write.now))
        .bind(reason.into_str())
        .execute(&mut *write.tx)
        .await?;
    let fact = Fact::IdentityEnded(IdentityEnded {
        identity: found.id,
        provider: found.provider,
        user: found.user,
        reason,
        evidence: evidence.to_owned(),
    });
    write.record(fact).await?;
    membership::take(write, found).await?;
    let org = write.org();
    write.enter(PLATFORM).await?;
    sqlx::query(
        "update sessions set revoked_at = $2 where identity_id = $1 and revoked_at is null",
    )
    .bind(found.id.uuid())
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    write.enter(org).await?;
    Ok(())
}

/// Ends all identities of a provider.
pub(super) async fn end_all(
    write: &mut Write<'_>,
    provider: ProviderId,
    reason: IdentityEnd,
) -> Result<(), Refusal> {
    let all: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "select id, user_id from identities where provider_id = $1 and ended_at is null
         order by id for update",
    )
    .bind(provider.uuid())
    .fetch_all(&mut *write.tx)
    .await?;
    for (id, user) in all {
        let (id, user) = (IdentityId::from_uuid(id), UserId::from_uuid(user));
        end(write, Identity { id, provider, user }, reason, "the provider was deleted").await?;
    }
    Ok(())
}
