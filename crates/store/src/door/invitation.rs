//! Creates, revokes and accepts invitations.
//!
//! An invitation is accepted once, by whoever has its code and is or becomes the user with its address; and only
//! while its inviter may still invite.

use jiff::Timestamp;
use trueup_model::event::{Fact, InvitationCreated, InvitationRevoked, MemberAdded};
use trueup_model::id::{InvitationId, OrgId, UserId};
use trueup_model::invitation::{Invitation, LIFETIME, PREFIX};
use trueup_model::org::PLATFORM;
use trueup_model::principal::{Permission, Principal, PrincipalId, Role};
use trueup_model::secret::SecretValue;
use trueup_model::user::EmailAddress;
use trueup_rules::access::{Resource, decide, may_give};
use uuid::Uuid;

use super::write::Write;
use super::{Refusal, RequestContext, binding, member, system_principal};
use crate::db::clock::sql;
use crate::db::new_id::{new_code, new_id};
use crate::db::pool::Tx;
use crate::db::setup::token_hash;
use crate::invitation::{Columns, OpenInvitation, SELECT, invitation, open};
use crate::{App, Error, org};

/// Whom to invite, and as what.
#[derive(Debug)]
pub struct InvitationSpec<'a> {
    /// The address.
    pub email: &'a EmailAddress,
    /// The role.
    pub role: Role,
    /// The only project to offer it in, by name or id.
    pub project: Option<&'a str>,
}

/// A new invitation; its code is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedInvitation {
    /// The invitation as it is listed.
    pub row: Invitation,
    /// To be shown and sent once; `None` for an idempotent retry.
    pub code: Option<SecretValue>,
    /// The name of the org.
    pub org_name: String,
}

/// Who accepts an invitation or sets an install up.
#[derive(Debug)]
pub enum Account<'a> {
    /// A user whose password was checked.
    Existing(UserId),
    /// A new user.
    New {
        /// The name.
        name: &'a str,
        /// The hash of the password.
        password_hash: &'a str,
    },
}

/// The acceptance of an invitation.
#[derive(Debug)]
pub struct Acceptance<'a> {
    /// The invitation, as it was found.
    pub invitation: &'a OpenInvitation,
    /// Its code.
    pub code: &'a str,
    /// Who accepts.
    pub account: Account<'a>,
}

impl App {
    /// Invites somebody. An earlier open invitation of this address is revoked.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn create_invitation(
        &self,
        org: OrgId,
        wanted: &InvitationSpec<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<CreatedInvitation, Refusal> {
        self.write(org, context, now, |write| create(write, wanted)).await
    }

    /// Revokes an open invitation.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn revoke_invitation(
        &self,
        org: OrgId,
        wanted: InvitationId,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Invitation, Refusal> {
        self.write(org, context, now, |write| revoke(write, wanted)).await
    }

    /// Accepts an invitation; returns the member.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn accept_invitation(
        &self,
        wanted: &Acceptance<'_>,
        trace: Option<String>,
        now: Timestamp,
    ) -> Result<UserId, Refusal> {
        let org = wanted.invitation.org;
        let nobody = system_principal(org, "nobody");
        let context = RequestContext::new(&nobody, trace);
        self.write(org, &context, now, |write| accept(write, wanted)).await
    }
}

async fn create(
    mut write: Write<'_>,
    wanted: &InvitationSpec<'_>,
) -> Result<CreatedInvitation, Refusal> {
    let id = write.org();
    if org::lock_shared(&mut write.tx, id).await? {
        return Err(Refusal::OrgBeingDeleted);
    }
    let name = org::find(&mut write.tx, id).await?.map(|org| org.name).unwrap_or_default();
    if let Some(earlier) = write.earlier().await? {
        let earlier = earlier.parse().map_err(|_| Refusal::NotFound("invitation"))?;
        let row = find(&mut write.tx, earlier).await?.ok_or(Refusal::NotFound("invitation"))?;
        return Ok(CreatedInvitation { row, code: None, org_name: name });
    }
    if !may_give(write.context.principal, wanted.role) {
        return Err(Refusal::RoleNotGiven);
    }
    refuse_members(&mut write, wanted.email).await?;
    let former: Vec<(Uuid,)> = sqlx::query_as(
        "select id from invitations where email = $1 and accepted_at is null and revoked_at is null
         for update",
    )
    .bind(wanted.email.as_str())
    .fetch_all(&mut *write.tx)
    .await?;
    for (former,) in former {
        end(&mut write, InvitationId::from_uuid(former)).await?;
    }
    let (row, code) = insert(&mut write, wanted).await?;
    let fact = Fact::InvitationCreated(InvitationCreated {
        invitation: row.id,
        role: row.role,
        principal: write.principal(),
    });
    write.record(fact).await?;
    let subject = row.id.to_string();
    write.finish_as(&subject, CreatedInvitation { row, code: Some(code), org_name: name }).await
}

async fn refuse_members(write: &mut Write<'_>, email: &EmailAddress) -> Result<(), Refusal> {
    let (is_member,): (bool,) = sqlx::query_as(
        "select exists (select from memberships m join users u on u.id = m.user_id
                        where u.email = $1 and m.removed_at is null)",
    )
    .bind(email.as_str())
    .fetch_one(&mut *write.tx)
    .await?;
    if is_member { Err(Refusal::AlreadyMember) } else { Ok(()) }
}

async fn insert(
    write: &mut Write<'_>,
    wanted: &InvitationSpec<'_>,
) -> Result<(Invitation, SecretValue), Refusal> {
    let (now, code) = (write.now, new_code(PREFIX));
    let project = match wanted.project {
        None => None,
        Some(named) => Some(binding::project(write, named).await?),
    };
    let row = Invitation {
        id: new_id(now),
        email: wanted.email.to_string(),
        role: wanted.role,
        project: project.as_ref().map(|(_, name)| name.clone()),
        created_at: now,
        expires_at: now.checked_add(LIFETIME).unwrap_or(Timestamp::MAX),
    };
    let inserted = sqlx::query(
        "insert into invitations (id, org_id, email, role, hash, inviter_id, created_at, expires_at, project_id)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         on conflict (org_id, email) where accepted_at is null and revoked_at is null do nothing",
    )
    .bind(row.id.uuid())
    .bind(write.org().uuid())
    .bind(&row.email)
    .bind(row.role.into_str())
    .bind(token_hash(code.reveal()))
    .bind(write.context.principal.id.uuid())
    .bind(sql(now))
    .bind(sql(row.expires_at))
    .bind(project.map(|(id, _)| id.uuid()))
    .execute(&mut *write.tx)
    .await?;
    if inserted.rows_affected() == 0 {
        // Another request invites the same address at this moment: this one is repeated after it.
        return Err(Refusal::Store(Error::Overtaken));
    }
    Ok((row, code))
}

async fn revoke(mut write: Write<'_>, wanted: InvitationId) -> Result<Invitation, Refusal> {
    let row = find(&mut write.tx, wanted).await?.ok_or(Refusal::NotFound("invitation"))?;
    if !end(&mut write, wanted).await? {
        return Err(Refusal::NotFound("invitation"));
    }
    write.finish(row).await
}

/// Revokes an open invitation; false if it is not open.
async fn end(write: &mut Write<'_>, invitation: InvitationId) -> Result<bool, Refusal> {
    let revoked = sqlx::query(
        "update invitations set revoked_at = $2
         where id = $1 and accepted_at is null and revoked_at is null",
    )
    .bind(invitation.uuid())
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    if revoked.rows_affected() == 0 {
        return Ok(false);
    }
    let principal = write.principal();
    write.record(Fact::InvitationRevoked(InvitationRevoked { invitation, principal })).await?;
    Ok(true)
}

/// An invitation of the org by its id, also after it ended.
async fn find(tx: &mut Tx, id: InvitationId) -> Result<Option<Invitation>, Error> {
    let statement = format!("{SELECT} where i.id = $1");
    let found: Option<Columns> = sqlx::query_as(sqlx::AssertSqlSafe(statement))
        .bind(id.uuid())
        .fetch_optional(&mut **tx)
        .await?;
    found.map(invitation).transpose()
}

async fn accept(mut write: Write<'_>, wanted: &Acceptance<'_>) -> Result<UserId, Refusal> {
    let found = open(&mut write.tx, &token_hash(wanted.code), write.now).await?;
    let invitation = found.filter(still_offered).ok_or(Refusal::CodeNotValid)?;
    let accepted = sqlx::query(
        "update invitations set accepted_at = $2
         where id = $1 and accepted_at is null and revoked_at is null",
    )
    .bind(invitation.id.uuid())
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    if accepted.rows_affected() == 0 {
        return Err(Refusal::CodeNotValid);
    }
    let user = account(&mut write, &invitation.email, &wanted.account).await?;
    let role = if invitation.project.is_some() { Role::Member } else { invitation.role };
    member::insert(&mut write, user, role).await?;
    sqlx::query("update invitations set user_id = $2 where id = $1")
        .bind(invitation.id.uuid())
        .bind(user.uuid())
        .execute(&mut *write.tx)
        .await?;
    let fact = Fact::MemberAdded(MemberAdded {
        user,
        role,
        invitation: Some(invitation.id),
        principal: user.to_string(),
    });
    write.record(fact).await?;
    if let Some(project) = invitation.project {
        let principal = user.to_string();
        binding::give(&mut write, user, project, invitation.role, principal).await?;
    }
    write.finish(user).await
}

/// Whether the inviter may still give this role in this org.
fn still_offered(invitation: &OpenInvitation) -> bool {
    invitation.inviter.as_ref().is_some_and(|(role, permissions)| {
        let inviter = Principal {
            id: PrincipalId::System,
            name: String::new(),
            role: *role,
            projects: Vec::new(),
            org: Some(invitation.org).filter(|_| !role.is_of_platform()),
            permissions: permissions.clone(),
            expires_at: None,
        };
        decide(&inviter, Permission::ManageMembers, Resource::org(invitation.org)).allowed()
            && may_give(&inviter, invitation.role)
    })
}

/// The user of an account, created if it is new. Returns to the org of the write.
pub(super) async fn account(
    write: &mut Write<'_>,
    email: &EmailAddress,
    account: &Account<'_>,
) -> Result<UserId, Refusal> {
    let (name, password_hash) = match account {
        Account::Existing(user) => return Ok(*user),
        Account::New { name, password_hash } => (*name, *password_hash),
    };
    let (org, id) = (write.org(), new_id::<trueup_model::id::noun::User>(write.now));
    write.enter(PLATFORM).await?;
    let inserted = sqlx::query(
        "insert into users (id, email, name, password_hash, created_at)
         values ($1, $2, $3, $4, $5) on conflict (email) do nothing",
    )
    .bind(id.uuid())
    .bind(email.as_str())
    .bind(name)
    .bind(password_hash)
    .bind(sql(write.now))
    .execute(&mut *write.tx)
    .await?;
    write.enter(org).await?;
    // Somebody with this address got an account at this moment; their password was not checked.
    if inserted.rows_affected() == 0 { Err(Refusal::CodeNotValid) } else { Ok(id) }
}
