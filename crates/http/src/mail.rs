//! Where mail goes: the seam to whatever sends it.

use std::fmt::Debug;

use jiff::Timestamp;
use trueup_model::id::InvitationId;
use trueup_model::secret::SecretValue;
use trueup_model::user::EmailAddress;

/// Sends mail. A failure is the sender's to report: the request that caused the mail has succeeded by then.
pub trait Mailer: Debug + Send + Sync {
    /// Sends an invitation to the invited address.
    fn invite(&self, mail: &InvitationMail<'_>);
}

/// What an invited person needs to know.
#[derive(Debug)]
pub struct InvitationMail<'a> {
    /// The invitation.
    pub id: InvitationId,
    /// The invited address.
    pub to: &'a EmailAddress,
    /// Who invites.
    pub inviter: &'a str,
    /// The org.
    pub org: &'a str,
    /// The code of the invitation.
    pub code: &'a SecretValue,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// Sends nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMail;

impl Mailer for NoMail {
    fn invite(&self, _: &InvitationMail<'_>) {}
}
