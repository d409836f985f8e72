//! Memberships that a provider gives, changes and takes.

use trueup_model::event::{Fact, MemberAdded, MemberRemoved, MemberRoleChanged};
use trueup_model::id::{MembershipId, ProviderId};
use trueup_model::principal::Role;
use uuid::Uuid;

use super::Identity;
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::row::read;
use crate::door::member::revoke_tokens;
use crate::door::write::Write;
use crate::door::{Refusal, binding};

/// A current membership: its role, and the provider that gave it.
struct Membership {
    role: Role,
    provider: Option<ProviderId>,
}

async fn current(write: &mut Write<'_>, of: Identity) -> Result<Option<Membership>, Refusal> {
    let found: Option<(String, Option<Uuid>)> = sqlx::query_as(
        "select role, provider_id from memberships where user_id = $1 and removed_at is null
         for update",
    )
    .bind(of.user.uuid())
    .fetch_optional(&mut *write.tx)
    .await?;
    let Some((role, provider)) = found else { return Ok(None) };
    let provider = provider.map(ProviderId::from_uuid);
    Ok(Some(Membership { role: read("role", role)?, provider }))
}

/// Gives a role to whoever has none, and changes one that this provider gave.
pub(super) async fn give(write: &mut Write<'_>, to: Identity, role: Role) -> Result<(), Refusal> {
    if change(write, to, role).await? {
        return Ok(());
    }
    let id: MembershipId = new_id(write.now);
    sqlx::query(
        "insert into memberships (id, org_id, user_id, role, provider_id, created_at)
         values ($1, $2, $3, $4, $5, $6)",
    )
    .bind(id.uuid())
    .bind(write.org().uuid())
    .bind(to.user.uuid())
    .bind(role.into_str())
    .bind(to.provider.uuid())
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    let principal = write.principal();
    let fact = MemberAdded { user: to.user, role, invitation: None, principal };
    write.record(Fact::MemberAdded(fact)).await?;
    Ok(())
}

/// Changes the role that this provider gave; false if the person is not a member. A role that a person gave, or
/// another provider, stays.
pub(super) async fn change(
    write: &mut Write<'_>,
    of: Identity,
    role: Role,
) -> Result<bool, Refusal> {
    let Some(found) = current(write, of).await? else { return Ok(false) };
    if found.provider != Some(of.provider) || found.role == role {
        return Ok(true);
    }
    sqlx::query("update memberships set role = $2 where user_id = $1 and removed_at is null")
        .bind(of.user.uuid())
        .bind(role.into_str())
        .execute(&mut *write.tx)
        .await?;
    let principal = write.principal();
    let fact = MemberRoleChanged { user: of.user, from: found.role, to: role, principal };
    write.record(Fact::MemberRoleChanged(fact)).await?;
    Ok(true)
}

/// Takes the role that this provider gave, also from the last owner, with the roles in projects and the tokens of
/// the member.
pub(super) async fn take(write: &mut Write<'_>, from: Identity) -> Result<(), Refusal> {
    let found = current(write, from).await?;
    if found.is_none_or(|found| found.provider != Some(from.provider)) {
        return Ok(());
    }
    sqlx::query("update memberships set removed_at = $2 where user_id = $1 and removed_at is null")
        .bind(from.user.uuid())
        .bind(sql(write.now))
        .execute(&mut *write.tx)
        .await?;
    let fact = MemberRemoved { user: from.user, principal: write.principal() };
    write.record(Fact::MemberRemoved(fact)).await?;
    binding::end_all(write, from.user).await?;
    revoke_tokens(write, from.user).await
}
