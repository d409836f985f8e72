//! Users: people with an account, their addresses, and the roles they have in orgs.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

use crate::id::{OrgId, UserId};
use crate::org::PLATFORM;
use crate::principal::{Principal, PrincipalId, ProjectRole, Role};
use crate::token;

/// The maximum length of an address (RFC 5321).
pub const MAX_EMAIL: usize = 254;
/// The maximum length of a person's name.
pub const MAX_NAME: usize = 100;

/// An email address, in lower case: two spellings of an address are one account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EmailAddress(String);

/// Why a text is not an email address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an email address such as ada@example.com, with at most {MAX_EMAIL} characters")]
pub struct EmailAddressError;

impl EmailAddress {
    /// The text, in lower case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EmailAddress {
    type Err = EmailAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (local, host) = text.split_once('@').ok_or(EmailAddressError)?;
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        // What separates addresses in a list or starts a comment has no place in one.
        let plain = !text.contains(['<', '>', '(', ')', ',', ';', ':', '"', '\\', '[', ']']);
        let labels = host.split('.').all(|label| {
            let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            !label.is_empty() && inner && !label.starts_with('-') && !label.ends_with('-')
        });
        let fits = text.len() <= MAX_EMAIL && (1..=64).contains(&local.len());
        if !printable || !plain || !labels || !fits || !host.contains('.') {
            return Err(EmailAddressError);
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not a person's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must have 1 to {MAX_NAME} characters, no leading or trailing blanks and no control \
     characters, and must not contain a token"
)]
pub struct PersonNameError;

/// Checks a person's name. Everything that is a text on one line is somebody's name.
///
/// # Errors
/// The name is empty, too long, has control characters, or contains a token.
pub fn check_name(text: &str) -> Result<(), PersonNameError> {
    let length = text.chars().count();
    let control = text.chars().any(char::is_control);
    if length == 0 || length > MAX_NAME || text.trim() != text || control || token::is_in(text) {
        return Err(PersonNameError);
    }
    Ok(())
}

/// A person with an account, without the password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The id.
    pub id: UserId,
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
}

/// A user's role in an org.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrgRole {
    /// The org.
    pub org: OrgId,
    /// Its name.
    pub org_name: String,
    /// The role.
    pub role: Role,
    /// The roles in single projects of the org.
    pub projects: Vec<ProjectRole>,
}

impl OrgRole {
    /// The user with this role.
    #[must_use]
    pub fn principal(&self, user: &User) -> Principal {
        Principal {
            id: PrincipalId::User(user.id),
            name: user.name.clone(),
            role: self.role,
            projects: self.projects.clone(),
            org: Some(self.org).filter(|org| *org != PLATFORM),
            permissions: None,
            expires_at: None,
        }
    }
}

/// A member of an org.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The person.
    pub user: User,
    /// The role in the org.
    pub role: Role,
    /// The roles in single projects, in the order of their names.
    pub projects: Vec<ProjectRole>,
    /// Since when.
    pub joined_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_in_lower_case() {
        let ada: EmailAddress = "Ada.Lovelace+x@Example.COM".parse().unwrap();
        assert_eq!(ada.as_str(), "ada.lovelace+x@example.com");
        assert_eq!(ada.to_string().parse(), Ok(ada));
    }

    #[test]
    fn other_texts_are_not_addresses() {
        let long = format!("{}@example.com", "a".repeat(65));
        for text in [
            "",
            "ada",
            "@example.com",
            "ada@",
            "ada@example",
            "ada@@example.com",
            "ada@exa mple.com",
            "ada@example.com\r\nBcc: eve@example.com",
            "ada@example.com, eve@example.com",
            "<ada@example.com>",
            "ada@-example.com",
            "ada@example..com",
            "ad\0a@example.com",
            "adä@example.com",
            &long,
        ] {
            assert_eq!(text.parse::<EmailAddress>(), Err(EmailAddressError), "{text:?}");
        }
    }

    #[test]
    fn name_is_one_line_without_a_token() {
        for good in ["Ada", "Ada Lovelace", "Иван", "O'Neil, Jr."] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let token = format!("tu_{}", "a".repeat(79));
        for bad in ["", " ", " Ada", "Ada\n", "a\0", &"x".repeat(101), &token] {
            assert_eq!(check_name(bad), Err(PersonNameError), "{bad:?}");
        }
    }
}
