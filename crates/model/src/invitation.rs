//! Invitations: single-use offers of a membership, for one address.

use jiff::{SignedDuration, Timestamp};

use crate::id::InvitationId;
use crate::principal::Role;

/// The prefix of an invitation's code. Like a token's, so that it is recognised in URLs.
pub const PREFIX: &str = "tu_invitation_";
/// The prefix of the code that creates the first account of an install.
pub const SETUP_PREFIX: &str = "tu_setup_";
/// How long an invitation can be accepted.
pub const LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);

/// An open invitation, without its code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// Its id.
    pub id: InvitationId,
    /// The invited address.
    pub email: String,
    /// The role that it offers.
    pub role: Role,
    /// The name of the only project that it offers the role in.
    pub project: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
}
