//! Sessions: one sign-in each, of a browser or of the command line.
//!
//! The secret of a session begins like a token, so that it is recognised in URLs and by scanners.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::id::{OrgId, SessionId};
use crate::principal::Principal;
use crate::user::{OrgRole, User};

/// The prefix of every session's secret.
pub const PREFIX: &str = "tu_session_";
/// A session that was not used for this long ends. `authenticate_session` in SQL knows it as well.
pub const IDLE: SignedDuration = SignedDuration::from_hours(12);
/// A session ends after this long, however much it is used.
pub const LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The secret of a session. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSecret(String);

impl SessionSecret {
    /// The secret with these encoded random bytes.
    #[must_use]
    pub fn new(encoded: &str) -> Self {
        Self(format!("{PREFIX}{encoded}"))
    }

    /// The text itself, to send it to its holder.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecret(…)")
    }
}

/// A valid session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Who signed in.
    pub holder: Holder,
    /// When it ends at the latest.
    pub expires_at: Timestamp,
}

/// Who signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A person, with a role in each of these orgs, in the order of their names; at least one.
    User(User, Vec<OrgRole>),
    /// Somebody with a token; the name of its org.
    Token(Principal, String),
}

impl Session {
    /// Its holder in the first of its orgs.
    #[must_use]
    pub fn first(&self) -> Option<(Principal, OrgId)> {
        match &self.holder {
            Holder::User(user, roles) => roles.first().map(|role| (role.principal(user), role.org)),
            Holder::Token(principal, _) => Some((principal.clone(), principal.home())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token;

    #[test]
    fn secret_is_recognised_like_a_token_and_hidden() {
        let secret = SessionSecret::new(&"s".repeat(52));
        assert!(token::is_in(&format!("/v1/x?y={}", secret.reveal())));
        assert_eq!(token::id_in(secret.reveal()), None);
        assert!(!format!("{secret:?}").contains("ssss"));
    }
}
