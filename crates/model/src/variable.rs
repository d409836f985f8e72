//! Variables set outside a manifest: for all services of a project, or for one service.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{OrgId, ProjectId, ServiceId};

/// A variable's name as POSIX has it: letters, digits and underscores, no digit first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VariableName(String);

/// The longest name that is accepted.
pub const MAX_NAME: usize = 128;
/// The maximum length of a value, in bytes.
pub const MAX_VALUE: usize = 32_768;

/// A text that is not a variable's name.
///
/// The message does not repeat the text, which may be a secret entered in the wrong place.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("must have 1 to {MAX_NAME} letters, digits and '_', and must not start with a digit")]
pub struct VariableNameError;

impl VariableName {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for VariableName {
    type Err = VariableNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        let rest = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if first && rest && text.len() <= MAX_NAME {
            Ok(Self(text.to_owned()))
        } else {
            Err(VariableNameError)
        }
    }
}

impl TryFrom<String> for VariableName {
    type Error = VariableNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<VariableName> for String {
    fn from(name: VariableName) -> Self {
        name.0
    }
}

impl fmt::Display for VariableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The owner of a variable or a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// The tenant.
    pub org: OrgId,
    /// The project.
    pub project: ProjectId,
    /// The service; none if all services of the project share it.
    pub service: Option<ServiceId>,
}

/// A variable as it was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name in the container's environment.
    pub name: VariableName,
    /// Its value.
    pub value: String,
    /// Incremented each time it is set or deleted.
    pub version: i64,
    /// Who set it.
    pub set_by: String,
    /// When.
    pub set_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_posix_names() {
        for good in ["A", "_", "a1", "DATABASE_URL", &"x".repeat(MAX_NAME)] {
            assert_eq!(good.parse::<VariableName>().map(String::from), Ok(good.to_owned()));
        }
        for bad in ["", "1A", "A-B", "A.B", "A B", "Ä", "A\n", "A\0", "A=B", &"x".repeat(129)] {
            assert_eq!(bad.parse::<VariableName>(), Err(VariableNameError), "{bad:?}");
        }
    }
}
