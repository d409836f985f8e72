//! Adds members, changes their roles and removes them.
//!
//! A removed member has no role from the next request on, and the tokens that they created in the org are
//! revoked with them.

use jiff::Timestamp;
use trueup_model::event::{Fact, MemberRemoved, MemberRoleChanged, TokenRevoked};
use trueup_model::id::{MembershipId, OrgId, TokenId, UserId};
use trueup_model::principal::Role;
use trueup_model::user::{EmailAddress, Member};
use trueup_rules::access::{may_give, may_lose_role};
use uuid::Uuid;

use super::write::Write;
use super::{Accepted, Refusal, RequestContext, binding};
use crate::App;
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::member::{Columns, SELECT, member};

impl App {
    /// Gives a member, named by id or address, another role.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn put_member(
        &self,
        org: OrgId,
        wanted: &str,
        role: Role,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Member>, Refusal> {
        self.write(org, context, now, |write| put(write, wanted, role)).await
    }

    /// Removes a member, named by id or address.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn remove_member(
        &self,
        org: OrgId,
        wanted: &str,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Member, Refusal> {
        self.write(org, context, now, |write| remove(write, wanted)).await
    }
}

async fn put(mut write: Write<'_>, wanted: &str, role: Role) -> Result<Accepted<Member>, Refusal> {
    let (target, others) = lock(&mut write, wanted).await?;
    if target.role == role {
        return write.finish(Accepted { row: target, changed: false }).await;
    }
    let principal = write.context.principal;
    if !may_give(principal, role) || !may_give(principal, target.role) {
        return Err(Refusal::RoleNotGiven);
    }
    if !may_lose_role(principal, target.role, others.into_iter()) {
        return Err(Refusal::LastOwner);
    }
    sqlx::query("update memberships set role = $2 where user_id = $1 and removed_at is null")
        .bind(target.user.id.uuid())
        .bind(role.into_str())
        .execute(&mut *write.tx)
        .await?;
    let fact = Fact::MemberRoleChanged(MemberRoleChanged {
        user: target.user.id,
        from: target.role,
        to: role,
        principal: write.principal(),
    });
    write.record(fact).await?;
    write.finish(Accepted { row: Member { role, ..target }, changed: true }).await
}

async fn remove(mut write: Write<'_>, wanted: &str) -> Result<Member, Refusal> {
    let (target, others) = lock(&mut write, wanted).await?;
    let principal = write.context.principal;
    let leaves = principal.id.user() == Some(target.user.id);
    if !leaves && !may_give(principal, target.role) {
        return Err(Refusal::RoleNotGiven);
    }
    if !may_lose_role(principal, target.role, others.into_iter()) {
        return Err(Refusal::LastOwner);
    }
    let user = target.user.id;
    sqlx::query("update memberships set removed_at = $2 where user_id = $1 and removed_at is null")
        .bind(user.uuid())
        .bind(sql(write.now))
        .execute(&mut *write.tx)
        .await?;
    let fact = Fact::MemberRemoved(MemberRemoved { user, principal: write.principal() });
    write.record(fact).await?;
    binding::end_all(&mut write, user).await?;
    revoke_tokens(&mut write, user).await?;
    write.finish(target).await
}

/// Revokes the tokens that a user created in the org.
pub(super) async fn revoke_tokens(write: &mut Write<'_>, user: UserId) -> Result<(), Refusal> {
    let revoked: Vec<(Uuid,)> = sqlx::query_as(
        "update tokens set revoked_at = $2 where user_id = $1 and revoked_at is null returning id",
    )
    .bind(user.uuid())
    .bind(sql(write.now))
    .fetch_all(&mut *write.tx)
    .await?;
    for (token,) in revoked {
        let token = TokenId::from_uuid(token);
        let fact = TokenRevoked { token, name: None, principal: write.principal() };
        write.record(Fact::TokenRevoked(fact)).await?;
    }
    Ok(())
}

/// Locks the wanted member and all with a highest role, in one order; returns the member, and the roles of the
/// others.
///
/// Of two owners that remove each other concurrently, the second finds itself to be the last.
pub(super) async fn lock(
    write: &mut Write<'_>,
    wanted: &str,
) -> Result<(Member, Vec<Role>), Refusal> {
    let id = wanted.parse::<UserId>().ok();
    let email = wanted.parse::<EmailAddress>().ok();
    let statement = format!(
        "{SELECT} and (m.role in ('owner', 'operator') or u.id = $1 or u.email = $2)
         order by m.id for update of m"
    );
    let rows: Vec<Columns> = sqlx::query_as(sqlx::AssertSqlSafe(statement))
        .bind(id.map(UserId::uuid))
        .bind(email.as_ref().map(EmailAddress::as_str))
        .fetch_all(&mut *write.tx)
        .await?;
    let mut target = None;
    let mut others = Vec::new();
    for row in rows {
        let member = member(row)?;
        let email = email.as_ref().map(EmailAddress::as_str);
        if Some(member.user.id) == id || Some(member.user.email.as_str()) == email {
            target = Some(member);
        } else {
            others.push(member.role);
        }
    }
    Ok((target.ok_or(Refusal::NotFound("member"))?, others))
}

/// Adds a user to the org of the write.
pub(super) async fn insert(write: &mut Write<'_>, user: UserId, role: Role) -> Result<(), Refusal> {
    let id: MembershipId = new_id(write.now);
    let inserted = sqlx::query(
        "insert into memberships (id, org_id, user_id, role, created_at) values ($1, $2, $3, $4, $5)
         on conflict (user_id, org_id) where removed_at is null do nothing",
    )
    .bind(id.uuid())
    .bind(write.org().uuid())
    .bind(user.uuid())
    .bind(role.into_str())
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    if inserted.rows_affected() == 0 { Err(Refusal::AlreadyMember) } else { Ok(()) }
}
