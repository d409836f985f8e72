//! Facts about people: sign-ins, memberships and invitations.
//!
//! They name people by id alone. Facts are hashed and kept for ever; names and addresses are read beside them,
//! and can be erased.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::{SessionId, UserId};

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
