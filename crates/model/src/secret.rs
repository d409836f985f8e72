//! Secrets that users set: their metadata, and the encrypted forms they are stored in.
//!
//! Only [`SecretValue`] holds the plaintext: in a request and in an order.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretBox, SecretString};
use serde::{Deserialize, Deserializer, Serializer, de};
use serde_json::Value;

use crate::variable::{Scope, VariableName};

/// A secret in memory: a value of an org, a token, a database URL.
///
/// It is wiped when it is dropped. `Debug` hides it and it has no `Serialize`, so no log, event or order can
/// contain it; a field that must be written names [`expose`].
#[derive(Clone)]
pub struct SecretValue(SecretString);

impl SecretValue {
    /// Wraps a secret.
    #[must_use]
    pub fn new(value: String) -> Self {
        Self(value.into())
    }

    /// The secret itself: to render, encrypt or send it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        self.0.expose_secret()
    }
}

/// The master key of an install: passwords, generated secrets, proofs and signatures derive from it.
///
/// Like every secret it is wiped when it is dropped, and hidden from `Debug`.
#[derive(Clone)]
pub struct MasterKey(Arc<SecretBox<[u8; 32]>>);

impl MasterKey {
    /// Wraps the key.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Arc::new(SecretBox::new(Box::new(bytes))))
    }

    /// The key itself: to derive others from it.
    #[must_use]
    pub fn reveal(&self) -> &[u8; 32] {
        self.0.expose_secret()
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(…)")
    }
}

impl From<String> for SecretValue {
    fn from(value: String) -> Self {
        Self::new(value)
    }
}

impl PartialEq for SecretValue {
    fn eq(&self, other: &Self) -> bool {
        self.reveal() == other.reveal()
    }
}

impl Eq for SecretValue {}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

impl<'de> Deserialize<'de> for SecretValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde's own messages repeat the value they did not expect.
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::new(text)),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => Err(de::Error::custom("must be a string")),
        }
    }
}

/// Serializes a secret in clear, for a field whose purpose that is: `#[serde(serialize_with = "expose")]`.
///
/// # Errors
/// Those of the serializer.
pub fn expose<S: Serializer>(secret: &SecretValue, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.reveal())
}

/// A secret without its value: all that the API ever returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its name in the container's environment.
    pub name: VariableName,
    /// Incremented each time it is set or deleted.
    pub version: i64,
    /// Who set it.
    pub set_by: String,
    /// When.
    pub set_at: Timestamp,
}

/// What an encrypted value belongs to.
///
/// It is associated data of the encryption, so a value copied to another place does not decrypt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its owner.
    pub scope: Scope,
    /// Its name.
    pub name: VariableName,
    /// Its version.
    pub version: i64,
}

/// Encrypted bytes with their nonce.
#[derive(Clone, PartialEq, Eq)]
pub struct Ciphertext {
    /// The nonce: never used twice with one key.
    pub nonce: [u8; 12],
    /// Ciphertext and tag.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Ciphertext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ciphertext({} bytes)", self.bytes.len())
    }
}

/// An org's data key, encrypted with one of the install's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    /// The number of the install's key it is encrypted with.
    pub key: u32,
    /// The encrypted data key.
    pub sealed: Ciphertext,
}

/// An encrypted secret with all that is needed to decrypt it, except for the install's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptedSecret {
    /// What it belongs to.
    pub place: Place,
    /// The encrypted value.
    pub sealed: Ciphertext,
    /// The data key of its org; none if it was destroyed.
    pub org_key: Option<WrappedKey>,
}
