//! Envelope encryption: each org has a data key that encrypts its secrets, and a key of the
//! installation encrypts each data key. The installation's keys are not in the database.
//!
//! Every ciphertext is bound to its place (org, project, service, name, version), so it cannot be
//! decrypted after a move to another row or org. An [`Encryptor`] only encrypts and a [`Decryptor`]
//! decrypts: the API gets the first, and only the driver the second.

mod credential;
mod shared;

use std::collections::BTreeMap;
use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use trueup_model::id::OrgId;
use trueup_model::order::SecretValue;
use trueup_model::secret::{Ciphertext, EncryptedSecret, Place, WrappedKey};

use crate::render::proof::derive;

pub use shared::SharedKeyring;

/// The keys of an installation, by number. The newest encrypts; older ones still decrypt.
#[derive(Clone, PartialEq, Eq)]
pub struct Keyring {
    keys: BTreeMap<u32, [u8; 32]>,
}

/// Why something cannot be encrypted or decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The installation does not have this key.
    #[error("encryption key {key} of this installation is missing; restore its file from a backup")]
    MissingKey {
        /// Its number.
        key: u32,
    },
    /// The org's data key was destroyed.
    #[error("the org's key was destroyed, so the value is lost; set the secret again")]
    NoOrgKey,
    /// It was encrypted with another key or for another place, or it was changed.
    #[error(
        "cannot be decrypted with this installation's keys; restore the key files of this database"
    )]
    DoesNotOpen,
}

/// Fresh random bytes for one nonce. An argument, because this crate has no randomness.
#[derive(Debug, Clone, Copy)]
pub struct Entropy(pub [u8; 12]);

impl Keyring {
    /// The keys of an installation: the first one is derived from its master key.
    #[must_use]
    pub fn new(master: &[u8; 32]) -> Self {
        Self { keys: BTreeMap::from([(1, derive(master, &["secrets", "1"]))]) }
    }

    /// The same keys and one more, from a key rotation.
    #[must_use]
    pub fn with(mut self, number: u32, key: &[u8; 32]) -> Self {
        self.keys.insert(number, derive(key, &["secrets", &number.to_string()]));
        self
    }

    /// The number of the key that encrypts.
    #[must_use]
    pub fn newest(&self) -> u32 {
        self.keys.keys().next_back().copied().unwrap_or(1)
    }

    /// Encrypts with these keys, and does not decrypt.
    #[must_use]
    pub fn encryptor(self) -> Encryptor {
        SharedKeyring::new(self).encryptor()
    }

    /// Decrypts with these keys.
    #[must_use]
    pub fn decryptor(self) -> Decryptor {
        SharedKeyring::new(self).decryptor()
    }

    /// The same data key, encrypted with the newest key of the installation.
    ///
    /// # Errors
    /// The key it was encrypted with is missing or wrong.
    pub fn rewrap(
        &self,
        org: OrgId,
        old: &WrappedKey,
        entropy: Entropy,
    ) -> Result<WrappedKey, EnvelopeError> {
        self.wrap(org, &self.unwrap(org, old)?, entropy)
    }

    fn wrap(
        &self,
        org: OrgId,
        data_key: &[u8],
        entropy: Entropy,
    ) -> Result<WrappedKey, EnvelopeError> {
        let key = self.newest();
        let with = self.keys.get(&key).ok_or(EnvelopeError::MissingKey { key })?;
        Ok(WrappedKey { key, sealed: seal(with, &of_org(org, key), entropy, data_key)? })
    }

    fn unwrap(&self, org: OrgId, wrapped: &WrappedKey) -> Result<[u8; 32], EnvelopeError> {
        let key = wrapped.key;
        let with = self.keys.get(&key).ok_or(EnvelopeError::MissingKey { key })?;
        let bytes = open(with, &of_org(org, key), &wrapped.sealed)?;
        bytes.try_into().map_err(|_| EnvelopeError::DoesNotOpen)
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({:?}, …)", self.keys.keys())
    }
}

/// Encrypts secrets, and cannot decrypt them.
#[derive(Debug, Clone)]
pub struct Encryptor {
    keys: SharedKeyring,
}

impl Encryptor {
    /// A data key for an org, from fresh random bytes.
    ///
    /// # Errors
    /// The installation has no key.
    pub fn new_org_key(
        &self,
        org: OrgId,
        fresh: &[u8; 32],
        entropy: Entropy,
    ) -> Result<WrappedKey, EnvelopeError> {
        self.keys.current().wrap(org, fresh, entropy)
    }

    /// Encrypts a value for this place.
    ///
    /// # Errors
    /// The key that the org's data key was encrypted with is missing or wrong.
    pub fn seal(
        &self,
        org_key: &WrappedKey,
        place: &Place,
        value: &SecretValue,
        entropy: Entropy,
    ) -> Result<Ciphertext, EnvelopeError> {
        let data_key = self.keys.current().unwrap(place.scope.org, org_key)?;
        seal(&of_value(&data_key, place), &of_place(place), entropy, value.reveal().as_bytes())
    }
}

/// Decrypts secrets.
#[derive(Debug, Clone)]
pub struct Decryptor {
    keys: SharedKeyring,
}

impl Decryptor {
    /// The value that was encrypted for exactly this place.
    ///
    /// # Errors
    /// A key is missing or wrong, or the value was encrypted for another place.
    pub fn open(&self, secret: &EncryptedSecret) -> Result<SecretValue, EnvelopeError> {
        let place = &secret.place;
        let org_key = secret.org_key.as_ref().ok_or(EnvelopeError::NoOrgKey)?;
        let data_key = self.keys.current().unwrap(place.scope.org, org_key)?;
        let bytes = open(&of_value(&data_key, place), &of_place(place), &secret.sealed)?;
        let text = String::from_utf8(bytes).map_err(|_| EnvelopeError::DoesNotOpen)?;
        Ok(SecretValue::new(text))
    }
}

/// The key of one version of one secret, so that no two ciphertexts share key and nonce.
fn of_value(data_key: &[u8; 32], place: &Place) -> [u8; 32] {
    let scope = place.scope;
    let service = scope.service.map(|id| id.to_string()).unwrap_or_default();
    let project = scope.project.to_string();
    let version = place.version.to_string();
    derive(data_key, &["value", &project, &service, place.name.as_str(), &version])
}

/// The associated data of a value. Each part has its length first, so the encoding is unambiguous.
fn of_place(place: &Place) -> Vec<u8> {
    let scope = place.scope;
    let service = scope.service.map(|id| id.to_string()).unwrap_or_default();
    bound(&[
        "trueup secret",
        &scope.org.to_string(),
        &scope.project.to_string(),
        &service,
        place.name.as_str(),
        &place.version.to_string(),
    ])
}

fn of_org(org: OrgId, key: u32) -> Vec<u8> {
    bound(&["trueup org key", &org.to_string(), &key.to_string()])
}

fn bound(parts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend(part.as_bytes());
    }
    bytes
}

fn cipher(key: &[u8; 32]) -> Result<LessSafeKey, EnvelopeError> {
    let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| EnvelopeError::DoesNotOpen)?;
    Ok(LessSafeKey::new(key))
}

fn seal(
    key: &[u8; 32],
    bound_to: &[u8],
    Entropy(nonce): Entropy,
    clear: &[u8],
) -> Result<Ciphertext, EnvelopeError> {
    let mut bytes = clear.to_vec();
    cipher(key)?
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(bound_to),
            &mut bytes,
        )
        .map_err(|_| EnvelopeError::DoesNotOpen)?;
    Ok(Ciphertext { nonce, bytes })
}

fn open(key: &[u8; 32], bound_to: &[u8], sealed: &Ciphertext) -> Result<Vec<u8>, EnvelopeError> {
    let mut bytes = sealed.bytes.clone();
    let nonce = Nonce::assume_unique_for_key(sealed.nonce);
    let clear = cipher(key)?
        .open_in_place(nonce, Aad::from(bound_to), &mut bytes)
        .map_err(|_| EnvelopeError::DoesNotOpen)?;
    Ok(clear.to_vec())
}
