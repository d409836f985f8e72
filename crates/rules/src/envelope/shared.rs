//! The keys of an installation, shared by everything that uses them, so that a rotated or restored
//! key takes effect without a restart.

use std::sync::{Arc, PoisonError, RwLock};

use super::{Decryptor, Encryptor, Keyring};

/// Keys that can be replaced while they are used: every clone, and every [`Encryptor`] and
/// [`Decryptor`] made from one, uses the newest set.
#[derive(Debug, Clone)]
pub struct SharedKeyring {
    keys: Arc<RwLock<Keyring>>,
}

impl SharedKeyring {
    /// Shares these keys.
    #[must_use]
    pub fn new(keys: Keyring) -> Self {
        Self { keys: Arc::new(RwLock::new(keys)) }
    }

    /// The keys as they are now.
    #[must_use]
    pub fn current(&self) -> Keyring {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the keys that it has by these. Keys that are not among them stay: what they
    /// encrypted can still be read.
    pub fn update(&self, read: Keyring) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        keys.keys.extend(read.keys);
    }

    /// Encrypts with these keys, and does not decrypt.
    #[must_use]
    pub fn encryptor(&self) -> Encryptor {
        Encryptor { keys: self.clone() }
    }

    /// Decrypts with these keys.
    #[must_use]
    pub fn decryptor(&self) -> Decryptor {
        Decryptor { keys: self.clone() }
    }
}
