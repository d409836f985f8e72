//! Credentials of identity providers: encrypted like secrets, and bound to the provider or person they belong to.

use trueup_model::id::OrgId;
use trueup_model::order::SecretValue;
use trueup_model::provider::{CredentialKind, EncryptedCredential};
use trueup_model::secret::{Ciphertext, WrappedKey};

use super::{Decryptor, Encryptor, Entropy, EnvelopeError, bound, open, seal};
use crate::render::proof::derive;

impl Encryptor {
    /// Encrypts a credential of this org.
    ///
    /// # Errors
    /// The key that the org's data key was encrypted with is missing or wrong.
    pub fn seal_credential(
        &self,
        org: OrgId,
        org_key: &WrappedKey,
        kind: CredentialKind,
        value: &SecretValue,
        entropy: Entropy,
    ) -> Result<Ciphertext, EnvelopeError> {
        let data_key = self.keys.current().unwrap(org, org_key)?;
        let key = key_of(&data_key, kind);
        seal(&key, &place_of(org, kind), entropy, value.reveal().as_bytes())
    }
}

impl Decryptor {
    /// The credential that was encrypted for exactly this provider or person.
    ///
    /// # Errors
    /// A key is missing or wrong, or the credential was encrypted for another one.
    pub fn open_credential(&self, of: &EncryptedCredential) -> Result<SecretValue, EnvelopeError> {
        let org_key = of.org_key.as_ref().ok_or(EnvelopeError::NoOrgKey)?;
        let data_key = self.keys.current().unwrap(of.org, org_key)?;
        let bytes = open(&key_of(&data_key, of.kind), &place_of(of.org, of.kind), &of.sealed)?;
        let text = String::from_utf8(bytes).map_err(|_| EnvelopeError::DoesNotOpen)?;
        Ok(SecretValue::new(text))
    }
}

fn named(kind: CredentialKind) -> (&'static str, String) {
    match kind {
        CredentialKind::ClientSecret(provider) => ("client secret", provider.to_string()),
        CredentialKind::RefreshToken(identity) => ("refresh token", identity.to_string()),
    }
}

/// The key of one credential. Its nonces are random, and it encrypts few values.
fn key_of(data_key: &[u8; 32], kind: CredentialKind) -> [u8; 32] {
    let (kind, id) = named(kind);
    derive(data_key, &["credential", kind, &id])
}

fn place_of(org: OrgId, kind: CredentialKind) -> Vec<u8> {
    let (kind, id) = named(kind);
    bound(&["trueup credential", &org.to_string(), kind, &id])
}
