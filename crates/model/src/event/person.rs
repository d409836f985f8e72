//! Facts about people: sign-ins, memberships and invitations.
//!
//! They name people by id alone. Facts are hashed and kept for ever; names and addresses are read beside them,
//! and can be erased.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::{InvitationId, ProjectId, SessionId, UserId};
use crate::principal::Role;

/// A session began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignedIn {
    /// The session.
    pub session: SessionId,
    /// Who signed in.
    pub principal: String,
}

/// Somebody signed out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignedOut {
    /// The session.
    pub session: SessionId,
    /// Whose session it was.
    pub principal: String,
}

/// A sign-in was refused: the password was wrong, or there is no such account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInRefused {
    /// Whose account it was; null if there is none.
    pub user: Option<UserId>,
}

/// Somebody became a member of the org.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberAdded {
    /// Who.
    pub user: UserId,
    /// The role.
    pub role: Role,
    /// The invitation that was accepted; null for the first account of an install.
    pub invitation: Option<InvitationId>,
    /// Who accepted.
    pub principal: String,
}

/// The role of a member was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberRoleChanged {
    /// Whose role.
    pub user: UserId,
    /// The role before.
    pub from: Role,
    /// The role now.
    pub to: Role,
    /// Who requested it.
    pub principal: String,
}

/// A role in one project was given to a member, or replaced another one there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectRoleGranted {
    /// Whose role.
    pub user: UserId,
    /// The project.
    pub project: ProjectId,
    /// The role there now.
    pub role: Role,
    /// Who requested it.
    pub principal: String,
}

/// A role in one project was taken from a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectRoleRevoked {
    /// Whose role.
    pub user: UserId,
    /// The project.
    pub project: ProjectId,
    /// The role there before.
    pub role: Role,
    /// Who requested it.
    pub principal: String,
}

/// A member was removed, or left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberRemoved {
    /// Who.
    pub user: UserId,
    /// Who requested it.
    pub principal: String,
}

/// Somebody was invited. The address is not part of the event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvitationCreated {
    /// The invitation.
    pub invitation: InvitationId,
    /// The role that it offers.
    pub role: Role,
    /// Who invited.
    pub principal: String,
}

/// An invitation was revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvitationRevoked {
    /// The invitation.
    pub invitation: InvitationId,
    /// Who requested it.
    pub principal: String,
}
