//! Tokens: `tu_`, the id's 26 characters, `_`, and 52 characters that only the holder knows.
//!
//! The id is part of the text, so that a leaked token can be revoked without using it. It has only
//! lower-case letters, digits and underscores, so that a double click selects all of it.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;

use crate::id::{ProjectId, TokenId};
use crate::principal::{Permission, Role};

/// The prefix of every token.
pub const PREFIX: &str = "tu_";
/// A word with at least this many characters after the prefix is taken for a token.
const MIN_MATCH: usize = 20;
/// The maximum length of a token's name.
pub const MAX_NAME: usize = 60;

/// The full text of a token. `Debug` hides it, so no log and no event can contain it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenText(String);

impl TokenText {
    /// The text of a token with this id and encoded secret.
    #[must_use]
    pub fn new(id: TokenId, secret: &str) -> Self {
        Self(format!("{PREFIX}{}_{secret}", id.tail(26)))
    }

    /// The text itself, to show it once or to send it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(…)")
    }
}

/// The id inside a token's text, if it has one.
#[must_use]
pub fn id_in(text: &str) -> Option<TokenId> {
    let tail = text.strip_prefix(PREFIX)?.get(..26)?;
    format!("tok_{tail}").parse().ok()
}

/// Whether a text contains something that looks like one of our tokens.
#[must_use]
pub fn is_in(text: &str) -> bool {
    text.match_indices(PREFIX).any(|(at, _)| {
        let rest = text.get(at.saturating_add(PREFIX.len())..).unwrap_or_default();
        let word = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_');
        word.count() >= MIN_MATCH
    })
}

/// Why a text is not the name of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must have 1 to {MAX_NAME} characters, no leading or trailing blanks and no control \
     characters, and must not contain a token"
)]
pub struct TokenNameError;

/// Checks the name of a token: a label that is shown with what its holder does.
///
/// # Errors
/// The name is empty, too long, has control characters, or contains a token.
pub fn check_name(text: &str) -> Result<(), TokenNameError> {
    let length = text.chars().count();
    let blank_end = text.trim() != text;
    let control = text.chars().any(char::is_control);
    if length == 0 || length > MAX_NAME || blank_end || control || is_in(text) {
        return Err(TokenNameError);
    }
    Ok(())
}

/// The requested properties of a new token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSpec {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The only project that it reaches; none means the whole org.
    pub project: Option<ProjectId>,
    /// The subset of its role's permissions it gets; none means all of them.
    pub permissions: Option<BTreeSet<Permission>>,
    /// When it expires, if ever.
    pub expires_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn token_contains_its_id_and_debug_hides_its_secret() {
        let id = TokenId::from_uuid(Uuid::from_u128(0x0188_6f5a_1234_7abc_8def_0123_4567_89ab));
        let token = TokenText::new(id, &"s".repeat(52));
        assert_eq!(token.reveal().len(), 3 + 26 + 1 + 52);
        assert_eq!(id_in(token.reveal()), Some(id));
        assert!(is_in(&format!("/v1/x?y={}", token.reveal())));
        assert!(!format!("{token:?}").contains("ssss"));
    }

    #[test]
    fn other_texts_are_not_taken_for_tokens() {
        for text in ["", "tu_", "tu_x", "statu_s", "/v1/tu_wrong", "tok_01h455vb4pex5vsknk084sn02q"]
        {
            assert!(!is_in(text), "{text}");
            assert_eq!(id_in(text), None, "{text}");
        }
    }

    #[test]
    fn token_name_must_not_contain_a_token() {
        for good in ["ci", "demo owner", "Ada's laptop", "été"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let token = format!("tu_{}", "a".repeat(79));
        for bad in ["", " ci", "ci ", "a\nb", "\0", &"x".repeat(61), &token] {
            assert_eq!(check_name(bad), Err(TokenNameError), "{bad:?}");
        }
    }
}
