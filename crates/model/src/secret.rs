//! Secrets that people bring: what is known of one, and the sealed forms it is stored in.
//!
//! None of these types has the secret in clear. That exists only as `order::SecretValue`, on its
//! way in through the door and on its way out into a cluster.

use std::fmt;

use jiff::Timestamp;

use crate::variable::{Scope, VariableName};

/// A secret without its value: all that anybody is ever shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// What containers call it.
    pub name: VariableName,
    /// Raised each time it is set or taken away.
    pub version: i64,
    /// Who set it.
    pub set_by: String,
    /// When.
    pub set_at: Timestamp,
}

/// Where a sealed value belongs. It is bound into the seal, so a value moved elsewhere does not open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Whose it is.
    pub scope: Scope,
    /// What it is called.
    pub name: VariableName,
    /// Which version.
    pub version: i64,
}

/// Bytes that only the right key opens.
#[derive(Clone, PartialEq, Eq)]
pub struct Ciphertext {
    /// Never used twice with one key.
    pub nonce: [u8; 12],
    /// Ciphertext and tag.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Ciphertext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ciphertext({} bytes)", self.bytes.len())
    }
}

/// An org's data key, sealed by the install's key with this number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    /// Which key of the install seals it.
    pub key: u32,
    /// The data key.
    pub sealed: Ciphertext,
}

/// A sealed secret with all that it takes to open it, but for the install's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptedSecret {
    /// Where it belongs.
    pub place: Place,
    /// The value.
    pub sealed: Ciphertext,
    /// The data key of its org; none if it was destroyed.
    pub org_key: Option<WrappedKey>,
}
