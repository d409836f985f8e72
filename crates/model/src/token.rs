//! Tokens: `tu_`, the id's 26 characters, `_`, and 52 characters that only the holder knows.
//!
//! The id is part of the text, so that a token found somewhere can be revoked by whoever finds it
//! without trying it. Only small letters, digits and underscores: one double click marks all of it.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;

use crate::id::TokenId;
use crate::principal::{Permission, Role};

/// What every token begins with.
pub const PREFIX: &str = "tu_";
/// How many characters after the prefix are enough to take a text for a token.
const TELLING: usize = 20;
/// The longest name of a token.
const MAX_NAME: usize = 60;

/// A token as its holder has it. It has no text form by accident: no log and no event can carry it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenText(String);

impl TokenText {
    /// The text made of an id and a secret that is encoded already.
    #[must_use]
    pub fn new(id: TokenId, secret: &str) -> Self {
        Self(format!("{PREFIX}{}_{secret}", id.tail(26)))
    }

    /// The text itself: to show it once, or to send it.
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

/// The id inside a token's text, where it has one.
#[must_use]
pub fn id_in(text: &str) -> Option<TokenId> {
    let tail = text.strip_prefix(PREFIX)?.get(..26)?;
    format!("tok_{tail}").parse().ok()
}

/// Whether a text holds something that looks like one of our tokens.
#[must_use]
pub fn is_in(text: &str) -> bool {
    text.match_indices(PREFIX).any(|(at, _)| {
        let rest = text.get(at.saturating_add(PREFIX.len())..).unwrap_or_default();
        let word = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_');
        word.count() >= TELLING
    })
}

/// Why a text is not the name of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must have 1 to {MAX_NAME} characters, begin and end with none that is blank, and hold no token"
)]
pub struct TokenNameError;

/// What people call a token: a label that is shown beside what its holder does.
///
/// # Errors
/// It is empty, too long, has control characters, or is a token itself by mistake.
pub fn check_name(text: &str) -> Result<(), TokenNameError> {
    let length = text.chars().count();
    let blank_end = text.trim() != text;
    let control = text.chars().any(char::is_control);
    if length == 0 || length > MAX_NAME || blank_end || control || is_in(text) {
        return Err(TokenNameError);
    }
    Ok(())
}

/// What somebody wants a new token to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSpec {
    /// What it is called.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The only permissions it shall have of its role; none means all of them.
    pub permissions: Option<BTreeSet<Permission>>,
    /// When it shall end.
    pub expires_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_token_names_itself_and_hides_the_rest() {
        let id = TokenId::from_uuid(Uuid::from_u128(0x0188_6f5a_1234_7abc_8def_0123_4567_89ab));
        let token = TokenText::new(id, &"s".repeat(52));
        assert_eq!(token.reveal().len(), 3 + 26 + 1 + 52);
        assert_eq!(id_in(token.reveal()), Some(id));
        assert!(is_in(&format!("/v1/x?y={}", token.reveal())));
        assert!(!format!("{token:?}").contains("ssss"));
    }

    #[test]
    fn what_is_no_token_is_left_alone() {
        for text in ["", "tu_", "tu_x", "statu_s", "/v1/tu_wrong", "tok_01h455vb4pex5vsknk084sn02q"]
        {
            assert!(!is_in(text), "{text}");
            assert_eq!(id_in(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_is_a_label_and_never_a_secret() {
        for good in ["ci", "demo owner", "Ada's laptop", "été"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let token = format!("tu_{}", "a".repeat(79));
        for bad in ["", " ci", "ci ", "a\nb", "\0", &"x".repeat(61), &token] {
            assert_eq!(check_name(bad), Err(TokenNameError), "{bad:?}");
        }
    }
}
