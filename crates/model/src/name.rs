//! Names that users choose: one strict alphabet, because they become parts of Kubernetes names and
//! URLs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A name that a user chose: a DNS label of at most 40 characters that starts with a letter.
///
/// Forty leaves room for the tail of an id inside Kubernetes' 63.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// The longest name that is accepted.
pub const MAX_LEN: usize = 40;

/// Names with a meaning of their own in a cluster or a path.
const RESERVED: &[&str] = &["default", "trueup", "kube-system", "kube-public", "kube-node-lease"];

/// Why a text is not a valid name; the message says how to fix it.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum NameError {
    /// Empty or too long.
    #[error("must have 1 to {MAX_LEN} characters, has {length}")]
    Length {
        /// The number of characters.
        length: usize,
    },
    /// A character outside a-z, 0-9 and '-', or one in the wrong place.
    #[error("must start with a letter, end with a letter or digit, and use only a-z, 0-9 and '-'")]
    Alphabet,
    /// A name reserved by the platform.
    #[error("is reserved; choose another name")]
    Reserved,
}

impl Name {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let length = text.chars().count();
        if length == 0 || length > MAX_LEN {
            return Err(NameError::Length { length });
        }
        let bytes = text.as_bytes();
        let inner =
            bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-');
        let first = bytes.first().is_some_and(u8::is_ascii_lowercase);
        let last = bytes.last().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if !(inner && first && last) {
            return Err(NameError::Alphabet);
        }
        if RESERVED.contains(&text) || text.starts_with("kube-") {
            return Err(NameError::Reserved);
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_are_kept_unchanged() {
        for good in ["web", "a", "shop-2", "a1-b2-c3", &"x".repeat(MAX_LEN)] {
            assert_eq!(good.parse::<Name>().map(String::from), Ok(good.to_owned()));
        }
    }

    #[test]
    fn invalid_names_return_the_matching_error() {
        let cases = [
            ("", NameError::Length { length: 0 }),
            (&"x".repeat(41), NameError::Length { length: 41 }),
            ("Web", NameError::Alphabet),
            ("1web", NameError::Alphabet),
            ("web-", NameError::Alphabet),
            ("-web", NameError::Alphabet),
            ("we.b", NameError::Alphabet),
            ("we_b", NameError::Alphabet),
            ("wéb", NameError::Alphabet),
            (&"é".repeat(30), NameError::Alphabet),
            ("web\n", NameError::Alphabet),
            ("kube-system", NameError::Reserved),
            ("kube-anything", NameError::Reserved),
            ("default", NameError::Reserved),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Name>(), Err(error), "{text:?}");
        }
    }
}
